"""Engines that others made, in environments of their own: installed, started, audited.

Nothing here is needed to use this project. It shows that the adapters and the audit hold against
what people really run.
"""

"""`make bench`: how fast this engine is, beside what a reader would compare it with.

Every number is a ratio of two arms that took turns on the same prompts in one process, because two
runs on a shared machine are not comparable. Nothing here decides anything: releases are judged by
the evaluation (`make evaluate`), whose rules were written down beforehand.
"""

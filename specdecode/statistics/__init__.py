"""Intervals and sequential tests. The unit of analysis is the prompt (cluster), never the token."""

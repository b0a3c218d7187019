"""Checks on compiled prompts with Great Expectations; imported only when a check runs."""

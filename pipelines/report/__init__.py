"""The evaluation report: one self-contained HTML page and the same pictures as files."""

"""The pictures of the report, one idea a file."""

"""Live traffic in front of two servers: who answers, what is copied, and what is recorded."""

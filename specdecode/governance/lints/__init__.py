"""What is asked of a plan: one file a topic, one small function a question."""

"""Where points run: in this process or on worker processes."""

"""What changed between documents: two of them, or many through time."""

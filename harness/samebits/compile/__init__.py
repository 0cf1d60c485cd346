"""Programs compiled for a target, both sides beside each other."""

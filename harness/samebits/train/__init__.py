"""Training runs of a full model: runs them, records every step, and compares the runs."""

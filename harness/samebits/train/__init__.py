"""Training runs of a full model: run, recorded, and held against each other."""

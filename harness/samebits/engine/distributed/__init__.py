"""Several processes with one mesh: how they start, what they compare before the first point, and one machine's launcher."""

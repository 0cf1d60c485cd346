"""Several processes with one mesh: how they start, what they compare first, and a launcher for one machine."""

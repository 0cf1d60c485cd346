"""Several processes in lockstep, and a cluster of Ray: an optional room, which `rooms` finds."""

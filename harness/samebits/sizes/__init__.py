"""Proofs for every size at once: an optional room, which `rooms` finds."""

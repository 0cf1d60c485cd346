"""Snapshots of verdicts: bits that an environment was seen to give beyond what the contracts promise everywhere."""

"""Snapshots of verdicts: equal bits that were observed in an environment beyond what the contracts promise."""

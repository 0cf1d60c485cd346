"""Planted faults: every check is shown to fail on the fault that it is there for."""

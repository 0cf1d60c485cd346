"""The jaxpr interpreter in NumPy and its abstract domains: `labels`, `field`, `oracle`, `rounding`. No device."""

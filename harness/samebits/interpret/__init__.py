"""The jaxpr interpreter in NumPy and its abstract domains: `labels`, `field`, `oracle`, `rounding`. No device.

What a domain does not follow raises `NotCovered`, which names the equation and its source line.
"""

"""One walk over a jaxpr in NumPy, several meanings: `labels`, `field`, `oracle` and `rounding`. No device is needed."""

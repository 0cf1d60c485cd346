"""Pallas kernels that come with jax, each beside its plain form and faults planted into its source."""

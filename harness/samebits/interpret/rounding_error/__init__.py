"""The domain with a running error bound beside each float64 value."""

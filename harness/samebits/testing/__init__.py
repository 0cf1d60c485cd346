"""What users' own tests need: the pytest plugin and hypothesis strategies."""

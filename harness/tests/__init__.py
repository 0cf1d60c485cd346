"""samebits' own tests."""

"""The domain of numbers whose bits do not depend on the machine."""

"""Two functions without a declaration: asserted, checked, proved and compiled side by side."""

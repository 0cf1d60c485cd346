"""Formulas of every size: sums of products with bound indices, and their equality by the laws of real arithmetic."""

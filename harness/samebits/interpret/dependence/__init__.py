"""The abstract domain of dependence: which groups of input elements each element may be computed from."""

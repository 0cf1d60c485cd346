"""Labels with symbolic sizes: index maps of programs as polynomials, so that one proof holds for every size."""

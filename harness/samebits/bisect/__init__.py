"""Bisections, one file each: what a point is and how it is judged. The searches are in `search/`."""

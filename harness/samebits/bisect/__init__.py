"""Bisections, one file each: the points of a search and how they are judged. The algorithms are in `search/`."""

"""`samebits bisect commits`: finds the commit, or the change of pinned packages, that introduced a failure."""

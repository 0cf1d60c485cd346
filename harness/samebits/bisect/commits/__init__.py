"""`samebits bisect commits`: the commit, or the change of pinned packages, that introduced a failure."""

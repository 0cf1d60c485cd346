"""Where this package lies on disk."""

from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
"""The folder `samebits`; its parent is what Python's path must hold."""

CARRIED = PACKAGE / "builtin"
"""The pairs that an installed package carries as data; in a repository there is no such folder."""

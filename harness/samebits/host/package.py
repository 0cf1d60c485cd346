"""Where this package lies on disk."""

from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
"""The folder `samebits`; its parent is what Python's path must hold."""

CARRIED = PACKAGE / "builtin"
"""The pairs that an installed package carries as data; in a repository there is no such folder."""


def builtin_tree() -> Path:
    """The pairs that samebits brings along: this repository's own, or those that an installed package carries."""
    repository = PACKAGE.parents[1]
    return repository if repository / "harness" / "samebits" == PACKAGE else CARRIED

"""Which pairs of this tree can run here: those whose suite file imports only packages that are installed.

`python examples/libraries/installed.py` prints their names, for `samebits check`, and on the error stream the others
with what they lack.
"""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path

SUITES = Path(__file__).resolve().parent / "suites"


def missing_packages(suites: Path = SUITES) -> dict[str, tuple[str, ...]]:
    """The packages that each pair imports and that are not installed, by the name of the pair, without importing any.

    Args:
        suites: the folder of the suite files.

    Returns:
        Every pair; an empty tuple where it can run.
    """
    pairs = {}
    for path in sorted(suites.glob("test_*.py")):
        packages = sorted(_packages(ast.parse(path.read_text(encoding="utf-8"))))
        absent = tuple(package for package in packages if importlib.util.find_spec(package) is None)
        pairs[path.stem.removeprefix("test_")] = absent
    return pairs


def _packages(tree: ast.Module) -> set[str]:
    """The first part of every module that a file imports."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.partition(".")[0])
    return names


def main() -> None:
    """Print the names."""
    pairs = missing_packages()
    for name, absent in pairs.items():
        if absent:
            print(f"left out: {name} needs {', '.join(absent)}", file=sys.stderr)
    print("\n".join(name for name, absent in pairs.items() if not absent))


if __name__ == "__main__":
    main()

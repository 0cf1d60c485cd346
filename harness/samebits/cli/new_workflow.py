"""`samebits new --ci`: a GitHub workflow that checks a tree of pairs with samebits' own action."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from samebits.errors import RequestError
from samebits.host import git
from samebits.host.accelerator import package_version

ACTION = f"samebits/samebits@v{package_version('samebits')}"
"""The action of this version."""

WORKFLOW = ".github/workflows/samebits.yml"

_USES = re.compile(r"(\./\S*|\.|[\w.-]+/[\w./-]+@[\w./-]+)")

_TEXT = """\
name: samebits

on:
  pull_request:
  push:
    branches: [main, master]

permissions:
  contents: read

jobs:
  samebits:
    runs-on: ubuntu-24.04
    timeout-minutes: 60
    steps:
      - uses: actions/checkout@v4
        with:
          fetch-depth: 0 # the base of a pull request is checked out too
      - uses: {action}
        with:
          python-version: "{python}"{inputs}
          base: ${{{{ github.event.pull_request.base.sha }}}} # empty on a push: nothing is compared with then
"""


def workflow(tree: Path, action: str) -> tuple[Path, str]:
    """The path and the text of the workflow.

    Args:
        tree: of the pairs; the workflow belongs to the top of its repository.
        action: as in `uses:`.

    Raises:
        RequestError: the action is not spelled as GitHub does.
    """
    if not _USES.fullmatch(action):
        raise RequestError(f"--action {action}: expected OWNER/REPOSITORY@REF, or ./FOLDER of this repository")
    top = _top(tree)
    inputs = {"install": _installs(top), "root": _inside(tree, top)}
    lines = "".join(f"\n          {name}: {text}" for name, text in inputs.items() if text)
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    return top / WORKFLOW, _TEXT.format(action=action, python=python, inputs=lines)


def _top(tree: Path) -> Path:
    """The top of the repository of a tree; the tree itself where it is in none."""
    try:
        return git.top_folder(tree)
    except RequestError:  # not yet a repository: GitHub reads the workflow at its top, wherever that will be
        return tree


def _inside(tree: Path, top: Path) -> str:
    inside = tree.resolve().relative_to(top.resolve()).as_posix()
    return "" if inside == "." else inside


def _installs(top: Path) -> str:
    """What pip installs so that the pairs can be imported, by the files at the top of the repository."""
    if any((top / name).is_file() for name in ("pyproject.toml", "setup.py")):
        return "-e ."
    return "-r requirements.txt" if (top / "requirements.txt").is_file() else ""

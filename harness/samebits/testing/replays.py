"""The command that shows a result of a test again, typed in the folder in which pytest was started."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from types import ModuleType

import pytest

from samebits.functions.passed import REJECT_OPTION
from samebits.programs.catalogue import SUITES, Locator
from samebits.programs.implementations import root_of
from samebits.programs.replay import replay, with_settings, without_group
from samebits.schema.pair import Pair
from samebits.schema.point import Point

OWN = "PAIR"
"""The name under which a suite declares its pair; others, under other names, are run by pytest alone."""


def replay_of_test(pair: Pair, point: Point, item: pytest.Item) -> str:
    """Return `samebits check` where it finds this very declaration, else the test itself."""
    start, module = item.config.invocation_params.dir, getattr(item, "module", None)
    assuming = not item.config.getoption(REJECT_OPTION)
    if isinstance(module, ModuleType):
        if _is_of_a_tree(pair, module):
            root = root_of(pair)
            return replay(Locator(name=pair.name, root=str(root)), point, here=start, assuming=assuming)
        name = next((name for name, value in vars(module).items() if value is pair), None)
        if name is not None and _stands_alone(item):
            locator = Locator(name=f"{os.path.relpath(item.path, start)}:{name}")
            return replay(locator, point, here=start, assuming=assuming)
    name = without_group(item.nodeid).partition("::")[2]
    words = ["python", "-m", "pytest", f"{os.path.relpath(item.path, start)}::{name}"]
    devices = item.config.getoption("--samebits-devices")
    full = ["--samebits-full"] if item.config.getoption("--samebits-full") else []
    full += [] if assuming else [REJECT_OPTION]
    return with_settings(shlex.join(words + (["--samebits-devices", str(devices)] if devices else []) + full))


def _is_of_a_tree(pair: Pair, module: ModuleType) -> bool:
    """Return whether `samebits check NAME` in the tree runs this declaration."""
    file = Path(module.__file__ or "").resolve()
    declared = (
        file.parent.name == SUITES and file.name == f"test_{pair.name}.py" and Path(pair.origin).resolve() == file
    )
    return declared and getattr(module, OWN, None) is pair


def _stands_alone(item: pytest.Item) -> bool:
    """Tell whether a test file means outside pytest what it means inside: nothing of pytest's prepares its imports."""
    top = item.config.rootpath
    folders = [folder for folder in item.path.parents if folder == top or top in folder.parents]
    return not item.config.getini("pythonpath") and not any((folder / "conftest.py").is_file() for folder in folders)

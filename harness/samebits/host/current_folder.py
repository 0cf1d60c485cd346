"""The folder that modules named by the user are imported from: the current one, or what stands for it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path


class _Current:
    """What stands for the current folder in this process; None for itself."""

    folder: Path | None = None


@contextlib.contextmanager
def instead_of_current_folder(folder: Path) -> Iterator[None]:
    """Inside, modules are imported from this folder where they would be from the current one."""
    before, _Current.folder = _Current.folder, folder
    try:
        yield
    finally:
        _Current.folder = before


def current_folder() -> Path:
    """The folder that modules are imported from."""
    return _Current.folder or Path.cwd()

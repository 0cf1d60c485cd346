"""Whether code asks for the mesh while it is traced: a program that does not is the same on every mesh.

In auto mode a program is one of whole arrays. Where the code of a side never looks at the mesh, the program that is
traced without one is that of every mesh, whatever the number of devices.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from jax.sharding import AbstractMesh

from samebits.interpret.equation import is_machinery, short


@contextmanager
def mesh_queries() -> Iterator[list[str]]:
    """Collect the lines of user code that call anything of jax's module of meshes."""
    places: list[str] = []
    module = inspect.getfile(AbstractMesh)

    def watch(frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or frame.f_code.co_filename != module:
            return
        caller = frame.f_back
        while caller is not None and caller.f_code.co_filename == functools.__file__:
            caller = caller.f_back  # of a cached property, which functools calls
        if caller is not None and not is_machinery(caller.f_code.co_filename):
            places.append(f"{short(caller.f_code.co_filename)}:{caller.f_lineno}")

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        yield places
    finally:
        sys.setprofile(before)

"""Modules of a repository at another revision, beside today's modules of the same names in one process."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from samebits.host.current_folder import instead_of_current_folder
from samebits.host.isolation import watch_only, watched_files
from samebits.host.package import PACKAGE
from samebits.host.repository_sources import imported_sources


class RevisionModules:
    """The modules that Python imports from a repository, as they are in a checkout of it.

    Args:
        top: of the repository.
        checkout: the top of the checkout, in a temporary folder of its own.
    """

    def __init__(self, top: Path, checkout: Path) -> None:
        self._top, self._checkout = top.resolve(), checkout.resolve()
        self._prefix = Path(sys.prefix).resolve()
        sources = imported_sources(self._top, os.environ, implicit=True)
        links = Path(tempfile.mkdtemp(prefix="links-", dir=self._checkout.parent)).resolve()
        self._path = sources.in_checkout(self._checkout, links / "packages")
        self._theirs = (self._checkout, links)
        self._modules: dict[str, ModuleType] = {}
        self._ours: dict[str, bool] = {}
        self._watched: dict[str, ModuleType] = {}

    @contextlib.contextmanager
    def imported(self) -> Iterator[None]:
        """Inside, imports give the modules of the checkout, also those inside of functions; today's come back after.

        Each is imported once, however often this is entered. Code of either revision keeps the modules that it has.
        """
        today = self._taken()
        path, watched = list(sys.path), watched_files()
        sys.modules.update(self._modules)
        sys.path[:0] = self._path
        watch_only({**watched, **self._watched})
        importlib.invalidate_caches()
        try:
            with self._current_folder():
                yield
        finally:
            self._modules = self._taken()
            sys.modules.update(today)
            sys.path[:] = path
            self._watched = {name: file for name, file in watched_files().items() if watched.get(name) is not file}
            watch_only({**self._watched, **watched})

    def _current_folder(self) -> contextlib.AbstractContextManager[None]:
        here = Path.cwd()
        if not here.is_relative_to(self._top):
            return contextlib.nullcontext()
        return instead_of_current_folder(self._checkout / here.relative_to(self._top))

    def _taken(self) -> dict[str, ModuleType]:
        """The modules of either revision, taken out of `sys.modules`.

        Without samebits, which is today's for both, and the files that it loads under names of their own.
        """
        ours = (PACKAGE.name, "__main__")
        taken = {
            name: module
            for name, module in list(sys.modules.items())
            if name.partition(".")[0] not in ours and not name.startswith(f"{PACKAGE.name}_") and self._is_ours(module)
        }
        for name in taken:
            del sys.modules[name]
        return taken

    def _is_ours(self, module: ModuleType) -> bool:
        names = vars(module) if isinstance(module, ModuleType) else {}
        # A package without an `__init__.py` has folders alone.
        places = [names["__file__"]] if names.get("__file__") else list(names.get("__path__") or ())
        return any(self._is_source(place) for place in places if isinstance(place, str))

    def _is_source(self, name: str) -> bool:
        if name not in self._ours:  # to resolve the paths of thousands of modules takes a tenth of a second
            place = Path(name).resolve()
            inside = place.is_relative_to(self._top) and not place.is_relative_to(self._prefix)
            self._ours[name] = inside or any(place.is_relative_to(folder) for folder in self._theirs)
        return self._ours[name]

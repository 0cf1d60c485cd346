"""The files that the results of a pair depend on: its declaration, its sides, and what they import and read."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from functools import partial
from pathlib import Path
from typing import Any

from samebits.errors import SamebitsError
from samebits.host.file_reads import FILE, MODULES, READS, VARIABLE
from samebits.host.installed import is_installed
from samebits.host.source_closure import SourceFinder, Sources, module_folders
from samebits.host.source_facts import names_in
from samebits.programs.catalogue import Locator, load
from samebits.programs.implementations import FOLDERS, implementation, root_of
from samebits.schema.pair import Pair

LONGEST = 2**20
"""The most bytes of a data file in which names of modules are looked for."""


class NotRememberable(SamebitsError):
    """The results of a pair cannot be remembered; the message is the reason."""


class PairSources:
    """Finds the sources of pairs; pairs of one tree share what is found."""

    def __init__(self) -> None:
        self._finders: dict[tuple[tuple[Path, ...], Path | None], SourceFinder] = {}

    def of(self, pair: Pair, locator: Locator) -> Sources:
        """The files that a pair depends on.

        Raises:
            NotRememberable: they are not all files, or the pair is not what its file declares.
        """
        # At other sizes every load gives a declaration of its own; the sizes are part of the key.
        if not locator.sizes and load(locator) is not pair:
            raise NotRememberable("it is not the declaration that its file has")
        roots = dict.fromkeys(_roots(pair, locator))
        declared = Path(pair.origin).resolve()
        package = _package(declared) if is_installed(str(declared)) else None
        folders = [root_of(pair), _top(declared), *([Path(locator.root).resolve()] if locator.root else [])]
        place = tuple(dict.fromkeys(folders)), package
        finder = self._finders.setdefault(place, SourceFinder(folders=place[0], package=package))
        try:
            return finder.closure(roots)
        except OSError as error:
            raise NotRememberable(f"{error.filename} cannot be read: {error.strerror}") from None


def watch_reads() -> None:
    """Note what is read in this process from now on; to be called before the first declaration is loaded."""
    READS.look()


def reads_beside(sources: Sources) -> tuple[str, ...]:
    """What was read in this process for these sources: they themselves, data files, folders, computed modules.

    A Python file that was read, as where it is loaded by its path, is a source too, with what it imports and reads.
    Where the names of imports are computed, also which modules there are: one that was not found may be there later.
    """
    every, tried = sources, frozenset[str]()
    while True:
        reads = READS.of(every.digests, modules=every.computed_imports)
        paths = [read.removeprefix(FILE) for read in reads if read.startswith(FILE)]
        files = frozenset(path for path in paths if _is_module(path))
        files |= _loaded(every.named.union(*(_names_in_data(path) for path in paths if not _is_module(path))))
        files -= every.digests.keys()
        if files <= tried:
            break
        tried |= files
        every = sources.with_files(tried)
    known = module_folders(sources.digests) if sources.computed_imports else ()
    late = module_folders(every.digests) if tried else ()
    return (
        *reads,
        *(f"{FILE}{path}" for path in every.digests),
        *(READS.listed(folder) if READS.is_listed(folder) else f"{MODULES}{folder}" for folder in known),
        *(READS.listed(folder) for folder in late if folder not in known),
        *((f"{VARIABLE}*",) if every.whole_environment and not sources.whole_environment else ()),
    )


def _is_module(path: str) -> bool:
    return path.endswith((".py", ".pyc"))


def _loaded(names: frozenset[str]) -> frozenset[str]:
    """The files of loaded modules of these names: a library may take one that another pair has imported."""
    files = (getattr(module, "__file__", None) for name, module in list(sys.modules.items()) if name in names)
    return frozenset(
        os.path.realpath(file)
        for file in files
        if isinstance(file, str) and _is_module(file) and not is_installed(file)
    )


def _names_in_data(path: str) -> frozenset[str]:
    """What a data file names that may be modules, where it is a short text such as a configuration."""
    try:
        state = os.stat(path)
        return _names_of(path, state.st_size, state.st_mtime_ns) if state.st_size <= LONGEST else frozenset()
    except OSError:  # removed meanwhile
        return frozenset()


@functools.lru_cache(maxsize=4096)
def _names_of(path: str, *_state: int) -> frozenset[str]:
    return names_in(Path(path).read_text(encoding="utf-8", errors="ignore"))


def _roots(pair: Pair, locator: Locator) -> Iterator[Path]:
    """The files in which a pair and its sides are written."""
    yield Path(pair.origin)
    place = locator.name.rpartition(":")[0]
    if place.endswith(".py"):
        yield Path(place)
    elif place:
        yield _file_of(sys.modules.get(place), f"module '{place}'")
    for side in pair.sides:
        yield from _files_of(implementation(pair, side))
        folder = FOLDERS[0] if side == pair.reference_name else FOLDERS[1]
        if (root_of(pair) / folder / f"{pair.name}.py").is_file():
            yield root_of(pair) / folder / f"{pair.name}.py"
    for value in (pair.variants, pair.adapt, pair.args, pair.cases):
        yield from _files_of(value)


def _files_of(value: Any, depth: int = 6) -> Iterator[Path]:
    """The files of the functions and classes in a value, as deep as declarations go."""
    if depth == 0 or value is None or isinstance(value, str | bytes | int | float):
        return
    if isinstance(value, Mapping):
        for entry in value.values():
            yield from _files_of(entry, depth - 1)
    elif isinstance(value, tuple | list):
        for entry in value:
            yield from _files_of(entry, depth - 1)
    elif isinstance(value, partial):
        yield from _files_of([value.func, *value.args, *value.keywords.values()], depth - 1)
    elif is_dataclass(value) and not isinstance(value, type):
        for name in value.__dataclass_fields__:
            yield from _files_of(getattr(value, name, None), depth - 1)
    elif callable(value):
        yield from _files_of_function(value, depth)


def _files_of_function(function: Any, depth: int) -> Iterator[Path]:
    name = getattr(function, "__module__", None) or type(function).__module__
    module = sys.modules.get(name)
    code = getattr(function, "__code__", None)
    if code is not None and not is_installed(code.co_filename):
        if not Path(code.co_filename).is_file():
            raise NotRememberable(f"'{function.__qualname__}' is not written in a file, but in {code.co_filename}")
        yield Path(code.co_filename)
    elif module is not None and name not in sys.builtin_module_names:
        file = getattr(module, "__file__", None)
        if file is not None and not is_installed(file):
            yield Path(file)
    wrapped = getattr(function, "__wrapped__", None)
    if wrapped is not None:
        yield from _files_of(wrapped, depth - 1)
    owner = getattr(function, "__self__", None)
    if owner is not None and owner is not module:
        yield from _files_of_function(type(owner), depth - 1)


def _file_of(module: Any, what: str) -> Path:
    file = getattr(module, "__file__", None)
    if file is None:
        raise NotRememberable(f"{what} is not in a file")
    return Path(file)


def _top(path: Path) -> Path:
    """The folder from which a file is imported by its full name."""
    return next(folder for folder in path.parents if not (folder / "__init__.py").is_file())


def _package(path: Path) -> Path:
    """The top-level package of an installed file; the file itself where it is in none."""
    packages = [folder for folder in path.parents if (folder / "__init__.py").is_file()]
    return packages[-1] if packages else path

"""The source files that a file depends on through its imports, found without importing anything.

Every place where a module could come from counts, not only the first: the current folder, the tree, the folders on
Python's path, and where it was really loaded from. A file too many costs a run; one too few would be a wrong verdict.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.machinery
import importlib.util
import itertools
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from samebits.host.installed import installed_folders, is_installed
from samebits.host.package import PACKAGE
from samebits.host.source_facts import ALL, SourceFacts, facts_of
from samebits.host.stamps import Stamp

_SUFFIXES = (".py", *(s for s in importlib.machinery.all_suffixes() if s != ".py"))

_OPAQUE = SourceFacts(whole_environment=True, computed_imports=True, host=True)
"""Of what cannot be parsed: archives of modules, and compiled modules without a source."""

_OF_PACKAGES = ("__init__.py", "__init__.pyc")

_AT_START = ("sitecustomize", "usercustomize")
"""Modules that Python imports by itself."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sources:
    """Files that a result depends on.

    Args:
        digests: of the content of each file, by its absolute path.
        stamps: of each file as it was read.
        variables: environment variables that they read by name.
        whole_environment: whether they read others besides.
        computed_imports: whether they import modules by names that they compute.
        named: what their texts name that may be modules.
        host: whether they read the name of the machine.
        finder: what found them.
    """

    digests: Mapping[str, str]
    stamps: Mapping[str, Stamp]
    variables: tuple[str, ...]
    whole_environment: bool
    computed_imports: bool
    named: frozenset[str]
    host: bool
    finder: SourceFinder

    def with_files(self, files: frozenset[str]) -> Sources:
        """These and other files, with everything that those import."""
        return self.finder.extended(self, files)

    def environment(self) -> list[tuple[str, str | None]]:
        """The environment variables that they read, with their values."""
        names = sorted(os.environ) if self.whole_environment else self.variables
        return [(name, os.environ.get(name)) for name in names]


@dataclass(frozen=True, slots=True)
class _Text:
    """What is known of a file, by one of its names.

    Args:
        file: its absolute path without links.
        stamp: when it was read.
        digest, facts: of its content; None where it cannot be read.
        imported: the files that it imports.
    """

    file: str
    stamp: Stamp
    digest: str = ""
    facts: SourceFacts | None = None
    imported: tuple[Path, ...] = ()


@dataclass(slots=True)
class SourceFinder:
    """Finds the files of modules; what it has looked up once, it looks up no more.

    Args:
        folders: where top-level modules may lie, beside Python's path.
        package: the folder of a package that counts although it is installed: that of the declaration itself.
    """

    folders: tuple[Path, ...] = ()
    package: Path | None = None
    _known: dict[str, tuple[tuple[Path, ...], tuple[Path, ...]]] = field(default_factory=dict)
    _extended: dict[tuple[frozenset[str], frozenset[str]], Sources] = field(default_factory=dict)
    _texts: dict[Path, _Text] = field(default_factory=dict)

    def closure(self, roots: Iterable[Path]) -> Sources:
        """The files themselves, and everything that they import, directly or not.

        Raises:
            OSError: one of the roots cannot be read.
        """
        files = [Path(os.path.abspath(path)) for path in roots]
        started = [path for name in _AT_START for path in self.files(name)]
        sources = self._closed([*files, *_archives(), *_loaded_before(), *started])
        for path in files:
            if str(path.resolve()) not in sources.digests:
                path.read_bytes()  # raises what is wrong
        return sources

    def extended(self, sources: Sources, files: frozenset[str]) -> Sources:
        """Sources, and other files with everything that those import; once for the same ones."""
        key = frozenset(sources.digests), files
        if key not in self._extended:
            self._extended[key] = self._closed([Path(path) for path in (*sources.digests, *files)])
        return self._extended[key]

    def _closed(self, todo: list[Path]) -> Sources:
        texts: dict[str, _Text] = {}
        seen: set[Path] = set()
        todo = [*todo, *(path.resolve() for path in todo)]
        todo += [package for path in todo for package in _packages_of(path)]
        while todo:
            path = todo.pop()
            if path not in seen:
                # By each of its names: what it imports relatively lies beside a link, not beside what that leads to.
                seen.add(path)
                text = self._text(path)
                texts[text.file] = text
                todo += text.imported
        known = {file: text for file, text in texts.items() if text.facts is not None}
        facts = [text.facts for text in known.values() if text.facts is not None]
        return Sources(
            digests={file: text.digest for file, text in known.items()},
            stamps={file: text.stamp for file, text in texts.items()},
            variables=tuple(sorted({name for fact in facts for name in fact.variables})),
            whole_environment=any(fact.whole_environment for fact in facts),
            computed_imports=any(fact.computed_imports for fact in facts),
            named=frozenset().union(*(fact.named for fact in facts)),
            host=any(fact.host for fact in facts),
            finder=self,
        )

    def _text(self, path: Path) -> _Text:
        """What a file says; read again where it has changed."""
        stamp = Stamp.of(path)
        if path not in self._texts or self._texts[path].stamp != stamp:
            file = str(path.resolve())
            try:
                source = path.read_bytes()
            except OSError:  # unreadable for the import, too
                self._texts[path] = _Text(file, stamp)
            else:
                facts = _facts(path, source)
                imported = tuple(self._imported(path, facts))
                self._texts[path] = _Text(file, stamp, hashlib.sha256(source).hexdigest(), facts, imported)
        return self._texts[path]

    def files(self, module: str) -> tuple[Path, ...]:
        """The files of a module and of the packages that it lies in, without those that are installed."""
        return self._located(module)[0]

    def _imported(self, path: Path, facts: SourceFacts) -> Iterator[Path]:
        for wanted in facts.imports:
            for base in _bases(path, wanted.level) if wanted.level else ("",):
                module = ".".join(filter(None, (base, wanted.module)))
                names = set(wanted.names) - {ALL}
                if ALL in wanted.names:  # those that its `__all__` may name
                    names |= {name for folder in self._located(module)[1] for name in _names_in(folder)}
                for name in (module, *(f"{module}.{name}" for name in sorted(names))):
                    yield from self.files(name)
            if wanted.level:  # also where the package has another name than its folder, as if loaded by path
                yield from _beside(path, wanted.level, wanted.module, wanted.names)

    def _located(self, module: str) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
        """The files of a module with its packages, and the folders in which its own modules lie."""
        if module not in self._known:
            self._known[module] = ((), ())  # while it is looked up
            self._known[module] = self._look_up(module)
        return self._known[module]

    def _look_up(self, module: str) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
        parent, _, name = module.rpartition(".")
        # A name as a text may have a hyphen. Of samebits itself all files count, in another place.
        if not name or os.sep in name or "\0" in name or module == PACKAGE.name:
            return (), ()
        before: tuple[Path, ...] = ()
        if parent:
            before, folders = self._located(parent)
        else:
            folders = self._top_folders()
        files, inner = [], []
        for folder in folders:
            files += _files_at(folder / name)
            if (folder / name).is_dir():
                inner.append(folder / name)
        loaded = _loaded_from(module, find=not parent and not files)
        files += [path for path in loaded[0] if path not in files]
        inner += [path for path in loaded[1] if path not in inner]
        own = tuple(path for path in files if self._counts(path))
        return (*before, *own), tuple(path for path in inner if parent or self._counts(path / "__init__.py"))

    def _top_folders(self) -> tuple[Path, ...]:
        places = [*self.folders, Path.cwd(), *(Path(entry) for entry in sys.path if entry)]
        installed = {Path(folder) for folder in installed_folders()}
        own = () if self.package is None else (self.package.parent,)
        return tuple(dict.fromkeys([*(path for path in places if path not in installed), *own]))

    def _counts(self, path: Path) -> bool:
        resolved = path.resolve()
        if self.package is not None and resolved.is_relative_to(self.package):
            return True
        return not is_installed(str(resolved))


def _facts(path: Path, source: bytes) -> SourceFacts:
    if path.suffix == ".py":
        return facts_of(source)
    extension = path.name.endswith(tuple(importlib.machinery.EXTENSION_SUFFIXES))
    return SourceFacts() if extension else _OPAQUE


def _archives() -> list[Path]:
    """The files on Python's path, from which modules may be imported."""
    files = [os.path.abspath(entry) for entry in sys.path if os.path.isfile(entry)]
    return [Path(file) for file in files if not is_installed(file)]


@functools.cache
def _loaded_before() -> tuple[Path, ...]:
    """The files of modules that Python imported before this package, as a `.pth` file has it do."""
    modules = itertools.takewhile(lambda name: name != PACKAGE.name, list(sys.modules))
    files = (getattr(sys.modules[name], "__file__", None) for name in modules if name != "__main__")
    return tuple(
        Path(file) for file in files if isinstance(file, str) and file.endswith(".py") and not is_installed(file)
    )


def _bases(path: Path, level: int) -> Iterator[str]:
    """The packages that a relative import of a file starts from, by every name that the file may have."""
    folder = path.parent
    for _ in range(level - 1):
        folder = folder.parent
    parts: list[str] = []
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    if parts:
        yield ".".join(parts)


def _packages_of(path: Path) -> Iterator[Path]:
    """The `__init__.py` of every package that a file lies in: they run where it is imported by its full name."""
    folder = path.parent
    while (folder / "__init__.py").is_file():
        yield folder / "__init__.py"
        folder = folder.parent


def _beside(path: Path, level: int, module: str, names: tuple[str, ...]) -> Iterator[Path]:
    folder = path.parent
    for _ in range(level - 1):
        folder = folder.parent
    yield from _files_at(folder, inside=True)
    for part in filter(None, module.split(".")):
        folder /= part
        yield from _files_at(folder)
    for name in _names_in(folder) if ALL in names else names:
        yield from _files_at(folder / name)


def _names_in(folder: Path) -> list[str]:
    """The modules that lie in the folder of a package."""
    try:
        names = os.listdir(folder)
    except OSError:  # it does not exist, or may not be read
        return []
    return sorted({name.partition(".")[0] for name in names if name.partition(".")[0].isidentifier()})


def module_folders(files: Iterable[str]) -> tuple[str, ...]:
    """The folders in which modules are looked for whose names files compute: theirs, and those of Python's path."""
    path = [os.path.realpath(entry) for entry in sys.path if os.path.isdir(entry)]
    own = [os.path.dirname(file) for file in files]
    folders = dict.fromkeys([*own, os.path.realpath(os.curdir), *path])
    return tuple(folder for folder in folders if not is_installed(os.path.join(folder, "")))


def _files_at(path: Path, *, inside: bool = False) -> list[Path]:
    """The files that a module at a path may consist of."""
    files = [] if inside else [path.with_name(path.name + suffix) for suffix in _SUFFIXES]
    return [file for file in (*files, *(path / name for name in _OF_PACKAGES)) if file.is_file()]


def _loaded_from(module: str, *, find: bool) -> tuple[list[Path], list[Path]]:
    """The file and the folders of a module that is loaded, or that a custom finder would load."""
    spec = getattr(sys.modules.get(module), "__spec__", None)
    if spec is None and find:
        spec = _spec_of(module)
    if spec is None or spec.origin in ("built-in", "frozen"):
        return [], []
    file = getattr(sys.modules.get(module), "__file__", None) or spec.origin
    files = [Path(os.path.abspath(file))] if file and Path(file).is_file() else []
    return files, [Path(folder) for folder in spec.submodule_search_locations or ()]


def _spec_of(module: str) -> importlib.machinery.ModuleSpec | None:
    if module in sys.stdlib_module_names:
        return None
    try:
        return importlib.util.find_spec(module)
    except (ImportError, ValueError, AttributeError):  # no such module, or one without a spec: its import says so
        return None

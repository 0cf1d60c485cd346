"""Everything that a result depends on, as a key: of samebits, the environment, the point, and the sources of its pair."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any

from samebits.audit.snapshots.record import processor_here
from samebits.errors import SamebitsError
from samebits.host.environment import Environment, configuration
from samebits.host.file_reads import OUTSIDE, READS
from samebits.host.installed import distributions_digest, is_installed, own_digest
from samebits.host.source_closure import SourceFinder, Sources, Stamp
from samebits.programs.catalogue import Locator, load
from samebits.programs.implementations import FOLDERS, implementation, root_of
from samebits.programs.plan import LoadedPair
from samebits.schema.pair import Pair
from samebits.schema.point import Effort, Point

FORMAT = 1
"""The version of the keys and of what is stored under them."""

_PREFIXES = (
    *("JAX_", "XLA_", "LIBTPU_", "TPU_", "SAMEBITS_", "TF_", "PJRT_", "CUDA_", "NVIDIA_", "NCCL_", "ROCM_", "HIP_"),
    *("OMP_", "OPENBLAS_", "MKL_", "KMP_", "NPY_", "EIGEN_", "PYTHONHASHSEED", "PYTHONOPTIMIZE", "LD_", "GLIBC_"),
)
"""How the environment variables begin that jax, its compilers, NumPy's kernels, the loader or samebits read."""

_NO_EFFECT = ("SAMEBITS_CACHE_DIR", "SAMEBITS_CACHE_LIMIT", "JAX_COMPILATION_CACHE_DIR")
"""Variables that say only where something is stored."""

_NO_EFFECT_SETTINGS = ("jax_compilation_cache_dir",)


class NotRememberable(SamebitsError):
    """The results of a pair cannot be remembered; the message is the reason."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PairKeys:
    """The keys of one pair's points.

    Args:
        ingredients: what they depend on besides the point, by name.
        sources: the files among it.
    """

    ingredients: Mapping[str, Any]
    sources: Sources

    def of(self, point: Point) -> str:
        """The key of a point."""
        return digest({**self.ingredients, "point": asdict(point)})

    def of_all(self, **more: Any) -> str:
        """A key of something about the whole pair."""
        return digest({**self.ingredients, **more})

    def changed(self) -> str | None:
        """A source that is not as it was when the key was computed, or when it was loaded; None where all are."""
        for path, stamp in self.sources.stamps.items():
            if Stamp.of(path) != stamp or READS.is_stale(path):
                return path
        return None

    def reads(self) -> tuple[str, ...]:
        """What was read in this process for the pair, beside its sources."""
        return READS.of(self.sources.digests, modules=self.sources.computed_imports)


class VerdictKeys:
    """Computes the keys of pairs.

    Args:
        environment: what they run in.
        effort: how hard each point is tried.
    """

    def __init__(self, environment: Environment, effort: Effort) -> None:
        self.ingredients: dict[str, Any] = {
            "format": FORMAT,
            "samebits": own_digest(),
            "distributions": distributions_digest(),
            "python": [sys.version, list(sys.flags), platform.libc_ver(), platform.platform()],
            "environment": asdict(environment),
            "processor": [asdict(processor_here(environment)), _processor()],
            "settings": _settings(),
            "variables": _variables(),
            "folder": str(Path.cwd()),
            "effort": asdict(effort),
        }
        self._finders: dict[tuple[tuple[Path, ...], Path | None], SourceFinder] = {}

    def of(self, loaded: LoadedPair) -> PairKeys:
        """The keys of a pair's points.

        Raises:
            NotRememberable: its sources are not all in files.
        """
        sources = self._sources(loaded.pair, loaded.locator)
        own = {
            "locator": [loaded.locator.name, loaded.locator.root, loaded.locator.rerun],
            "pair": loaded.pair.name,
            "sources": sorted(sources.digests.items()),
            "variables read": sources.environment(),
        }
        return PairKeys(ingredients={**self.ingredients, **own}, sources=sources)

    def _sources(self, pair: Pair, locator: Locator) -> Sources:
        if load(locator) is not pair:
            raise NotRememberable("it is not the declaration that its file has")
        roots = dict.fromkeys(_roots(pair, locator))
        tree = root_of(pair)
        declared = Path(pair.origin).resolve()
        package = _package(declared) if is_installed(str(declared)) else None
        folders = [tree, _top(declared), *([Path(locator.root).resolve()] if locator.root else [])]
        place = tuple(dict.fromkeys(folders)), package
        finder = self._finders.setdefault(place, SourceFinder(folders=place[0], package=package))
        try:
            return finder.closure(roots)
        except OSError as error:
            raise NotRememberable(f"{error.filename} cannot be read: {error.strerror}") from None


def digest(parts: Mapping[str, Any]) -> str:
    """A digest of data that JSON can hold."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def outside(reads: tuple[str, ...]) -> str | None:
    """Why results that rest on these reads cannot be remembered; None where they can."""
    return next((read.removeprefix(OUTSIDE) for read in reads if read.startswith(OUTSIDE)), None)


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


def _settings() -> list[str]:
    """Every setting of jax; of one that is an object, its type, since what it prints may hold its address."""
    return [
        f"{name}={value!r}" if re.search(r" at 0x[0-9a-f]+", repr(value)) is None else f"{name}={type(value)}"
        for name, value in configuration()
        if name not in _NO_EFFECT_SETTINGS
    ]


def _variables() -> dict[str, str]:
    return {
        name: value
        for name, value in sorted(os.environ.items())
        if name.startswith(_PREFIXES) and name not in _NO_EFFECT
    }


def _processor() -> list[str]:
    """What Linux says of the processors, without their present frequencies."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:  # another system
        return [platform.processor()]
    names = ("vendor_id", "cpu family", "model", "model name", "stepping", "flags", "Features", "cache size")
    return sorted({line for line in lines if line.partition(":")[0].strip() in names})

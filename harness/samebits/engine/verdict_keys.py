"""Everything that a result depends on, as a key: samebits, the environment, the point, and all sources of the tree."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from samebits.audit.snapshots.record import processor_here
from samebits.host.environment import Environment, configuration
from samebits.host.file_reads import READS
from samebits.host.installed import distributions_digest, own_digest
from samebits.host.process_sources import sources_of_process
from samebits.programs.plan import LoadedPair
from samebits.schema.point import Effort, Point

FORMAT = 2
"""The version of the keys and of what is stored under them."""

_PREFIXES = (
    *("JAX_", "XLA_", "LIBTPU_", "TPU_", "SAMEBITS_", "TF_", "PJRT_", "CUDA_", "NVIDIA_", "NCCL_", "ROCM_", "HIP_"),
    *("OMP_", "OPENBLAS_", "MKL_", "KMP_", "NPY_", "EIGEN_", "PYTHONHASHSEED", "PYTHONOPTIMIZE", "LD_", "GLIBC_"),
    *("PYTHONPATH", "HOME"),
)
"""How the environment variables begin that jax, its compilers, NumPy's kernels, Python, the loader or samebits read."""

_NO_EFFECT = ("SAMEBITS_CACHE_DIR", "SAMEBITS_CACHE_LIMIT", "JAX_COMPILATION_CACHE_DIR", "KMP_DUPLICATE_LIB_OK")
"""Variables that say only where something is stored; threadpoolctl sets the last one when it is imported."""

_NO_EFFECT_SETTINGS = ("jax_compilation_cache_dir",)


MOST = 100_000
"""In a tree with more files than these, points are looked up by their programs alone."""


class VerdictKeys:
    """Computes the keys of results.

    Args:
        environment: what they run in.
        effort: how hard each point is tried.
        trees: whose sources count, all of them.

    Attributes:
        ingredients: what a key has beside the pair and the point, by name.
        programs: a digest of everything but sources, for keys that have the programs instead.
        files: the sources.
    """

    def __init__(self, environment: Environment, effort: Effort, trees: Iterable[Path]) -> None:
        own: dict[str, Any] = {
            "format": FORMAT,
            "samebits": own_digest(),
            "distributions": distributions_digest(),
            "python": [sys.version, list(sys.flags), sys.warnoptions, platform.libc_ver(), platform.platform()],
            "environment": asdict(environment),
            "processor": [asdict(processor_here(environment)), _processor()],
            "settings": _settings(),
            "variables": _variables(),
            "flags in a file": _flags_in_a_file(),
            "folder": _folder(),
            "effort": asdict(effort),
        }
        sources = sources_of_process(*trees, most=MOST)
        # Code may look for a program there, which no event tells.
        self.ingredients = {**sources.parts, **own, "search path": os.environ.get("PATH")}
        self.programs, self._base = digest(own), digest(self.ingredients)
        self.files = sources.written | sources.loaded

    def of(self, loaded: LoadedPair, point: Point) -> str:
        """Return the key of a point."""
        return self.of_all(loaded, point=asdict(point))

    def of_all(self, loaded: LoadedPair, **more: Any) -> str:
        """Return a key of something about a pair."""
        locator = loaded.locator
        place = [locator.name, locator.root, locator.rerun, locator.sizes, loaded.pair.name]
        return digest({"base": self._base, "pair": place, **more})

    def changed(self, since: int) -> str | None:
        """A source that was changed since a moment, in nanoseconds, or since it was loaded; None where none was."""
        return next((path for path in sorted(self.files) if _changed(path, since) or READS.is_stale(path)), None)


def digest(parts: Mapping[str, Any]) -> str:
    """Return a digest of data that JSON can hold."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def changed_since(paths: Iterable[str], moment: int) -> str | None:
    """Return a file that was changed after a moment, in nanoseconds since the epoch; None where none was."""
    return next((path for path in paths if _changed(path, moment)), None)


def _changed(path: str, moment: int) -> bool:
    try:
        return os.stat(path).st_ctime_ns > moment
    except OSError:  # it does not exist
        return False


def _settings() -> list[str]:
    """Return every setting of jax; of one that is an object, its type, since what it prints may hold its address."""
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


def _flags_in_a_file() -> str | None:
    """Return the flags of XLA where `XLA_FLAGS` is the name of a file that has them; None where it is not."""
    flags = os.environ.get("XLA_FLAGS", "").strip()
    if not flags or flags.startswith("-"):
        return None
    try:
        return Path(flags).read_text(encoding="utf-8", errors="replace")
    except OSError:  # XLA says what is wrong with it
        return None


def _processor() -> list[str]:
    """Return what Linux says of the processors, without their present frequencies."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:  # another system
        return [platform.processor()]
    names = ("vendor_id", "cpu family", "model", "model name", "stepping", "flags", "Features", "cache size")
    return sorted({line for line in lines if line.partition(":")[0].strip() in names})


def _folder() -> str:
    try:
        return str(Path.cwd())
    except FileNotFoundError:  # removed since the command began
        return "a folder that was removed"

"""Everything that a result depends on, as a key: samebits, the environment, the point, the sources of its pair."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from samebits.audit.snapshots.record import processor_here
from samebits.engine.pair_sources import PairSources, reads_beside
from samebits.host.environment import Environment, configuration
from samebits.host.file_reads import FILE, HOST, OUTSIDE, READS, VARIABLE
from samebits.host.installed import distributions_digest, own_digest
from samebits.host.source_closure import Sources
from samebits.host.source_facts import facts_of
from samebits.host.stamps import Stamp
from samebits.programs.plan import LoadedPair
from samebits.schema.point import Effort, Point

FORMAT = 1
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


@dataclass(frozen=True, kw_only=True, slots=True)
class PairKeys:
    """The keys of one pair's points.

    Args:
        ingredients: what they depend on besides the point, by name.
        base: their digest.
        sources: the files among it.
    """

    ingredients: Mapping[str, Any]
    base: str
    sources: Sources

    def of(self, point: Point) -> str:
        """The key of a point."""
        return digest({"pair": self.base, "point": asdict(point)})

    def of_all(self, **more: Any) -> str:
        """A key of something about the whole pair."""
        return digest({"pair": self.base, **more})

    def changed(self) -> str | None:
        """A source that is not as it was when the key was computed, or when it was loaded; None where all are."""
        for path, stamp in self.sources.stamps.items():
            if Stamp.of(path) != stamp or READS.is_stale(path):
                return path
        return None

    def variables_of(self, reads: Iterable[str]) -> tuple[str, ...]:
        """What sources that were found only while they ran read of this machine, as reads: its name, and variables.

        Of the environment, `*` stands for all variables.
        """
        more: dict[str, None] = {}
        for read in reads:
            if not (read.startswith(FILE) and read.endswith(".py")):
                continue
            facts = facts_of(_content(read.removeprefix(FILE)))
            if facts.host and not self.sources.host:
                more[HOST] = None
            if not self.sources.whole_environment:
                names = ("*",) if facts.whole_environment else facts.variables
                more |= dict.fromkeys(f"{VARIABLE}{name}" for name in names if name not in self.sources.variables)
        return tuple(more)

    def reads(self) -> tuple[str, ...]:
        """What was read in this process for the pair, beside its sources."""
        return reads_beside(self.sources)


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
            "python": [sys.version, list(sys.flags), sys.warnoptions, platform.libc_ver(), platform.platform()],
            "environment": asdict(environment),
            "processor": [asdict(processor_here(environment)), _processor()],
            "settings": _settings(),
            "variables": _variables(),
            "flags in a file": _flags_in_a_file(),
            "folder": _folder(),
            "effort": asdict(effort),
        }
        self._sources = PairSources()

    def of(self, loaded: LoadedPair) -> PairKeys:
        """The keys of a pair's points.

        Raises:
            NotRememberable: its sources are not all in files.
        """
        sources = self._sources.of(loaded.pair, loaded.locator)
        own = {
            "locator": [loaded.locator.name, loaded.locator.root, loaded.locator.rerun, loaded.locator.sizes],
            "pair": loaded.pair.name,
            "sources": sorted(sources.digests.items()),
            "variables read": sources.environment(),
            # Only there: machines of a cloud, each with a name of its own, share what else they remember.
            "host": platform.node() if sources.host else None,
        }
        ingredients = {**self.ingredients, **own}
        return PairKeys(ingredients=ingredients, base=digest(ingredients), sources=sources)


def digest(parts: Mapping[str, Any]) -> str:
    """A digest of data that JSON can hold."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def outside(reads: tuple[str, ...]) -> str | None:
    """Why results that rest on these reads cannot be remembered; None where they can."""
    return next((read.removeprefix(OUTSIDE) for read in reads if read.startswith(OUTSIDE)), None)


def _content(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:  # removed meanwhile, which its digest says
        return b""


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


def _flags_in_a_file() -> str | None:
    """The flags of XLA where `XLA_FLAGS` is the name of a file that has them; None where it is not."""
    flags = os.environ.get("XLA_FLAGS", "").strip()
    if not flags or flags.startswith("-"):
        return None
    try:
        return Path(flags).read_text(encoding="utf-8", errors="replace")
    except OSError:  # XLA says what is wrong with it
        return None


def _processor() -> list[str]:
    """What Linux says of the processors, without their present frequencies."""
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

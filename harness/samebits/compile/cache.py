"""The disk cache of compiled programs, keyed by everything that the program depends on.

diskcache (5.6.3 was tried) pickles values, so that reading a shared folder may execute another user's code, and uses
an SQLite database, whose locks many network file systems do not support. One file per program needs neither.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
import os
import sys
import tempfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from samebits.host.cache_folder import cache_folder
from samebits.host.environment import configuration

FORMAT = "2"  # under version 1 a slice could get the program of another target with as many devices
"""The version of the file format and of the keys."""


SETTINGS: Mapping[str, Any] = {
    "jax_compiler_enable_remat_pass": True,
    "jax_disable_most_optimizations": False,
    "jax_exec_time_optimization_effort": 0.0,
    "jax_memory_fitting_effort": 0.0,
    "jax_memory_fitting_level": "O2",
    "jax_optimization_level": "UNKNOWN",
    "jax_xla_profile_version": 0,
}
"""Settings of JAX that affect the compiler and not the StableHLO, with their defaults; all others are in a key."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Artefact:
    """The output of a compiler: the optimised module, and its memory, cost and compile time."""

    module: bytes
    memory: Mapping[str, int | None]
    cost: Mapping[str, float | None]
    seconds: float


class CompileCache:
    """A folder of compiled programs.

    Several processes may share a folder: files are written atomically. A file that cannot be read counts as missing,
    and a folder that cannot be written is not an error: programs are then compiled each time.

    Args:
        folder: the folder; `cache_folder("compiled")` by default.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or cache_folder("compiled")

    def key(self, text: str, place: str, options: Mapping[str, str], compiler: str | None) -> str:
        """Digest a program's StableHLO, devices, options, JAX settings, flags and compiler versions into its key.

        Args:
            text: the StableHLO.
            place: target, mesh and devices, as `Lowered.place`.
            options: compiler options.
            compiler: the version of the target's compiler.
        """
        versions = [importlib.metadata.version(name) for name in ("jax", "jaxlib")]
        flags = [os.environ.get(name, "") for name in ("XLA_FLAGS", "LIBTPU_INIT_ARGS")]
        parts = [FORMAT, *versions, compiler, place, sorted(options.items()), flags + _settings(), text]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def get(self, key: str) -> Artefact | None:
        """Return the program of a key; None if it is not cached, or its file is damaged."""
        try:
            head, _, body = (self.folder / key).read_bytes().partition(b"\n")
            header = json.loads(head)
            module = zlib.decompress(body)
            if hashlib.sha256(module).hexdigest() != header["sha256"]:
                return None
            return Artefact(module=module, memory=header["memory"], cost=header["cost"], seconds=header["seconds"])
        except (OSError, ValueError, KeyError, TypeError, zlib.error):  # missing or damaged: compiled again
            return None

    def put(self, key: str, artefact: Artefact) -> None:
        """Store a program."""
        head = {
            "memory": artefact.memory,
            "cost": artefact.cost,
            "seconds": artefact.seconds,
            "sha256": hashlib.sha256(artefact.module).hexdigest(),
        }
        with contextlib.suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self.folder, delete=False) as file:
                file.write(json.dumps(head).encode() + b"\n" + zlib.compress(artefact.module))
            os.replace(file.name, self.folder / key)


def _settings() -> list[str]:
    """Return the settings of JAX for a key, except those of `SETTINGS` that have their defaults."""
    if "jax" not in sys.modules:
        return []
    return [f"{name}={value}" for name, value in configuration() if value != SETTINGS.get(name, value)]

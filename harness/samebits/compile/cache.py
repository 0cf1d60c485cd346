"""The disk cache of compiled programs, keyed by everything that the program depends on."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from samebits.host.cache_folder import cache_folder
from samebits.host.entry_store import EntryStore
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
    """Compiled programs in a folder; where it cannot be written, programs are compiled each time."""

    def __init__(self, folder: Path | None = None) -> None:
        self.entries = EntryStore(folder or cache_folder("compiled"))

    def key(self, text: str, place: str, options: Mapping[str, str], compiler: str | None) -> str:
        """Digest a program's StableHLO, devices, options, JAX settings, flags and compiler versions into its key.

        Args:
            place: target, mesh and devices, as `Lowered.place`.
        """
        versions = [importlib.metadata.version(name) for name in ("jax", "jaxlib")]
        flags = [os.environ.get(name, "") for name in ("XLA_FLAGS", "LIBTPU_INIT_ARGS")]
        parts = [FORMAT, *versions, compiler, place, sorted(options.items()), flags + _settings(), text]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def get(self, key: str) -> Artefact | None:
        """Return the program of a key; None if it is not cached, or its file is damaged."""
        head, _, module = (self.entries.get(key) or b"").partition(b"\n")
        try:
            return Artefact(module=module, **json.loads(head))
        except (ValueError, TypeError):  # there is none, or it is of another version of samebits: compiled again
            return None

    def put(self, key: str, artefact: Artefact) -> None:
        """Store a program."""
        head = {"memory": artefact.memory, "cost": artefact.cost, "seconds": artefact.seconds}
        self.entries.put(key, json.dumps(head).encode() + b"\n" + artefact.module)


def _settings() -> list[str]:
    """Return the settings of JAX for a key, except those of `SETTINGS` that have their defaults."""
    if "jax" not in sys.modules:
        return []
    return [f"{name}={value}" for name, value in configuration() if value != SETTINGS.get(name, value)]

"""The machine code of compiled programs: a process has room for some thousands of them.

XLA:CPU maps the code of each kernel into memory by itself: 25 mappings for a small program, hundreds for a training
step. Linux gives a process 65 530 of them by default (`vm.max_map_count`); without one left, XLA ends the process.
"""

from __future__ import annotations

from pathlib import Path

SHARE = 0.5
"""Of the mappings that a process may have, which share may be in use before programs are dropped."""

_MAPPINGS = Path("/proc/self/maps")
_MOST = Path("/proc/sys/vm/max_map_count")


def is_crowded() -> bool:
    """Whether this process has used a large share of its memory mappings; False where the system does not say."""
    try:
        return _MAPPINGS.read_bytes().count(b"\n") > SHARE * int(_MOST.read_bytes())
    except (OSError, ValueError):  # not Linux, or /proc is not mounted
        return False


def release() -> None:
    """Have jax drop its own references to compiled programs; its cache has room for 2 048 of them."""
    from jax.extend import backend

    backend.clear_in_memory_compilation_cache()

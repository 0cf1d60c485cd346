"""Checks many planted faults, sequentially or in several processes."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import groupby
from multiprocessing import get_context
from pathlib import Path

from samebits.audit.faults import find, plant
from samebits.audit.faults.plant import FaultOutcome
from samebits.host import environment

CHUNK = 8
"""At most how many faults of a pair a process checks in a row; they share the programs of its implementation."""


def checked(root: Path, numbers: Sequence[int], workers: int) -> Generator[tuple[int, FaultOutcome], None, None]:
    """The result of each fault: as soon as it is known, or with several workers as soon as those of its pair are.

    Args:
        root: the tree whose faults are planted.
        numbers: indices into `all_faults(root)`; faults may hold functions, which cannot be sent between processes.
        workers: the number of processes; 1 runs in this process.
    """
    if workers == 1:
        yield from _check(root, numbers)
        return
    # Fresh interpreters: a forked child would inherit jax's threads without their locks.
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=environment.prepare) as pool:
        started = [pool.submit(_check_all, root, chunk) for chunk in _chunks(root, numbers)]
        try:
            for ended in as_completed(started):
                yield from ended.result()
        finally:
            # Not without waiting: a pool left to itself may raise where the interpreter ends and closes its pipes.
            pool.shutdown(cancel_futures=True)


def _chunks(root: Path, numbers: Sequence[int]) -> list[tuple[int, ...]]:
    """Faults of one pair each."""
    faults = find.all_faults(root)
    pairs = [list(of_pair) for _, of_pair in groupby(numbers, key=lambda number: faults[number].pair)]
    return [tuple(of_pair[start : start + CHUNK]) for of_pair in pairs for start in range(0, len(of_pair), CHUNK)]


def _check_all(root: Path, numbers: Sequence[int]) -> list[tuple[int, FaultOutcome]]:
    return list(_check(root, numbers))


def _check(root: Path, numbers: Sequence[int]) -> Iterator[tuple[int, FaultOutcome]]:
    faults, checks = find.all_faults(root), plant.FaultChecks(root)
    try:
        for number in numbers:
            yield number, checks.check(faults[number])
    finally:
        checks.close()

"""Checks many planted faults, sequentially or in several processes."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

from samebits.audit.faults import find, plant
from samebits.audit.faults.plant import FaultOutcome
from samebits.host import environment


def checked(root: Path, numbers: Sequence[int], workers: int) -> Generator[tuple[int, FaultOutcome], None, None]:
    """The result of each fault, as soon as it is known.

    Args:
        root: the tree whose faults are planted.
        numbers: indices into `all_faults(root)`; faults may hold functions, which cannot be sent between processes.
        workers: the number of processes; 1 runs in this process.
    """
    if workers == 1:
        for number in numbers:
            yield number, _check(root, number)[1]
        return
    # Fresh interpreters: a forked child would inherit jax's threads without their locks.
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=environment.prepare) as pool:
        started = [pool.submit(_check, root, number) for number in numbers]
        try:
            for ended in as_completed(started):
                yield ended.result()
        finally:
            # Not without waiting: a pool left to itself may raise where the interpreter ends and closes its pipes.
            pool.shutdown(cancel_futures=True)


def _check(root: Path, number: int) -> tuple[int, FaultOutcome]:
    return number, plant.check(find.all_faults(root)[number], root)

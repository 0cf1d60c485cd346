"""Many planted faults, one after the other or on several processes."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

from samebits.audit.faults import find, plant
from samebits.audit.faults.plant import FaultOutcome
from samebits.host import environment


def checked(root: Path, numbers: Sequence[int], workers: int) -> Generator[tuple[int, FaultOutcome], None, None]:
    """What the check says of each fault, as soon as it is known.

    Args:
        root: the tree whose faults are planted.
        numbers: places in `all_faults(root)`; a fault itself may hold functions, which do not travel between processes.
        workers: how many processes; 1 is this one.
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

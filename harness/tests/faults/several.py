"""Many planted faults, one after the other or on several processes."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context

from harness import environment
from harness.tests.faults import all_faults
from harness.tests.faults.fault import Caught, check


def checked(numbers: Sequence[int], workers: int) -> Generator[tuple[int, Caught], None, None]:
    """What the check says of each fault, as soon as it is known.

    Args:
        numbers: places in `all_faults()`; a fault itself may hold functions, which do not travel between processes.
        workers: how many processes; 1 is this one.
    """
    if workers == 1:
        for number in numbers:
            yield number, _check(number)[1]
        return
    # Fresh interpreters: a forked child would inherit jax's threads without their locks.
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=environment.prepare) as pool:
        started = [pool.submit(_check, number) for number in numbers]
        try:
            for ended in as_completed(started):
                yield ended.result()
        finally:
            # Not without waiting: a pool left to itself may raise where the interpreter ends and closes its pipes.
            pool.shutdown(cancel_futures=True)


def _check(number: int) -> tuple[int, Caught]:
    return number, check(all_faults()[number])

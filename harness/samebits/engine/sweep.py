"""A sweep: the points of many pairs, here or on worker processes, one result after the other."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Generator, Sequence

from samebits.check.run_points import run_points
from samebits.errors import SamebitsError
from samebits.programs.plan import LoadedPair
from samebits.programs.program_cache import Programs
from samebits.schema.point import USUAL, Effort
from samebits.schema.result import Problem, Result
from samebits.user_errors import one_line, retain


def sweep(
    loaded: Sequence[LoadedPair],
    *,
    workers: int = 1,
    effort: Effort = USUAL,
    on_problem: Callable[[Problem], None],
) -> Generator[Result]:
    """All results of a sweep as they come.

    Args:
        loaded: pairs with their plans.
        workers: processes; 1 stays in this one.
        effort: how hard each point is tried.
        on_problem: called with each pair that turns out not to run at all.
    """
    if workers > 1:
        from samebits.engine.workers import sweep_on_workers

        yield from sweep_on_workers(loaded, workers, on_problem, effort)
        return
    programs = Programs()
    try:
        for item in loaded:
            try:
                yield from run_points(item.pair, item.locator, item.plan.points, programs, effort)
            except SamebitsError as error:
                retain(error.__cause__)
                on_problem(Problem(pair=item.locator.name, message=str(error), exit_code=error.exit_code))
            except Exception as error:  # a bug of ours; it must not take the other pairs with it
                traceback.print_exc()
                message = f"samebits itself {one_line(error)}; please report it with the lines above"
                on_problem(Problem(pair=item.locator.name, message=message, exit_code=3))
            programs.forget(item.pair.name)
    finally:
        programs.close()

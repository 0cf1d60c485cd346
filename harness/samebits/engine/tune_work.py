"""The values of `samebits compile --tune` as work: those of a production shape on one target in one direction.

What values give at the small size does not depend on the target. It is an item of its own for each shape, so that no
process runs it again for another target, and what a compiler crash costs are its own programs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from samebits.compile.request import CompileRequest
from samebits.engine.compiling_work import CompileError, CompilingItem, CompilingWork, compile_replay
from samebits.engine.work import Item
from samebits.programs.catalogue import Locator
from samebits.schema.pair import Pair
from samebits.schema.tuning import SmallValue, TuningTrial

if TYPE_CHECKING:
    from samebits.schema.real_size import RealSize


@dataclass(frozen=True, kw_only=True, slots=True)
class TunedValues:
    """What an item gives: compiled values, or what values give at the small size; and what could not be decided.

    Args:
        trials: compiled, without what they give.
        small: at the small size of the shape.
        errors: why there is nothing else.
    """

    trials: tuple[TuningTrial, ...] = ()
    small: tuple[SmallValue, ...] = ()
    errors: tuple[CompileError, ...] = ()


def tune_items(pairs: Iterable[tuple[Locator, Pair]], request: CompileRequest) -> list[Item]:
    """Return for each production shape one at the small size, and one per target and direction; none compiles."""
    from samebits.compile.pair import selected_cases
    from samebits.compile.tune import tuned_shapes

    items: list[Item] = []
    for locator, pair in pairs:
        shapes: set[str] = set()
        for number, (real, target, direction) in enumerate(selected_cases(tuned_shapes(pair), request)):
            if real.case.id not in shapes:
                shapes.add(real.case.id)
                items.append(_small_item(locator, pair, real, request))
            words = ("--tune", "--target", target.name, "--case", real.case.id, "--direction", direction)
            items.append(
                Item(
                    key=f"{pair.name}/{real.case.id}/{target.name}/{direction}/{number}",
                    pair=locator.name,
                    words=f"{pair.name}: values of case {real.case.id} for {target.name}, {direction}",
                    replay=compile_replay(locator, request, words),
                    group=(pair.name, real.case.id, target.name),
                    payload=(locator, real.case.id, number),
                )
            )
    return items


def _small_item(locator: Locator, pair: Pair, real: RealSize, request: CompileRequest) -> Item:
    words = ["--tune", *(word for target in request.targets for word in ("--target", target.name))]
    words += ["--case", real.case.id]
    words += [word for direction in request.directions for word in ("--direction", direction)]
    return Item(
        key=f"{pair.name}/{real.case.id}/small",
        pair=locator.name,
        words=f"{pair.name}: values of case {real.case.id} at the small size",
        replay=compile_replay(locator, request, words),
        group=(pair.name, real.case.id, ""),
        payload=(locator, real.case.id, None),
    )


class TuneWork(CompilingWork[TunedValues]):
    """Compiles the values of one static argument, and runs them at a small size."""

    kind = "tune"
    row = TunedValues

    def begin(self, pair: Pair, item: Item) -> CompilingItem[TunedValues]:
        """Return values that are being compiled; at the small size they are traced as they run."""
        from samebits.compile.pair import compile_job, in_setting, selected_cases
        from samebits.compile.tune import check_arguments, finish_values, start_values, tuned_shapes

        check_arguments(pair)
        locator, case, number = item.payload
        if number is None:
            return CompilingItem(lambda: self._small(pair, locator, case), "running values at the small size")
        real, target, direction = list(selected_cases(tuned_shapes(pair), self.request))[number]
        job = compile_job(pair, real, target, direction, self.request)
        if job is None:
            return CompilingItem(TunedValues)
        waiting = start_values(in_setting(pair, real), job, self.programs, self.compiler)
        return CompilingItem(lambda: TunedValues(trials=tuple(finish_values(job, pair.name, waiting))))

    def _small(self, pair: Pair, locator: Locator, case: str) -> TunedValues:
        from samebits.compile.tune import small_values, tuned_shapes

        (real,) = (real for real in tuned_shapes(pair).compiled if real.case.id == case)
        return TunedValues(small=tuple(small_values(pair, locator, real, self.request, self.programs)))

    def failed(self, error: CompileError) -> TunedValues:
        """Return values of which nothing is known."""
        return TunedValues(errors=(error,))

"""The programs of `samebits compile` as work: the sides of a pair at one production shape, for one target."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from samebits.compile.request import CompileRequest
from samebits.engine.compiling_work import CompileError, CompilingItem, CompilingWork, compile_replay
from samebits.engine.work import Item
from samebits.programs.catalogue import Locator
from samebits.schema.pair import Pair
from samebits.schema.program_facts import CompiledSide, OptionEffect, SideBySide

if TYPE_CHECKING:
    from samebits.compile.compared_case import CompiledCase


@dataclass(frozen=True, kw_only=True, slots=True)
class CompiledPrograms:
    """The programs and comparisons of one production shape on one target in one direction, and what did not compile."""

    programs: tuple[CompiledSide, ...] = ()
    comparisons: tuple[SideBySide, ...] = ()
    effects: tuple[OptionEffect, ...] = ()
    errors: tuple[CompileError, ...] = ()


def compile_items(pairs: Iterable[tuple[Locator, Pair]], request: CompileRequest) -> list[Item]:
    """Return one per production shape, target and direction that a request selects; no compiler is started."""
    from samebits.compile.pair import selected_cases

    return [
        Item(
            key=f"{pair.name}/{real.case.id}/{target.name}/{direction}/{number}",
            pair=locator.name,
            words=f"{pair.name}: case {real.case.id} for {target.name}, {direction}",
            replay=compile_replay(
                locator,
                request,
                ("--target", target.name, "--case", real.case.id, "--direction", direction),
            ),
            group=(pair.name, real.case.id, target.name),
            payload=(locator, number),
        )
        for locator, pair in pairs
        for number, (real, target, direction) in enumerate(selected_cases(pair, request))
    ]


class CompileWork(CompilingWork[CompiledPrograms]):
    """Compiles the sides of pairs."""

    kind = "compile"
    row = CompiledPrograms

    def begin(self, pair: Pair, item: Item) -> CompilingItem[CompiledPrograms]:
        """Return a case whose programs are being compiled; without any where there is nothing to compile."""
        from samebits.compile.pair import compile_job, finish_case, in_setting, selected_cases, start_case
        from samebits.programs.sides import TracedSides

        locator, number = item.payload
        real, target, direction = list(selected_cases(pair, self.request))[number]
        job = compile_job(pair, real, target, direction, self.request)
        if job is None:
            return CompilingItem(CompiledPrograms)
        sides = TracedSides(in_setting(pair, real), self.programs)
        case = start_case(sides, locator, job, self.request, self.compiler)
        return CompilingItem(lambda: _as_data(finish_case(case, pair)))

    def failed(self, error: CompileError) -> CompiledPrograms:
        """Return a case without programs."""
        return CompiledPrograms(errors=(error,))


def _as_data(case: CompiledCase) -> CompiledPrograms:
    return CompiledPrograms(
        programs=tuple(case.programs),
        comparisons=tuple(case.comparisons),
        effects=tuple(case.effects),
        errors=tuple(CompileError.of(error) for error in case.errors),
    )

"""What a compiler makes of two functions, side by side; and of one function, run beside what was written."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from samebits.errors import CouldNotRun, RequestError, SamebitsError
from samebits.functions.as_pair import CASE, pair_of
from samebits.functions.compare import compared, rerun, session, with_gradients
from samebits.functions.request import CompareRequest, compare_request
from samebits.functions.result import Comparing
from samebits.programs.catalogue import Locator
from samebits.programs.plan import Request, plan
from samebits.report.compile import ProgramBlock, block_fold
from samebits.report.failure import LeafRow
from samebits.report.html.notebook import notebook_table
from samebits.report.terminal import blocks_text
from samebits.rooms import door
from samebits.schema.case import Case
from samebits.schema.pair import Pair
from samebits.schema.program_facts import CompiledSide, SideBySide
from samebits.schema.real_size import RealSize
from samebits.schema.target import Target, spread

REPLICATED = "devices*"
"""The layout where none is asked for: every device of the target has everything."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class ComparingPrograms:
    """The compiled programs of two functions, side by side; in a notebook they show themselves as tables.

    Args:
        name: of the comparison.
        leaves: one comparison per direction: whether both are the same program, and ratios of their figures.
        programs: the figures of each program, as in the JSON document of `samebits compile`.
        errors: what did not compile.
        ran: with `run=True`, the verdicts on the programs of each function beside what was written.
    """

    name: str
    leaves: tuple[SideBySide, ...]
    programs: tuple[CompiledSide, ...]
    errors: tuple[SamebitsError, ...] = ()
    ran: tuple[Comparing, ...] = ()

    @property
    def verdict(self) -> str | None:
        """Return `proved` where every direction is the same program, so that the bits are equal; else None."""
        return "proved" if self.leaves and not self.errors and all(leaf.verdict for leaf in self.leaves) else None

    def raise_for_status(self) -> None:
        """Do nothing where both functions compile to the same programs, and these are what was written if they ran.

        Raises:
            AssertionError: they do not; the message has both sides' figures.
            CouldNotRun: one of them does not compile, or could not be run.
        """
        __tracebackhide__ = True
        if self.errors:
            raise CouldNotRun("; ".join(str(error) for error in self.errors))
        for ran in self.ran:
            ran.raise_for_status()
        if self.verdict is None:
            raise AssertionError(repr(self))

    def _blocks(self) -> list[ProgramBlock]:
        directions = dict.fromkeys(program.direction for program in self.programs)
        return [
            ProgramBlock(
                tuple(program for program in self.programs if program.direction == direction),
                tuple(leaf for leaf in self.leaves if leaf.direction == direction),
                (),
            )
            for direction in directions
        ]

    def __repr__(self) -> str:
        return "\n".join(
            [
                blocks_text([block_fold(block) for block in self._blocks()]),
                *(f"error: {error}" for error in self.errors),
                *map(str, self.ran),
            ]
        )

    def _repr_html_(self) -> str:
        rows = [
            LeafRow(
                leaf.direction, leaf.variant, leaf.verdict or "other program", leaf.reason, leaf.verdict is not None
            )
            for leaf in self.leaves
        ]
        tables = [
            ([block.programs[0].direction, *heads[1:]], lines)
            for block, (heads, lines) in ((block, block.table()) for block in self._blocks())
        ]
        return notebook_table(self.name, rows, [f"error: {error}" for error in self.errors], tables=tables)


def compare_programs(
    reference: Callable[..., Any],
    variant: Callable[..., Any],
    *shapes: Any,
    target: str,
    mesh: str | None = None,
    specs: Any = None,
    run: bool = False,
    **more: Any,
) -> ComparingPrograms:
    """Compile two functions for a target, such as a TPU slice, and compare the programs; no array is allocated.

    Equivalent to `samebits compile` for a pair of these functions with one production shape.

    Args:
        reference: the function that is right by definition.
        variant: the function that stands in for it.
        shapes: what both take: `jax.ShapeDtypeStruct`, arrays, and any pytree of them.
        target: a machine by name: `tpu7x:2x2x1`, `v5p:4x4x4`, `cpu`; no TPU is needed, but the extra `tpu`.
        mesh: the layout, with one size left open for the target's devices: `fsdp*_tensor2`. By default every device has
            everything.
        specs: how the arguments lie on the mesh, as for `assert_same`.
        run: both programs are run on the CPU too and compared with what was written, as by `run_compiled`.
        more: options and keyword arguments, as for `assert_same`.

    Returns:
        The figures of both programs, whether they are the same, and in `ran` what running them showed.

    Raises:
        RequestError: the functions do not take the arguments, or there is no such target or layout.
        CouldNotRun: the target's compiler is not installed.
    """
    from samebits.compile.cache import CompileCache
    from samebits.compile.pair import Compiler, compile_pair
    from samebits.compile.request import CompileRequest

    if mesh is not None and not isinstance(mesh, str):
        raise RequestError(f"mesh={mesh!r}; expected a layout such as 'fsdp*_tensor2': the target has its own devices")
    Target(name=target)
    request = compare_request(reference, variant, shapes, {"specs": specs, **more})
    pair = pair_of(request)
    real = RealSize(
        case=Case(id=CASE, statics=pair.cases[0].statics),
        layout=mesh or REPLICATED,
        dtype=pair.dtypes[0],
        targets=(target,),
        mode=pair.modes[0],
    )
    compiled = replace(pair, compiled=(real,))
    compiler = Compiler(CompileCache())
    try:
        cases = list(compile_pair(compiled, Locator(name=pair.name, rerun=rerun()), CompileRequest(), compiler))
    finally:
        compiler.close()
    return ComparingPrograms(
        name=f"{pair.name} on {target}",
        leaves=tuple(leaf for case in cases for leaf in case.comparisons),
        programs=tuple(program for case in cases for program in case.programs),
        errors=tuple(error for case in cases for error in case.errors),
        ran=tuple(_ran(replace(pair, name=side), request, target, mesh, side) for side in pair.sides if run),
    )


def run_compiled(
    function: Callable[..., Any],
    *shapes: Any,
    target: str,
    reference: Callable[..., Any] | None = None,
    mesh: str | None = None,
    compiler_options: Mapping[str, str] | None = None,
    products: Literal["full", "bf16"] = "full",
    script: str | Path | None = None,
    **more: Any,
) -> Comparing:
    """Compile a function for a target, run that program on the CPU, and compare it with what was written.

    Equivalent to `samebits check` of a pair whose reference is the function on one device, and whose variant is the
    optimised program of all partitions, evaluated as JAX; once more for the program of its gradient.

    Args:
        function: what is compiled.
        shapes: what it takes: arrays, `jax.ShapeDtypeStruct`, from which values are drawn, and any pytree of them.
        target: a machine by name: `tpu7x:2x2x1`, `v5p:4x4x4`, `cpu`; no TPU is needed, but the extra `tpu`.
        reference: the plain function of one device that it stands for, where it is sharded by hand; itself by default.
        mesh: the layout, with one size left open for the target's devices: `fsdp*_tensor2`. By default every device has
            everything.
        compiler_options: of XLA, by name.
        products: how those of float32 are taken: in full precision, or with `bf16` in as many passes of bfloat16 as a
            TPU takes at their precision: one by default, three at `high`, six at `highest`.
        script: where the smallest program is written that shows a difference, with nothing but jax.
        more: options and keyword arguments, as for `assert_same`: `specs` says how the arguments lie on the mesh.

    Returns:
        The verdicts, one per output; an output that several partitions hold has its replicas in the first dimension.

    Raises:
        RequestError: the function does not take the arguments, or there is no such target or layout.
        CouldNotRun: the target's compiler is not installed, or an instruction of the program has no meaning here.
    """
    from samebits.compile.request import PRODUCTS

    if products not in PRODUCTS:
        raise RequestError(f"products={products!r}; expected {' or '.join(map(repr, PRODUCTS))}")
    if mesh is not None and not isinstance(mesh, str):
        raise RequestError(f"mesh={mesh!r}; expected a layout such as 'fsdp*_tensor2': the target has its own devices")
    sides = (function, functools.partial(function)) if reference is None else (reference, function)
    request = compare_request(*sides, shapes, more)
    pair = pair_of(request)
    side, against = (pair.reference_name, None) if reference is None else (pair.variant_names[0], pair.reference_name)
    pair = replace(pair, name=request.options.name or side)
    how: dict[str, Any] = {"options": compiler_options, "in_passes": products == "bf16", "script": script}
    return _ran(pair, request, target, mesh, side, against=against, **how)


def _ran(
    pair: Pair,
    request: CompareRequest,
    target: str,
    mesh: str | None,
    side: str,
    script: str | Path | None = None,
    **how: Any,
) -> Comparing:
    """Run the programs of a side for a target, and compare them with what was written."""
    from samebits.check.run_points import run_points
    from samebits.compile.blame import explained
    from samebits.compile.devices import devices
    from samebits.compile.executed import compiled_pair

    begin = time.perf_counter()
    layout = spread(mesh or REPLICATED, len(devices(Target(name=target))))
    pair = replace(pair, meshes=(), wide_meshes=(layout.id,))
    programs = session().use(pair.name)
    pair, notes = with_gradients(pair, programs, layout.abstract(pair.modes[0]))
    both = compiled_pair(pair, target, sides=(side,), **how)
    ran = plan(both, Request(variants=both.variant_names), 1)
    effort = session().effort(assuming=request.options.assumptions, budget=request.options.budget)
    locator = Locator(name=both.name, rerun=rerun())
    leaves, causes = explained(both, tuple(run_points(both, locator, ran.points, programs, effort)))
    said = [*notes, *causes]
    if script is not None:
        said += filter(None, [door("bisect.smallest_program").script_note(both, leaves, Path(script))])
    return compared(both, tuple(leaves), begin, said)

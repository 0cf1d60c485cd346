"""Compile any function for any target from shapes alone, and read off what the compiler made of it.

No array is made: arguments are `jax.ShapeDtypeStruct`s with shardings over the target's mesh (`topology.target_mesh`).
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from samebits.compile.cache import Artefact, CompileCache
from samebits.compile.devices import compiler_version
from samebits.errors import CouldNotRun, RequestError, one_line
from samebits.hlo.canonical import identity
from samebits.hlo.counts import count
from samebits.hlo.module import HloModule
from samebits.host.environment import compile_options
from samebits.host.stderr_capture import quiet
from samebits.programs.captured_values import calls_python, captured_arrays
from samebits.schema.program_facts import Facts
from samebits.schema.target import Target

_REFUSED = ("No such compile option", "Failed to parse", "While setting option")
"""What XLA says of an option that it does not have, or of a value that it cannot read."""


_NUMBERS = itertools.count(1)
"""Of programs with callbacks, in the order in which they are lowered."""

_ALONE = threading.Lock()
"""Held while libtpu compiles: two threads of one process crash it now and then (5 of 10 runs over the programs of the
embedding pair ended in a segmentation fault, libtpu 0.0.42.1). Processes do not disturb each other."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Lowered:
    """A program ready to be compiled for a target; lowering holds Python's lock, compiling does not.

    Args:
        label: names it in errors.
        target: what it is compiled for.
        lowered: as jax has it.
        text: its StableHLO.
        place: target, mesh, devices, and which arguments it takes: with the text and what is captured, all that tells
            two programs apart.
        captured: a digest of the arrays that the text does not show; empty where it shows them all.
        calls_python: where it has callbacks, which look alike, the number of the lowering, else 0: such a program is
            never cached, and no other one is the same.
        taken: the arguments that it takes; jit drops the unused ones, and numbers the others anew.
    """

    label: str
    target: Target
    lowered: Any
    text: str
    place: str
    taken: tuple[int, ...]
    captured: str = ""
    calls_python: int = 0

    @property
    def apart(self) -> str:
        """What sets the program's digests apart from those of others whose module is the same."""
        return f"{self.captured} {self.calls_python or ''}".strip()


def compile_for(
    function: Callable[..., Any],
    *types: Any,
    mesh: Any,
    target: str | Target,
    options: Mapping[str, str] | None = None,
    cache: CompileCache | None = None,
    label: str = "the program",
) -> Facts:
    """What a compiler makes of a function: loops, collectives, memory, traffic, and the program's digest.

    Equivalent to `jax.jit(function).trace(*types).lower().compile(compiler_options=options)` under
    `jax.set_mesh(mesh)`, with the figures read from the compiled module.

    Args:
        function: jitted or not; a jitted one keeps its donation and output shardings.
        types: positional arguments as trees of `jax.ShapeDtypeStruct`, with shardings over `mesh`; no array is made.
        mesh: over the target's devices, from `target_mesh`.
        target: such as `v5p:2x2x1`, or `cpu`.
        options: compiler options by name; none by default.
        cache: where compiled programs are cached; None, the default, compiles anew.
        label: names the program in errors.

    Returns:
        The facts, per device.

    Raises:
        RequestError: the compiler rejects an option.
        CouldNotRun: tracing, lowering or compiling raised, with the compiler's words.
    """
    return compile_lowered(lower(function, *types, mesh=mesh, target=target, label=label), options or {}, cache)


def lower(function: Callable[..., Any], *types: Any, mesh: Any, target: str | Target, label: str) -> Lowered:
    """The first half of `compile_for`: from Python to StableHLO.

    Raises:
        CouldNotRun: tracing or lowering raised.
    """
    import jax

    jitted = function if hasattr(function, "trace") else jax.jit(function)
    try:
        with jax.set_mesh(mesh):
            traced = jitted.trace(*types)
    except Exception as error:
        raise CouldNotRun(f"{label} {one_line(error)}") from error
    return lower_traced(traced, mesh=mesh, target=target, label=label)


def lower_traced(traced: Any, *, mesh: Any, target: str | Target, label: str) -> Lowered:
    """From a traced program to StableHLO.

    Raises:
        CouldNotRun: lowering raised.
    """
    import jax

    target = Target(name=target) if isinstance(target, str) else target
    try:
        with quiet(), jax.set_mesh(mesh):
            lowered = traced.lower()
            text = lowered.as_text()
    except Exception as error:
        raise CouldNotRun(f"{label} {one_line(error)}") from error
    taken = _taken(traced)
    return Lowered(
        label=label,
        target=target,
        lowered=lowered,
        text=text,
        place=f"{target.name} {mesh.axis_names} {[device.id for device in mesh.devices.flat]} {taken}",
        taken=taken,
        captured=captured_arrays(traced.jaxpr),
        calls_python=next(_NUMBERS) if calls_python(traced.jaxpr, text) else 0,
    )


def _taken(traced: Any) -> tuple[int, ...]:
    """The arguments that are left when jit has dropped the unused ones, found as jit finds them.

    Without them `sin(x)` and `sin(y)` as functions of x and y would be one program.
    """
    from jax.interpreters import partial_eval

    jaxpr = traced.jaxpr.jaxpr
    *_, used = partial_eval.dce_jaxpr_consts(jaxpr, [True] * len(jaxpr.outvars))
    return tuple(number for number, used_argument in enumerate(used) if used_argument)


def compile_lowered(program: Lowered, options: Mapping[str, str], cache: CompileCache | None = None) -> Facts:
    """The second half of `compile_for`; may run in a thread.

    Raises:
        RequestError: the compiler refuses an option.
        CouldNotRun: it raised, with its words.
    """
    key = None
    if cache is not None and not program.calls_python:
        # Without captured arrays the key is what it was before there were any.
        place = f"{program.place} {program.captured}".rstrip()
        key = cache.key(program.text, place, options, compiler_version(program.target))
        kept = cache.get(key)
        if kept is not None:
            return facts_of(kept, program.taken, cached=True, apart=program.apart)
    artefact = compile_artefact(program, options)
    if cache is not None and key is not None:
        cache.put(key, artefact)
    return facts_of(artefact, program.taken, cached=False, apart=program.apart)


def compile_artefact(program: Lowered, options: Mapping[str, str]) -> Artefact:
    """What the compiler gives, nothing read off yet.

    Raises:
        RequestError: it refuses an option.
        CouldNotRun: it raised, with its words.
    """
    usual = dict(compile_options()) if program.target.platform == "cpu" else {}
    with _ALONE if program.target.platform == "tpu" else contextlib.nullcontext(), quiet() as written:
        begin = time.perf_counter()
        try:
            compiled = program.lowered.compile(compiler_options={**usual, **options} or None)
            seconds = time.perf_counter() - begin
            modules = compiled.runtime_executable().hlo_modules()
            serialised = modules[0].as_serialized_hlo_module_proto()
            memory, cost = compiled.memory_analysis(), compiled.cost_analysis()
        except Exception as error:
            words = " ".join(str(error).split())
            if options and any(sign in words for sign in _REFUSED):
                raise RequestError(f"{program.target.name} refuses an option: {words[:400]}") from None
            log = written()
            failed = CouldNotRun(f"{program.label} {one_line(error)}")
            if log:
                failed.add_note(log)
            raise failed from error
    return Artefact(module=serialised, memory=_memory(memory), cost=_cost(cost), seconds=round(seconds, 3))


def _memory(analysis: Any) -> dict[str, int | None]:
    names = {
        "temp_bytes": "temp_size_in_bytes",
        "peak_bytes": "peak_memory_in_bytes",
        "argument_bytes": "argument_size_in_bytes",
        "output_bytes": "output_size_in_bytes",
    }
    figures = {ours: getattr(analysis, theirs, None) for ours, theirs in names.items()}
    return {name: None if value is None else int(value) for name, value in figures.items()}


def _cost(analysis: Any) -> dict[str, float | None]:
    """The estimates; None for what is missing or below zero, as times are for TPU programs with loops."""
    if isinstance(analysis, (list, tuple)):
        analysis = analysis[0] if analysis else None
    names = {"bytes_accessed": "bytes accessed", "flops": "flops", "optimal_seconds": "optimal_seconds"}
    figures = {ours: (analysis or {}).get(theirs) for ours, theirs in names.items()}
    return {name: None if value is None or value < 0 else float(value) for name, value in figures.items()}


def facts_of(artefact: Artefact, taken: tuple[int, ...], *, cached: bool, apart: str = "") -> Facts:
    """The facts of a compiled module.

    Args:
        made: what the compiler gave.
        taken: which arguments of the function its parameters are.
        cached: whether it comes from the cache.
        apart: what its digests depend on besides the module.

    Raises:
        CouldNotRun: the module is not understood.
    """
    module = HloModule(artefact.module)
    counts, digests = count(module), identity(module, taken)
    return Facts(
        while_loops=counts.while_loops,
        loop_turns=counts.loop_turns,
        gathers=counts.gathers,
        scatters=counts.scatters,
        copies=counts.copies,
        collectives=counts.collectives,
        wire_bytes=counts.wire_bytes,
        sparsecore=sum(counts.sparsecore.values()),
        sparsecore_operations=counts.sparsecore,
        custom_calls=counts.custom_calls,
        operations=counts.opcodes,
        **artefact.memory,
        **artefact.cost,  # type: ignore[arg-type]
        compile_seconds=artefact.seconds,
        cached=cached,
        program=_with(apart, digests.ordered),
        unordered=_with(apart, digests.unordered),
    )


def _with(apart: str, digest: str) -> str:
    """A digest of as many digits that depends on more."""
    return hashlib.sha256(f"{digest} {apart}".encode()).hexdigest()[: len(digest)] if apart else digest

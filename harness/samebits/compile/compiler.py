"""Compiles any function for any target from shapes alone, and reads the facts of the compiled program.

No array is allocated: arguments are `jax.ShapeDtypeStruct`s with shardings over the target's mesh (`target_mesh`).
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from samebits.compile.cache import Artefact, CompileCache
from samebits.compile.devices import compiler_version
from samebits.errors import CouldNotRun, RequestError
from samebits.hlo.canonical import identity
from samebits.hlo.counts import count
from samebits.hlo.module import HloModule
from samebits.host.environment import compile_options
from samebits.host.stderr_capture import quiet
from samebits.programs.captured_values import calls_python, captured_arrays
from samebits.schema.program_facts import Facts
from samebits.schema.target import Target
from samebits.user_errors import one_line

if TYPE_CHECKING:
    from samebits.programs.host_trees import HostTree


@dataclass(frozen=True, kw_only=True, slots=True)
class OutputTypes:
    """The output of a traced program.

    Args:
        tree: its structure, without leaves.
        leaves: path, dtype and whether the type is weak, in order.
    """

    tree: HostTree
    leaves: tuple[tuple[str, str, bool], ...]

    @classmethod
    def of(cls, traced: Any) -> OutputTypes:
        """Return those of a traced program, as jax has it."""
        import jax

        from samebits.programs.host_trees import HostTree

        info = traced.out_info
        structure = jax.tree_util.tree_structure(info)
        leaves = tuple(
            ("out" + jax.tree_util.keystr(path), str(leaf.dtype), bool(getattr(leaf, "weak_type", False)))
            for path, leaf in jax.tree_util.tree_leaves_with_path(info)
        )
        return cls(tree=HostTree(structure=str(structure), leaves={}, tree=structure), leaves=leaves)

    def difference(self, variant: OutputTypes) -> str | None:
        """Say what a variant returns otherwise than this reference; None where it returns the same types."""
        from samebits.programs.host_trees import same_structure

        if not same_structure(self.tree, variant.tree):
            first, second = self.tree.structure, variant.tree.structure
            return "another output tree: " + (
                f"{first} -> {second}" if first != second else f"both print as {first}, but their static data differs"
            )
        for (path, dtype, weak), (_, other_dtype, other_weak) in zip(self.leaves, variant.leaves, strict=True):
            if dtype != other_dtype:
                return f"another output dtype: {path} {dtype} -> {other_dtype}"
            if weak != other_weak:
                return f"another output weak type: {path} weak_type={weak} -> {other_weak}"
        return None


_REFUSED = ("No such compile option", "Failed to parse", "While setting option")
"""XLA's messages for an unknown option, or for a value that it cannot parse."""


_NUMBERS = itertools.count(1)
"""Of programs with callbacks, in the order in which they are lowered."""

_ALONE = threading.Lock()
"""Held while libtpu compiles, because compiling in two threads of a process sometimes crashes it (5 of 10 runs over the
programs of the embedding pair ended in a segmentation fault, libtpu 0.0.42.1). Separate processes are safe."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Lowered:
    """A program that is lowered for a target; lowering holds Python's GIL, compiling does not.

    Args:
        label: its name in errors.
        lowered: JAX's `Lowered`.
        text: its StableHLO.
        place: target, mesh, devices and used arguments; with `text` and `captured` it identifies the program.
        captured: a digest of the captured arrays that the text does not show; empty if it shows all of them.
        calls_python: for a program with callbacks, the number of the lowering, else 0: callbacks cannot be compared, so
            such a program is never cached, and never the same as another one.
        taken: the arguments that it uses; jit drops the unused ones, and renumbers the others.
        outputs: the types that it returns, which its text does not show.
    """

    label: str
    target: Target
    lowered: Any
    text: str
    place: str
    taken: tuple[int, ...]
    outputs: OutputTypes
    captured: str = ""
    calls_python: int = 0

    @property
    def apart(self) -> str:
        """The part of the program's identity that its module does not show."""
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
    """Compile a function, and return its loops, collectives, memory, traffic and digest.

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
    return compile_program(lower(function, *types, mesh=mesh, target=target, label=label), options or {}, cache).facts


def lower(function: Callable[..., Any], *types: Any, mesh: Any, target: str | Target, label: str) -> Lowered:
    """Lower from Python to StableHLO: the first half of `compile_for`.

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
    """Lower a traced program to StableHLO."""
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
        outputs=OutputTypes.of(traced),
        captured=captured_arrays(traced.jaxpr),
        calls_python=next(_NUMBERS) if calls_python(traced.jaxpr, text) else 0,
    )


def _taken(traced: Any) -> tuple[int, ...]:
    """Return the arguments that jit does not drop as unused, determined as jit does it.

    Without them, `sin(x)` and `sin(y)` as functions of x and y would count as the same program.
    """
    from jax.interpreters import partial_eval

    jaxpr = traced.jaxpr.jaxpr
    *_, used = partial_eval.dce_jaxpr_consts(jaxpr, [True] * len(jaxpr.outvars))
    return tuple(number for number, used_argument in enumerate(used) if used_argument)


@dataclass(frozen=True, slots=True)
class CompiledProgram:
    """A compiled program: its facts, and the optimised module that they are read from.

    Args:
        module: serialised.
        taken: which arguments of the function the module's parameters are.
        outputs: the types that the side returns; sides that share a program need not share them.
    """

    facts: Facts
    module: bytes
    taken: tuple[int, ...]
    outputs: OutputTypes


def compile_program(program: Lowered, options: Mapping[str, str], cache: CompileCache | None = None) -> CompiledProgram:
    """Compile StableHLO to a program with its facts; may run in a thread.

    Raises:
        RequestError: the compiler rejects an option.
        CouldNotRun: the compiler raised, with its message.
    """
    key = None
    if cache is not None and not program.calls_python:
        # Without captured arrays the key is the same as before they were part of it.
        place = f"{program.place} {program.captured}".rstrip()
        key = cache.key(program.text, place, options, compiler_version(program.target))
        cached = cache.get(key)
        if cached is not None:
            return _program_of(cached, program, cached=True)
    artefact = compile_artefact(program, options)
    if cache is not None and key is not None:
        cache.put(key, artefact)
    return _program_of(artefact, program, cached=False)


def _program_of(artefact: Artefact, program: Lowered, *, cached: bool) -> CompiledProgram:
    facts = facts_of(artefact, program.taken, cached=cached, apart=program.apart)
    return CompiledProgram(facts, artefact.module, program.taken, program.outputs)


def compile_artefact(program: Lowered, options: Mapping[str, str]) -> Artefact:
    """Compile a lowered program, without interpreting the result."""
    begin = time.perf_counter()
    compiled = compile_lowered(program, options)
    seconds = time.perf_counter() - begin
    try:
        serialised = compiled.runtime_executable().hlo_modules()[0].as_serialized_hlo_module_proto()
        memory, cost = compiled.memory_analysis(), compiled.cost_analysis()
    except Exception as error:
        raise CouldNotRun(f"{program.label} {one_line(error)}") from error
    return Artefact(module=serialised, memory=_memory(memory), cost=_cost(cost), seconds=round(seconds, 3))


def compile_lowered(program: Lowered, options: Mapping[str, str]) -> Any:
    """Compile a lowered program; returns it as jax has it.

    Raises:
        RequestError: the compiler rejects an option.
        CouldNotRun: the compiler raised, with its message.
    """
    usual = dict(compile_options()) if program.target.platform == "cpu" else {}
    with _ALONE if program.target.platform == "tpu" else contextlib.nullcontext(), quiet() as written:
        try:
            return program.lowered.compile(compiler_options={**usual, **options} or None)
        except Exception as error:
            words = " ".join(str(error).split())
            if options and any(sign in words for sign in _REFUSED):
                raise RequestError(f"{program.target.name} rejects an option: {words[:400]}") from None
            log = written()
            failed = CouldNotRun(f"{program.label} {one_line(error)}")
            if log:
                failed.add_note(log)
            raise failed from error


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
    """Return the cost estimates; None for missing and negative values, such as times of TPU programs with loops."""
    if isinstance(analysis, (list, tuple)):
        analysis = analysis[0] if analysis else None
    names = {"bytes_accessed": "bytes accessed", "flops": "flops", "optimal_seconds": "optimal_seconds"}
    figures = {ours: (analysis or {}).get(theirs) for ours, theirs in names.items()}
    return {name: None if value is None or value < 0 else float(value) for name, value in figures.items()}


def facts_of(artefact: Artefact, taken: tuple[int, ...], *, cached: bool, apart: str = "") -> Facts:
    """Return the facts of a compiled module.

    Args:
        taken: the function arguments that correspond to the module's parameters.
        apart: further data that its digests depend on.

    Raises:
        CouldNotRun: the module cannot be parsed.
    """
    module = HloModule(artefact.module)
    counts, digests = count(module), identity(module, taken)
    return Facts(
        while_loops=counts.opcodes.get("while", 0),
        loop_turns=counts.loop_turns,
        gathers=counts.opcodes.get("gather", 0),
        scatters=counts.opcodes.get("scatter", 0),
        copies=counts.opcodes.get("copy", 0),
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
    """Return a digest of the same length that also depends on further data."""
    return hashlib.sha256(f"{digest} {apart}".encode()).hexdigest()[: len(digest)] if apart else digest

"""Facts about compiled programs, and comparisons of two of them: the records that `compile` publishes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from samebits.schema.shown import Shown

# Where two compiled programs first differ, as instructions side by side: a part of what `compile` publishes.
LineKind = Literal["same", "changed", "reference", "variant", "moved"]


@dataclass(frozen=True, kw_only=True, slots=True)
class RegionLine:
    """One row of a region: an instruction of the reference beside one of the variant.

    Args:
        kind: `same` in both; `changed`: other operands, shapes or attributes; `reference` or `variant`: only there;
            `moved`: in both, and at another place of the other side.
        reference, variant: the instruction as XLA prints it, under names that both sides share; None where the side
            has none in this row.
        reference_source, variant_source: the operation of JAX that it comes from, with function and file, as the
            compiler noted them.
        note: what differs where both texts are the same.
    """

    kind: LineKind
    reference: str | None = None
    variant: str | None = None
    reference_source: str | None = None
    variant_source: str | None = None
    note: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class RegionLevel:
    """One computation on the way from the entry to the first difference, on both sides.

    Args:
        name: such as `entry computation` or `body of while.1`.
        reference_instructions, variant_instructions: how many instructions it has.
        reference_only, variant_only: how many of them have no equal on the other side.
    """

    name: str
    reference_instructions: int
    variant_instructions: int
    reference_only: int
    variant_only: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ProgramRegion:
    """The first differing instructions of two optimised modules, with some lines around them.

    Instructions are in the order of dependence, operands first, so that the first one that differs takes only values
    that both programs compute alike.

    Args:
        levels: from the entry computation to the one that the lines are of.
        lines: the rows, a bounded number.
        more: differing instructions of that computation that are not among the rows.
    """

    levels: tuple[RegionLevel, ...]
    lines: tuple[RegionLine, ...]
    more: int

    @property
    def first(self) -> RegionLine | None:
        """Return the first row that differs."""
        return next((line for line in self.lines if line.kind not in ("same", "moved")), None)


@dataclass(frozen=True, kw_only=True)
class Facts:
    """The compiler's figures of one compiled program; sizes and figures are those of one device.

    Args:
        while_loops: loops in the program, those inside fusions included, as with the three below.
        loop_turns: the trip counts of all loops together, per run; None where one is unknown.
        gathers: gather operations.
        scatters: scatter operations.
        copies: copy operations.
        collectives: each kind with its count, an asynchronous pair once.
        wire_bytes: the communication volume: bytes that a device sends per run, loops included, at the least that a
            ring can do; None if unknown.
        sparsecore: how many operations run on the SparseCore.
        sparsecore_operations: which operations these are, with their counts.
        custom_calls: kernels and the like, by target.
        operations: all counts, by opcode.
        temp_bytes: temporary memory in bytes, as the compiler plans it; None where it gives no figure, as with those
            below.
        peak_bytes: the largest memory at one time, in bytes.
        argument_bytes: of the arguments.
        output_bytes: of the outputs.
        bytes_accessed: the compiler's estimate of traffic to memory, in bytes; loops count once.
        flops: the compiler's estimate of floating-point operations; loops count once.
        optimal_seconds: the compiler's estimate of time; None where its figure is meaningless (below zero).
        compile_seconds: as measured when it was compiled.
        cached: whether the program comes from the cache.
        program: digest of the canonical program; equal digests are the same bits on the target.
        unordered: digest that ignores the order of operands of commutative operations.
    """

    while_loops: int
    loop_turns: int | None
    gathers: int
    scatters: int
    copies: int
    collectives: Mapping[str, int]
    wire_bytes: int | None
    sparsecore: int
    sparsecore_operations: Mapping[str, int]
    custom_calls: Mapping[str, int]
    operations: Mapping[str, int]
    temp_bytes: int | None
    peak_bytes: int | None
    argument_bytes: int | None
    output_bytes: int | None
    bytes_accessed: float | None
    flops: float | None
    optimal_seconds: float | None
    compile_seconds: float
    cached: bool
    program: str
    unordered: str


@dataclass(frozen=True, kw_only=True)
class ProgramIdentity:
    """What was compiled; `side` is the reference's name or a variant's.

    Args:
        shapes: of the arguments, such as `x bfloat16[1,131072,128,128]`.
        options: compiler options given for this side.
        compiler: the version of libtpu, or of jaxlib for the CPU.
        replay: the command that compiles it again.
    """

    pair: str
    side: str
    case: str
    dtype: str
    mesh: str
    mode: str
    direction: str
    target: str
    shapes: tuple[str, ...]
    options: Mapping[str, str]
    compiler: str | None
    replay: str


@dataclass(frozen=True, kw_only=True)
class CompiledSide(Facts, ProgramIdentity, Shown):
    """One side compiled for one target; published, so keys keep their meaning."""

    @classmethod
    def of(cls, which: ProgramIdentity, facts: Facts) -> CompiledSide:
        """Return the facts of a program with what it is."""
        return cls(**asdict(which), **asdict(facts))


@dataclass(frozen=True, kw_only=True, slots=True)
class ClaimResult:
    """A claim held against the facts.

    Args:
        shows, source, finding: as declared.
        holds: whether the statement came out true; None where the compiler gives no figure.
        ok: it holds, or it is a recorded finding and does not.
        got: what was seen.
    """

    shows: str
    source: str
    finding: str | None
    holds: bool | None
    ok: bool
    got: str


@dataclass(frozen=True, kw_only=True, slots=True)
class SideBySide(Shown):
    """A variant beside the reference, both compiled for one target; the reference itself where claims name it.

    Args:
        same_program: the same program, up to the order of operands of commutative operations.
        same_order: the operands too: then the bits are the same.
        verdict: `proved` where `same_order` holds, and both have the same options and return the same tree, dtypes and
            weak types: for every input on that target;
            `refused` where the compiler must refuse the variant's options, and does.
        reason: in words.
        temp_ratio, peak_ratio, bytes_ratio, wire_ratio: variant over reference; None where one has no figure or the
            reference has none of it.
        operations: opcodes whose counts differ, `[reference, variant]`, the largest change first.
        expectations: the claims about it.
        region: where the optimised programs first differ; None for the same program, and where every instruction has
            its equal on the other side.
    """

    pair: str
    variant: str
    reference: str
    case: str
    dtype: str
    mesh: str
    direction: str
    target: str
    same_program: bool
    same_order: bool
    verdict: str | None
    reason: str
    temp_ratio: float | None
    peak_ratio: float | None
    bytes_ratio: float | None
    wire_ratio: float | None
    operations: Mapping[str, tuple[int, int]]
    expectations: tuple[ClaimResult, ...] = field(default=())
    region: ProgramRegion | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class OptionEffect:
    """What compiler options changed in one side: its program with them and without them.

    Args:
        options: the options given.
        changed: whether the program is another one; an option that XLA ignores in silence changes nothing.
        before, after: the figures that differ.
        operations: opcodes whose counts differ, `[without, with]`.
    """

    pair: str
    side: str
    case: str
    direction: str
    target: str
    options: Mapping[str, str]
    changed: bool
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    operations: Mapping[str, tuple[int, int]]


def ratio(variant: float | None, reference: float | None) -> float | None:
    """Divide variant by reference, to four digits; None where it says nothing."""
    if variant is None or not reference:
        return None
    return float(f"{variant / reference:.4g}")

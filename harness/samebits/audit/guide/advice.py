"""Judges each parallelism of a mesh on a chip by the guide's rule: bound by compute or by communication."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from samebits.audit.guide import intensity
from samebits.audit.guide.chips import Chip
from samebits.audit.guide.intensity import DeviceWork, Parallelism
from samebits.audit.guide.setup import TrainingSetup
from samebits.errors import RequestError

Verdict = Literal["compute-bound", "communication-bound", "memory-bound", "unknown"]

D2D = "d2d"


@dataclass(frozen=True, kw_only=True, slots=True)
class Interconnect:
    """The interconnect that carries each mesh axis.

    Args:
        over: for a mesh axis, the number of ICI axes that carry it, or `d2d`; one ICI axis by default.
        wraparound: whether ICI axes are closed to rings.
    """

    over: Mapping[str, str]
    wraparound: bool = True

    def check(self, chip: Chip, setup: TrainingSetup) -> None:
        """Check that the chip has this interconnect."""
        for axis, wires in self.over.items():
            most = int(chip.torus.value)
            if setup.axis_size(axis) == 1:
                raise RequestError(f"--over {axis}={wires}: mesh '{setup.mesh.id}' does not split over '{axis}'")
            if wires == D2D and chip.d2d_links is None:
                raise RequestError(f"--over {axis}=d2d: no die-to-die interface is published of {chip.name}")
            if wires == D2D and setup.axis_size(axis) != 2:
                raise RequestError(f"--over {axis}=d2d: two dies carry an axis of size 2, not {setup.axis_size(axis)}")
            if wires != D2D and not 1 <= int(wires) <= most:
                raise RequestError(f"--over {axis}={wires}: {chip.name} has {most} ICI axes")
            if axis == "stage" and wires not in (D2D, "1"):
                raise RequestError(f"--over stage={wires}: a permute goes to one neighbour, over one ICI axis")
        dies = [axis for axis, wires in self.over.items() if wires == D2D]
        if len(dies) > 1:
            raise RequestError(f"--over: {' and '.join(dies)} both over d2d; a chip has two dies, for one of them")

    def name(self, axis: str) -> str:
        """Return the interconnect of a mesh axis, in words."""
        wires = self.over.get(axis, "1")
        return "die to die" if wires == D2D else f"{wires} ICI {'axis' if wires == '1' else 'axes'}"

    def bandwidth(self, chip: Chip, axis: str, *, permutes: bool) -> float | None:
        """Return the bytes/s that one device sends; None if no figure is published.

        A permute goes to one neighbour, over one link, however many axes there are.
        """
        wires = self.over.get(axis, "1")
        if wires == D2D:
            return chip.d2d
        if permutes:
            return chip.device_link()
        return chip.device_ring(axes=int(wires), wraparound=self.wraparound)


@dataclass(frozen=True, kw_only=True, slots=True)
class BlockCost:
    """The cost of the MLP of one layer (or of the operation that the parallelism affects), per device.

    Args:
        flops, bytes: floating-point operations, and communication volume in bytes.
        intensity: operations per byte.
        wants: the size that the dimension must exceed; None if unknown.
        verdict: by this count.
        compute_seconds, communication_seconds: at the published rates, without overlap.
    """

    flops: float
    bytes: float
    intensity: float
    wants: float | None
    verdict: Verdict
    compute_seconds: float | None
    communication_seconds: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Advice:
    """The advice for one parallelism; published as JSON, so keys keep their meaning.

    Args:
        axis, size: of the mesh; `memory` and 1 for the matmul against HBM.
        over: the interconnect that carries it.
        sends: the data that is communicated.
        formula: of the intensity, for 2 bytes per element.
        intensity: by the guide's rule, in operations per byte.
        needed: the intensity above which the chip is bound by compute; None if a figure is not published.
        dimension, has, wants: the dimension that must be large, its size, and the size that it must exceed.
        verdict: by the guide's rule.
        block: the exact count for the whole block; None for memory.
        source: of the rule.
    """

    axis: str
    size: int
    over: str
    sends: str
    formula: str
    intensity: float
    needed: float | None
    dimension: str
    has: float
    wants: float | None
    verdict: Verdict
    block: BlockCost | None
    source: str

    @property
    def split(self) -> bool:
        """Whether the rule and the whole block disagree."""
        return self.block is not None and self.block.verdict != self.verdict


def advise(setup: TrainingSetup, chip: Chip, dtype: str, wires: Interconnect) -> tuple[Advice, ...]:
    """Judge every parallelism of the mesh, and the matmul against memory.

    Returns:
        One advice per mesh axis larger than 1 (two for `context`), and `memory` last.
    """
    wires.check(chip, setup)
    judged = [
        _judge(parallelism, setup, chip, dtype, wires)
        for parallelism in intensity.PARALLELISMS
        if setup.axis_size(parallelism.axis) > 1
    ]
    return (*judged, _memory(setup, chip, dtype))


def _judge(parallelism: Parallelism, setup: TrainingSetup, chip: Chip, dtype: str, wires: Interconnect) -> Advice:
    peak, bandwidth = chip.device_peak(dtype), wires.bandwidth(chip, parallelism.axis, permutes=parallelism.permutes)
    need = None if peak is None or bandwidth is None else intensity.needed(peak, bandwidth)
    rule, block = parallelism.rule(setup), parallelism.block(setup)
    has = parallelism.has(setup)
    return Advice(
        axis=parallelism.axis,
        size=setup.axis_size(parallelism.axis),
        over=wires.name(parallelism.axis),
        sends=parallelism.sends,
        formula=parallelism.formula,
        intensity=rule.intensity,
        needed=need,
        dimension=parallelism.dimension,
        has=has,
        wants=_size_wanted(has, need, rule),
        verdict=_verdict(need, rule, "communication-bound"),
        block=BlockCost(
            flops=block.flops,
            bytes=block.bytes,
            intensity=block.intensity,
            wants=_size_wanted(has, need, block),
            verdict=_verdict(need, block, "communication-bound"),
            compute_seconds=None if peak is None else block.flops / peak,
            communication_seconds=None if bandwidth is None else block.bytes / bandwidth,
        ),
        source=parallelism.source,
    )


def _memory(setup: TrainingSetup, chip: Chip, dtype: str) -> Advice:
    peak, bandwidth = chip.device_peak(dtype), chip.device_hbm()
    need = None if peak is None or bandwidth is None else intensity.needed(peak, bandwidth)
    rule = intensity.memory_rule(setup)
    return Advice(
        axis="memory",
        size=1,
        over="HBM",
        sends="operands and result of one matmul",
        formula="B E M / (B E + E M + B M)",
        intensity=rule.intensity,
        needed=need,
        dimension="tokens per device",
        has=setup.tokens,
        wants=None if need is None else _tokens_wanted(setup, need),
        verdict=_verdict(need, rule, "memory-bound"),
        block=None,
        source="JAX scaling book, part 1, matrix multiplication",
    )


def _tokens_wanted(setup: TrainingSetup, need: float) -> float | None:
    """Return the tokens at which the matmul has the needed intensity; None if no number of tokens is enough.

    Solves `2 T E M = need w (T E + X E M + T M)` for T.
    """
    embed, mlp = setup.model.embed, setup.mlp
    left = 2 * embed * mlp - need * setup.width * (embed + mlp)
    if left <= 0:
        return None
    return need * setup.width * setup.experts * embed * mlp / left / setup.model.experts_per_token


def _size_wanted(has: float, need: float | None, work: DeviceWork) -> float | None:
    """Return the size at which the intensity is the needed one; intensity is proportional to the dimension."""
    return None if need is None else has * need / work.intensity


def _verdict(need: float | None, work: DeviceWork, bound: Verdict) -> Verdict:
    if need is None:
        return "unknown"
    return "compute-bound" if work.intensity > need else bound

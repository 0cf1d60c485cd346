"""Arithmetic intensity of each parallelism: floating-point operations of a device per byte that it sends.

A device is bound by compute where `flops / peak > bytes / bandwidth`, that is where the intensity that an operation
*has*, `flops / bytes`, is above the one that the chip *needs*, `peak / bandwidth` (MaxText, Sharding on TPUs,
Arithmetic Intensity whirlwind introduction example; JAX scaling book, part 1).

Two counts of each. The *rule* is the guide's: one matrix multiply, and a ring over n devices sends its whole array
(scaling book, part 3: the time does not depend on n). The *block* is the MLP of one layer (gate, up and down) with
every collective that it needs, where a ring over n devices sends `(n-1)/n` of its array.

Letters: B tokens of a device, E embed, M mlp, t tensor, w bytes per element, k experts per token, T = B k routed
tokens, X experts of a device, S sequence length. Docstrings give the rule for 2 bytes per element, as the guide does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from samebits.audit.guide.setup import TrainingSetup


# The published record of a compiled block's communication volume, with the prediction.
@dataclass(frozen=True, kw_only=True, slots=True)
class BlockTraffic:
    """The communication volume of the forward pass of one MLP block, per device.

    Args:
        target, compiler: the target, and the version of libtpu.
        predicted: bytes sent by the formulas, by mesh axis.
        predicted_bytes: their sum.
        wire_bytes: bytes sent by the compiled collectives; None if a shape or a group could not be read.
        ratio: compiled over predicted; None if either is unknown or zero.
        intensity: operations of the block per byte sent; None if the bytes are unknown or zero.
        collectives: the count of each kind.
        program: a digest of the program.
    """

    target: str
    compiler: str | None
    predicted: Mapping[str, float]
    predicted_bytes: float
    wire_bytes: int | None
    ratio: float | None
    intensity: float | None
    collectives: Mapping[str, int]
    program: str


MATMULS = 3
"""Of an MLP with a gate: gate and up take the same activations, down gives them back."""

GUIDE = "MaxText, Sharding on TPUs"
BOOK = "JAX scaling book"


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceWork:
    """What one device computes and sends.

    Args:
        flops: floating-point operations; a multiply and an add are two.
        bytes: what it sends.
    """

    flops: float
    bytes: float

    @property
    def intensity(self) -> float:
        """Operations per byte; infinite where nothing is sent."""
        return self.flops / self.bytes if self.bytes else float("inf")


def needed(peak: float, bandwidth: float) -> float:
    """Return the intensity above which a chip is bound by compute: peak over bandwidth, both per chip or device."""
    return peak / bandwidth


def matmul(rows: float, inner: float, columns: float) -> float:
    """Count the operations of `[rows, inner] x [inner, columns]`: an inner product per element, each 2 x inner."""
    return 2 * rows * inner * columns


def forward_flops(s: TrainingSetup) -> float:
    """Count the operations of a device for the forward of one layer's MLP."""
    return MATMULS * matmul(s.routed, s.model.embed, s.mlp)


def ring(n: int) -> float:
    """Return the part of an array that each of n devices sends in an all-gather or a reduce-scatter over a ring."""
    return (n - 1) / n


# --- tensor: the MLP dimension is split, activations are sent -------------------------------------------------------


def tensor_rule(s: TrainingSetup) -> DeviceWork:
    """Return M / t: `[B, M/t] x [M/t, E]` and a reduce-scatter: 2 B (M/t) E flops over 2 B E bytes.

    Source: MaxText, Sharding on TPUs, TP Arithmetic Intensity.
    """
    return DeviceWork(flops=matmul(s.routed, s.mlp, s.model.embed), bytes=s.width * s.routed * s.model.embed)


def tensor_block(s: TrainingSetup) -> DeviceWork:
    """Count three matmuls, an all-gather (of gate and up) and a reduce-scatter of `[B, E]`: 3/2 (M/t) n/(n-1).

    Source: MaxText, Sharding on TPUs, TP Arithmetic Intensity ("for the initial feed forward matmul ... the same
    amount of communication"), counted for the whole block.
    """
    sent = 2 * s.width * s.routed * s.model.embed * ring(s.axis_size("tensor"))
    return DeviceWork(flops=MATMULS * matmul(s.routed, s.mlp, s.model.embed), bytes=sent)


# --- fsdp and context: tokens are split, weights are gathered -------------------------------------------------------


def weights_rule(s: TrainingSetup) -> DeviceWork:
    """Return all-gather of `[E, M]`, then `[B, E] x [E, M]`: 2 B E M flops over 2 E M bytes = B; B k / X for experts.

    Source: MaxText, Sharding on TPUs, FSDP Arithmetic Intensity and CP Arithmetic Intensity ("the same as FSDP").
    """
    return DeviceWork(flops=matmul(s.routed, s.model.embed, s.mlp), bytes=s.width * s.experts * s.model.embed * s.mlp)


def weights_block(s: TrainingSetup, n: int) -> DeviceWork:
    """Count three matmuls and three gathers of weights over n devices: B n/(n-1).

    Source: MaxText, Sharding on TPUs, FSDP Arithmetic Intensity, counted for the whole block.
    """
    rule = weights_rule(s)
    return DeviceWork(flops=MATMULS * rule.flops, bytes=MATMULS * rule.bytes * ring(n))


# --- data: tokens are split, gradients are summed -------------------------------------------------------------------


def data_rule(s: TrainingSetup) -> DeviceWork:
    """Return B: backward 4 B params flops, all-reduce of gradients 2 x 2 params bytes; B k / X for experts.

    Source: MaxText, Sharding on TPUs, DP Arithmetic Intensity (Dense) and (Sparse).
    """
    forward = weights_rule(s)
    return DeviceWork(flops=2 * forward.flops, bytes=2 * forward.bytes)


def data_block(s: TrainingSetup) -> DeviceWork:
    """Count six matmuls of the backward, an all-reduce of three gradients over n devices: B n/(n-1).

    Source: MaxText, Sharding on TPUs, DP Arithmetic Intensity (Dense), counted for the whole block.
    """
    rule = data_rule(s)
    return DeviceWork(flops=MATMULS * rule.flops, bytes=MATMULS * rule.bytes * ring(s.axis_size("data")))


# --- context: keys and values are gathered --------------------------------------------------------------------------


def keys_rule(s: TrainingSetup) -> DeviceWork:
    """Return S H / (K n): attention, 4 b S^2 H D / n flops; all-gather of keys and values, 4 b S K D bytes.

    b sequences, H heads, K heads of keys and values, D head dimension. A causal mask halves the operations; the guide
    counts all. Source: MaxText, Sharding on TPUs, CP Arithmetic Intensity.
    """
    rows, head = s.seq // s.axis_size("context"), s.model.head_dim
    return DeviceWork(
        flops=2 * s.sequences * s.heads * matmul(rows, head, s.seq),
        bytes=2 * s.width * s.sequences * s.seq * s.kv_heads * head,
    )


def keys_block(s: TrainingSetup) -> DeviceWork:
    """Return the same, where a ring sends (n-1)/n. Source: MaxText, Sharding on TPUs, CP Arithmetic Intensity."""
    rule = keys_rule(s)
    return DeviceWork(flops=rule.flops, bytes=rule.bytes * ring(s.axis_size("context")))


# --- expert: tokens travel to their experts -------------------------------------------------------------------------


def expert_rule(s: TrainingSetup) -> DeviceWork:
    """Return M: all-to-all of `[T, E]`, then `[T, E] x [E, M]`: on a true network 2 T E M flops over 2 T E bytes.

    Over ICI the all-to-all costs a quarter of gathering the activations of all n devices: n T E / 4 elements, so
    4 M / n. Activations stay split over `tensor`, so t cancels.
    Source: MaxText, Sharding on TPUs, EP Arithmetic Intensity; scaling book, part 3, Our final communication
    primitive: the AllToAll.
    """
    return DeviceWork(
        flops=matmul(s.routed, s.model.embed, s.mlp),
        bytes=s.width * s.routed * s.model.embed / s.axis_size("tensor") * s.axis_size("expert") / 4,
    )


def expert_block(s: TrainingSetup) -> DeviceWork:
    """Count three matmuls between two all-to-alls, there and back: 6 M / n. Sources as `expert_rule`."""
    rule = expert_rule(s)
    return DeviceWork(flops=MATMULS * rule.flops, bytes=2 * rule.bytes)


# --- stage: activations move on to the next stage -------------------------------------------------------------------


def stage_rule(s: TrainingSetup) -> DeviceWork:
    """Return 3/2 L M k: per stage 6 L B M E flops (L layers), and two permutes of `[B, E]`, 4 B E bytes.

    One permute is the layers' output, one the rotation of the inputs. A permute goes one way, so one link carries it.
    Activations stay split over `tensor`, so t cancels.
    Source: MaxText, Sharding on TPUs, PP Arithmetic Intensity.
    """
    layer = MATMULS * matmul(s.routed, s.model.embed, s.mlp)
    return DeviceWork(
        flops=s.layers_per_stage * layer, bytes=2 * s.width * s.tokens * s.model.embed / s.axis_size("tensor")
    )


# --- memory: the same matmul against HBM ----------------------------------------------------------------------------


def memory_rule(s: TrainingSetup) -> DeviceWork:
    """Return 2 B E M flops over the bytes of `[B, E] x [E, M/t]`, operands and result moved once.

    Source: JAX scaling book, part 1, matrix multiplication.
    """
    moved = s.routed * s.model.embed + s.experts * s.model.embed * s.mlp + s.routed * s.mlp
    return DeviceWork(flops=matmul(s.routed, s.model.embed, s.mlp), bytes=s.width * moved)


@dataclass(frozen=True, kw_only=True, slots=True)
class Parallelism:
    """One way of splitting, and what it costs.

    Args:
        axis: the mesh axis.
        sends: what travels, by which collective.
        dimension: what must be large; the intensity grows with it in proportion.
        has: its size.
        formula: the rule in short, for 2 bytes per element.
        rule, block: the two counts.
        permutes: whether one link carries it, instead of both of a ring.
        source: where the rule stands.
    """

    axis: str
    sends: str
    dimension: str
    has: Callable[[TrainingSetup], float]
    formula: str
    rule: Callable[[TrainingSetup], DeviceWork]
    block: Callable[[TrainingSetup], DeviceWork]
    source: str
    permutes: bool = False


PARALLELISMS = (
    Parallelism(
        axis="data",
        sends="gradients, all-reduce",
        dimension="tokens per device",
        has=lambda s: s.tokens,
        formula="B k / X",
        rule=data_rule,
        block=data_block,
        source=f"{GUIDE}, DP Arithmetic Intensity",
    ),
    Parallelism(
        axis="fsdp",
        sends="weights, all-gather",
        dimension="tokens per device",
        has=lambda s: s.tokens,
        formula="B k / X",
        rule=weights_rule,
        block=lambda s: weights_block(s, s.axis_size("fsdp")),
        source=f"{GUIDE}, FSDP Arithmetic Intensity",
    ),
    Parallelism(
        axis="tensor",
        sends="activations, all-gather or reduce-scatter",
        dimension="mlp",
        has=lambda s: s.model.mlp,
        formula="M / t",
        rule=tensor_rule,
        block=tensor_block,
        source=f"{GUIDE}, TP Arithmetic Intensity",
    ),
    Parallelism(
        axis="context",
        sends="weights, all-gather",
        dimension="tokens per device",
        has=lambda s: s.tokens,
        formula="B k / X",
        rule=weights_rule,
        block=lambda s: weights_block(s, s.axis_size("context")),
        source=f"{GUIDE}, CP Arithmetic Intensity",
    ),
    Parallelism(
        axis="context",
        sends="keys and values, all-gather",
        dimension="seq",
        has=lambda s: s.seq,
        formula="S H / (K n)",
        rule=keys_rule,
        block=keys_block,
        source=f"{GUIDE}, CP Arithmetic Intensity",
    ),
    Parallelism(
        axis="expert",
        sends="routed tokens, all-to-all",
        dimension="mlp",
        has=lambda s: s.model.mlp,
        formula="4 M / n",
        rule=expert_rule,
        block=expert_block,
        source=f"{GUIDE}, EP Arithmetic Intensity; {BOOK}, part 3, AllToAll",
    ),
    Parallelism(
        axis="stage",
        sends="activations, two permutes",
        dimension="mlp",
        has=lambda s: s.model.mlp,
        formula="3/2 L M k",
        rule=stage_rule,
        block=stage_rule,
        source=f"{GUIDE}, PP Arithmetic Intensity",
        permutes=True,
    ),
)
"""In the order of the mesh axes."""

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


def whole_block(rule: DeviceWork, n: int | None, matmuls: int = MATMULS, collectives: int = MATMULS) -> DeviceWork:
    """Count the whole block: so many matmuls as the rule has, and its collective as often, over a ring of n devices.

    Without a ring (None), all that is sent goes there as it is.
    """
    return DeviceWork(flops=matmuls * rule.flops, bytes=collectives * rule.bytes * (1 if n is None else ring(n)))


def tensor_rule(s: TrainingSetup) -> DeviceWork:
    """Return M / t: `[B, M/t] x [M/t, E]` and a reduce-scatter: 2 B (M/t) E flops over 2 B E bytes."""
    return DeviceWork(flops=matmul(s.routed, s.mlp, s.model.embed), bytes=s.width * s.routed * s.model.embed)


def weights_rule(s: TrainingSetup) -> DeviceWork:
    """Return all-gather of `[E, M]`, then `[B, E] x [E, M]`: 2 B E M flops over 2 E M bytes = B; B k / X for experts.

    The rule of `context` is "the same as FSDP".
    """
    return DeviceWork(flops=matmul(s.routed, s.model.embed, s.mlp), bytes=s.width * s.experts * s.model.embed * s.mlp)


def data_rule(s: TrainingSetup) -> DeviceWork:
    """Return B: backward 4 B params flops, all-reduce of gradients 2 x 2 params bytes; B k / X for experts."""
    forward = weights_rule(s)
    return DeviceWork(flops=2 * forward.flops, bytes=2 * forward.bytes)


def keys_rule(s: TrainingSetup) -> DeviceWork:
    """Return S H / (K n): attention, 4 b S^2 H D / n flops; all-gather of keys and values, 4 b S K D bytes.

    b sequences, H heads, K heads of keys and values, D head dimension. A causal mask halves the operations; the guide
    counts all.
    """
    rows, head = s.seq // s.axis_size("context"), s.model.head_dim
    return DeviceWork(
        flops=2 * s.sequences * s.heads * matmul(rows, head, s.seq),
        bytes=2 * s.width * s.sequences * s.seq * s.kv_heads * head,
    )


def expert_rule(s: TrainingSetup) -> DeviceWork:
    """Return M: all-to-all of `[T, E]`, then `[T, E] x [E, M]`: on a true network 2 T E M flops over 2 T E bytes.

    Over ICI the all-to-all costs a quarter of gathering the activations of all n devices: n T E / 4 elements, so
    4 M / n. Activations stay split over `tensor`, so t cancels.
    """
    return DeviceWork(
        flops=matmul(s.routed, s.model.embed, s.mlp),
        bytes=s.width * s.routed * s.model.embed / s.axis_size("tensor") * s.axis_size("expert") / 4,
    )


def stage_rule(s: TrainingSetup) -> DeviceWork:
    """Return 3/2 L M k: per stage 6 L B M E flops (L layers), and two permutes of `[B, E]`, 4 B E bytes.

    One permute is the layers' output, one the rotation of the inputs. A permute goes one way, so one link carries it.
    Activations stay split over `tensor`, so t cancels.
    """
    layer = MATMULS * matmul(s.routed, s.model.embed, s.mlp)
    return DeviceWork(
        flops=s.layers_per_stage * layer, bytes=2 * s.width * s.tokens * s.model.embed / s.axis_size("tensor")
    )


def memory_rule(s: TrainingSetup) -> DeviceWork:
    """Return the matmul against HBM: 2 B E M flops over the bytes of `[B, E] x [E, M/t]`, each array moved once.

    Source: JAX scaling book, part 1, matrix multiplication.
    """
    moved = s.routed * s.model.embed + s.experts * s.model.embed * s.mlp + s.routed * s.mlp
    return DeviceWork(flops=matmul(s.routed, s.model.embed, s.mlp), bytes=s.width * moved)


@dataclass(frozen=True, kw_only=True, slots=True)
class Parallelism:
    """One way of splitting, and what it costs.

    Args:
        sends: what travels, by which collective.
        dimension: what must be large; the intensity grows with it in proportion.
        has: its size.
        formula: the rule in short, for 2 bytes per element.
        matmuls, collectives: as how many of the rule's the whole block counts.
        over_ring: whether its collective goes round a ring.
        permutes: whether one link carries it, instead of both of a ring.
    """

    axis: str
    sends: str
    dimension: str
    has: Callable[[TrainingSetup], float]
    formula: str
    rule: Callable[[TrainingSetup], DeviceWork]
    source: str
    matmuls: int = MATMULS
    collectives: int = MATMULS
    over_ring: bool = True
    permutes: bool = False

    def block(self, s: TrainingSetup) -> DeviceWork:
        """Count the whole block."""
        n = s.axis_size(self.axis) if self.over_ring else None
        return whole_block(self.rule(s), n, self.matmuls, self.collectives)


PARALLELISMS = (
    Parallelism(
        axis="data",
        sends="gradients, all-reduce",
        dimension="tokens per device",
        has=lambda s: s.tokens,
        formula="B k / X",
        rule=data_rule,
        source=f"{GUIDE}, DP Arithmetic Intensity",
    ),
    Parallelism(
        axis="fsdp",
        sends="weights, all-gather",
        dimension="tokens per device",
        has=lambda s: s.tokens,
        formula="B k / X",
        rule=weights_rule,
        source=f"{GUIDE}, FSDP Arithmetic Intensity",
    ),
    Parallelism(
        axis="tensor",
        sends="activations, all-gather or reduce-scatter",
        dimension="mlp",
        has=lambda s: s.model.mlp,
        formula="M / t",
        rule=tensor_rule,
        collectives=2,  # gate and up share one
        source=f"{GUIDE}, TP Arithmetic Intensity",
    ),
    Parallelism(
        axis="context",
        sends="weights, all-gather",
        dimension="tokens per device",
        has=lambda s: s.tokens,
        formula="B k / X",
        rule=weights_rule,
        source=f"{GUIDE}, CP Arithmetic Intensity",
    ),
    Parallelism(
        axis="context",
        sends="keys and values, all-gather",
        dimension="seq",
        has=lambda s: s.seq,
        formula="S H / (K n)",
        rule=keys_rule,
        matmuls=1,
        collectives=1,
        source=f"{GUIDE}, CP Arithmetic Intensity",
    ),
    Parallelism(
        axis="expert",
        sends="routed tokens, all-to-all",
        dimension="mlp",
        has=lambda s: s.model.mlp,
        formula="4 M / n",
        rule=expert_rule,
        collectives=2,  # there and back
        over_ring=False,
        source=f"{GUIDE}, EP Arithmetic Intensity; {BOOK}, part 3, AllToAll",
    ),
    Parallelism(
        axis="stage",
        sends="activations, two permutes",
        dimension="mlp",
        has=lambda s: s.model.mlp,
        formula="3/2 L M k",
        rule=stage_rule,
        matmuls=1,
        collectives=1,
        over_ring=False,
        source=f"{GUIDE}, PP Arithmetic Intensity",
        permutes=True,
    ),
)
"""In the order of the mesh axes."""

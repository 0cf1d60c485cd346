"""The published record of a compiled block's communication volume, with the prediction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


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

"""What a compiled block sends, beside the prediction: the record that is published."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class BlockTraffic:
    """The forward of one MLP block on one device.

    Args:
        target, compiler: what it was compiled for, and libtpu's version.
        predicted: bytes that the formulas say it sends, by mesh axis.
        predicted_bytes: their sum.
        wire_bytes: bytes that the compiled collectives send; None where a length or a group could not be read.
        ratio: compiled over predicted; None where either says nothing.
        intensity: operations of the block over the bytes that are really sent; None where they are unknown or none.
        collectives: each kind with its count.
        program: digest of the program.
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

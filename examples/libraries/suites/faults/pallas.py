"""Slips in the pairs over pallas."""

from __future__ import annotations

from typing import Any

from samebits import Fault, Request


def _fault(pair: str, side: str, name: str, old: str, new: str, **where: Any) -> Fault:
    request = Request(**{"dtypes": ("float32",), **where})
    return Fault(name=name, pair=pair, side=side, old=old, new=new, request=request)


FAULTS = (
    _fault(
        "pallas_softmax",
        "by_pallas",
        "the sum over the rows of a block",
        "exponentials.sum(axis=-1,",
        "exponentials.sum(axis=0,",
    ),
    _fault(
        "pallas_matmul",
        "by_pallas",
        "the accumulator set to zero in every step",
        "pl.program_id(2) == 0",
        "pl.program_id(2) >= 0",
    ),
    _fault("pallas_transpose", "by_pallas", "blocks where they were", "lambda i, j: (j, i)", "lambda i, j: (i, j)"),
)

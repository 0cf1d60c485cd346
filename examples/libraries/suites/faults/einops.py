"""Slips in the pairs over einops."""

from __future__ import annotations

from typing import Any

from samebits import Fault, Request


def _fault(pair: str, side: str, name: str, old: str, new: str, **where: Any) -> Fault:
    request = Request(**{"dtypes": ("float32",), **where})
    return Fault(name=name, pair=pair, side=side, old=old, new=new, request=request)


FAULTS = (
    _fault("einops_rearrange", "einops", "heads innermost", "(n h) ->", "(h n) ->"),
    _fault("einops_reduce", "einops", "patches of strided pixels", "(h p) (w q)", "(p h) (q w)"),
    _fault("einops_repeat", "einops", "groups outermost", "(n group)", "(group n)"),
)

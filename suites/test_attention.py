"""Attention: a mask of every query against every key; a mask type, key blocks, a sequence split over devices.

The numbers below were measured on CPU (jax 0.10.2, 8 devices) over 24 seeds at the shapes of the cases. The numbers of
a bound are ratios of a side's error against the reference in float64 to the one-device reference's own, the larger of
the maximum's and the RMS's: *noise* is the most that honest sides reach, *nearest fault* the least that a wrong one was
seen to have.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import (
    Arg,
    Case,
    Claim,
    Contract,
    MeshSpec,
    Pair,
    RealSize,
    Refusal,
    compile_test,
    implementation,
    pair_test,
)

SMALL = {"batch": 2, "seq": 8, "heads": 4, "kv_heads": 2, "head_dim": 2}
BATCH = ("data", "fsdp", "expert")
FINITE = "queries, keys and values are finite"
DOCUMENTS = ((3, 4), (2, 4, 1))
"""The lengths of the documents of each row; what is left, a token at least, is padding."""


def _tokens(name: str, tokens: int) -> tuple[Any, Any]:
    """Positions and segments of rows in the order of the text: `unpacked` or `packed`.

    Positions go through the whole of row 0, and start again at each document of row 1.
    """
    positions, segments = np.tile(np.arange(tokens, dtype=np.int32), (2, 1)), np.zeros((2, tokens), np.int32)
    if name == "unpacked":
        return positions, segments + 1
    for row, lengths in enumerate(DOCUMENTS):
        start = 0
        for number, length in enumerate(lengths):
            segments[row, start : start + length] = 1 + number
            if row % 2:
                positions[row, start : start + length] = np.arange(length)
            start += length
    return positions, segments


def _balanced(tokens: int, shards: int) -> Any:
    """The places in the text of tokens in load-balanced order: shard `r` has chunks `r` and `2 * shards - 1 - r`."""
    chunks = np.arange(tokens).reshape(2 * shards, -1)
    return np.concatenate([np.concatenate([chunks[r], chunks[-1 - r]]) for r in range(shards)])


def _args(case: Case, mesh: MeshSpec) -> Mapping[str, Arg]:
    def tokens(which: int) -> Any:
        def draw(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
            order = slice(None)
            if case.statics.get("balanced"):
                order = _balanced(shape[1], mesh.size("context"))
            return _tokens("unpacked" if case.id == "unpacked" else "packed", shape[1])[which][:, order]

        return Arg(shape=("batch", "seq"), dtype="int32", spec=(BATCH, "context"), values=draw)

    spec = (BATCH, "context", "tensor", None)
    keys = Arg(shape=("batch", "seq", "kv_heads", "head_dim"), spec=spec)
    return {
        "query": Arg(shape=("batch", "seq", "heads", "head_dim"), spec=spec),
        "key": keys,
        "value": keys,
        "positions": tokens(0),
        "segments": tokens(1),
    }


_CONTRACTS: tuple[Contract, ...] = ()

PAIR = Pair(
    name="attention",
    reference="explicit_mask",
    variants=("causal_type", "blockwise", "context_gathered", "splash"),
    args=_args,
    cases=(
        # The proofs walk every block on every device, so the cases are few: each has its own dtype, mesh and sides.
        Case(
            id="balanced",
            sizes=SMALL,
            statics={"block": 4, "window": 3, "scale": 0.75, "balanced": True},
            dtypes=("float32",),
            meshes=("context2",),
            variants=("blockwise", "context_gathered"),
        ),
        Case(
            id="packed",
            sizes=SMALL,
            dtypes=("bfloat16",),
            meshes=("context2_tensor2",),
            variants=("context_gathered",),
        ),
        Case(
            id="unpacked",
            sizes=SMALL,
            statics={"window": 3},
            dtypes=("float32",),
            meshes=("fsdp2_tensor2",),
            variants=("causal_type",),
        ),
        Case(
            id="indivisible",
            sizes=SMALL,
            statics={"block": 3},
            dtypes=("float32",),
            meshes=("data1",),
            refuses=(
                Refusal(error="ValueError", match="block is 3; expected 0 or a divisor of the sequence's 8 tokens"),
            ),
        ),
    ),
    dtypes=("bfloat16", "float32"),
    meshes=("data1", "context2", "context2_tensor2", "fsdp2_tensor2"),
    contracts=_CONTRACTS,
)

test_attention = pair_test(PAIR)

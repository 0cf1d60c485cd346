"""A mixture of experts: every expert on every token, against a ragged all-to-all, and against a ring of experts.

The numbers below were measured on CPU (jax 0.10.2, 8 devices) over 24 seeds at the shapes of the cases, faults over
10, the slow cases over 40.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import pytest

from samebits import Arg, Case, Contract, Documented, Domain, MeshSpec, Normal, Pair, Refusal, implementation, pair_test

BATCH, CONTEXT = ("data", "fsdp", "expert"), "context"
FINITE = Domain(finite=("*", "cotangents"), also="no two experts are equally good for a token")


def _bias(case: Case) -> Any:
    """What moves the choice: not at all, away from experts 0 and 5, or all of it to expert 2."""

    def values(rng: Any, shape: tuple[int, ...]) -> Any:
        bias = 0.3 * rng.standard_normal(shape)
        if case.id.startswith("group_limited"):
            bias[[0, 5]] = -9
        if case.id.startswith("one_expert"):
            bias[2] = 9
        return bias

    return values


def _args(case: Case, mesh: MeshSpec) -> Mapping[str, Arg]:
    """The arrays of a case. Gradients are compared in few cases: a program of them is large."""
    kernel, up, whole = Normal(scale=0.5), ("expert", None, "tensor"), case.id.endswith("_wide")
    pulled = case.id in ("softmax", "softmax_wide", "group_limited_wide")
    return {
        "x": Arg(shape=("batch", "seq", "embed"), spec=(BATCH, CONTEXT), differentiable=pulled),
        "router": Arg(shape=("embed", "experts"), differentiable=pulled),
        "bias": Arg(shape=("experts",), dtype="float32", values=_bias(case), differentiable=False),
        "w_gate": Arg(shape=("experts", "embed", "hidden"), spec=up, values=kernel, differentiable=pulled),
        "w_up": Arg(shape=("experts", "embed", "hidden"), spec=up, values=kernel, differentiable=pulled and whole),
        "w_down": Arg(
            shape=("experts", "hidden", "embed"), spec=("expert", "tensor"), values=kernel, differentiable=pulled
        ),
    }


def _case(
    name: str,
    mesh: str,
    dtype: str,
    mode: Literal["auto", "explicit"] | None,
    *variants: str,
    experts: int = 4,
    **statics: Any,
) -> Case:
    return Case(
        id=name,
        sizes={"batch": 4, "seq": 4, "embed": 4, "experts": experts, "hidden": 4},
        statics={"top_k": 2, **statics},
        meshes=(mesh,),
        dtypes=(dtype,),
        modes=(mode,) if mode else None,
        variants=variants or None,
    )


def _rounds(reason: str, **where: Any) -> Contract:
    return Contract(lowest="rounding", reason=reason, domain=FINITE, **where)


GROUPED: dict[str, Any] = {"routing": "group_limited", "groups": 4, "top_groups": 2, "scaling": 2.5}

_CONTRACTS = (
    _rounds(
        "products of other numbers of rows and sums over hidden numbers and experts are added up in another "
        "order: the reference itself moves in up to 83 % of the elements on a mesh, the variants in 59 %",
        direction="forward",
        leaf="out?'out'?",
    ),
    _rounds(
        "one number, added up over experts, sequences and shards: it differs in 13 of 24 seeds, for the reference too",
        direction="forward",
        leaf="out?'balance_loss'?",
    ),
    _rounds(
        "kernels' gradients are added up over tokens, shards by shards",
        direction="gradient",
    ),
    _rounds(
        "summed in float32 and rounded once: no bit of the answers or gradients differs here",
        dtype="bfloat16",
    ),
    _rounds(
        "float32 in bfloat16 too",
        dtype="bfloat16",
        leaf="out?'balance_loss'?",
    ),
)

PAIR = Pair(
    name="moe",
    reference="dense",
    variants=("sparse", "ring"),
    args=_args,
    cases=(
        # Programs are large, and interpretation runs every device: each case looks at one routing in one place.
        _case("softmax", "expert2", "float32", "auto"),
        # Two experts have no tokens.
        _case("group_limited", "expert2", "bfloat16", "explicit", "ring", experts=8, **GROUPED),
        # Every token asks expert 2, and one other.
        _case("one_expert", "context2_tensor2", "float32", "explicit", "sparse", routing="sigmoid"),
        # The sum over hidden numbers beside the exchange of rows: two axes in one layer.
        _case("sigmoid", "expert2_tensor2", "float32", "auto", routing="sigmoid"),
        # With three of four drawn, tokens draw an expert twice.
        _case("random", "expert2", "float32", "auto", "ring", routing="random", seed=7, top_k=3),
        Case(
            id="too_many",
            sizes={"batch": 2, "seq": 2, "embed": 2, "experts": 4, "hidden": 2},
            statics={"top_k": 3, "routing": "group_limited", "groups": 2, "top_groups": 1},
            meshes=("expert2",),
            dtypes=("float32",),
            modes=("auto",),
            refuses=(Refusal(error="ValueError", match="top_k is 3; expected 1 to 2"),),
        ),
    ),
    dtypes=("float32", "bfloat16"),
    meshes=("expert2", "context2_tensor2", "expert2_tensor2"),
    modes=("auto", "explicit"),
    out_spec={"out['out']": (BATCH, CONTEXT)},
    documented=(
        Documented(
            id="4170.moe",
            document="MaxText #4170: layers/moe.py",
            says="sort, exchange, grouped products and unsort give the layer of dense experts",
            variants=(
                "sparse",
                "ring",
            ),
        ),
    ),
    contracts=_CONTRACTS,
    accuracy=2,
)

test_moe = pair_test(PAIR)

LARGE = dataclasses.replace(
    PAIR,
    cases=(
        _case("softmax_wide", "expert2_context2", "float32", None, experts=8),
        _case("group_limited_wide", "expert4", "bfloat16", None, "ring", experts=8, **GROUPED),
        _case("one_expert_wide", "expert2_tensor2", "float32", None, "sparse", experts=8, routing="sigmoid"),
        _case("random_wide", "expert2_fsdp2", "float32", None, experts=8, routing="random", seed=7, top_k=3),
    ),
    meshes=("expert4", "expert2_fsdp2", "expert2_tensor2", "expert2_context2"),
)
"""Larger meshes in both modes, all kernels' gradients: too slow for `samebits check`."""

test_moe_large = pytest.mark.slow(pair_test(LARGE))

SIDES = pytest.mark.parametrize("side", PAIR.sides)


def _numbers(seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    shapes = ((2, 3, 4), (4, 6), (6,), (6, 4, 5), (6, 4, 5), (6, 5, 4))
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


@SIDES
@pytest.mark.parametrize(
    "routing",
    [pytest.param("softmax", marks=pytest.mark.slow), pytest.param("sigmoid", marks=pytest.mark.slow), "group_limited"],
)
def test_the_definition_replayed_token_by_token(side: str, routing: str) -> None:
    """In float64, relative to the largest; one wrong expert or weight is an error of 1e-2 or more."""
    import jax

    arrays, top_k, groups = _numbers(3), 2, 3
    x, router, bias, gate, up, down = (array.astype(np.float64) for array in arrays)
    out, loss = np.zeros(x.shape), 0.0
    for b in range(len(x)):
        asked, likely = np.zeros(6), np.zeros(6)
        for s, token in enumerate(x[b]):
            logits = token @ router
            score = logits if routing == "softmax" else _sigmoid(logits) + bias
            if routing == "group_limited":
                best = np.argsort(-np.sort(score.reshape(groups, -1))[:, -2:].sum(1))[:2]
                score = np.where(np.isin(np.arange(6) // 2, best), score, -np.inf)
            ids = np.argsort(-score)[:top_k]
            weights = np.exp(logits[ids]) if routing == "softmax" else _sigmoid(logits[ids])
            weights = weights / weights.sum() * (1 if routing == "softmax" else 2.5)
            for e, weight in zip(ids, weights, strict=True):
                gated = token @ gate[e]
                out[b, s] += weight * ((gated * _sigmoid(gated) * (token @ up[e])) @ down[e])
                asked[e] += 1 / len(x[b])
            likely += np.exp(logits) / np.exp(logits).sum() / len(x[b])
        loss += (asked * likely).sum() / len(x) / 6 * 6**2 / top_k
    statics: dict[str, Any] = {"groups": groups, "top_groups": 2, "scaling": 2.5}
    function = functools.partial(implementation(PAIR, side), top_k=top_k, routing=routing, **statics)
    with jax.default_matmul_precision("highest"):  # a TPU and a GPU take float32 in fewer digits by default
        found = jax.jit(function)(*arrays)
    assert np.abs(np.asarray(found["out"]) - out).max() < 1e-5 * np.abs(out).max()
    assert abs(float(found["balance_loss"]) - loss) < 1e-5 * loss


def _grouped(rows: Any, kernels: Any, sizes: Any) -> Any:
    """Row by row: the first sizes[0] by kernel 0, and so on; 0 beyond the last."""
    import jax.numpy as jnp

    mine = (jnp.arange(rows.shape[0])[:, None] >= jnp.cumsum(sizes)).sum(1)[:, None] == jnp.arange(sizes.size)
    return jnp.einsum("nd,edf,ne->nf", rows, kernels, mine.astype(rows.dtype))


def _summed(rows: Any, weights: Any) -> Any:
    return (rows * weights[..., None]).sum(1)


@pytest.mark.slow
@pytest.mark.parametrize("side", PAIR.variant_names)
@pytest.mark.parametrize("mesh", [None, "expert2"])
def test_products_and_the_weighted_sum_can_be_given(side: str, mesh: str | None) -> None:
    """The same to rounding with callables that do the same, 0 with one that answers 0: it is the one that is used."""
    import jax

    def run(**given: Any) -> Any:
        function = functools.partial(implementation(PAIR, side), top_k=2, **given)
        return np.asarray(jax.jit(function)(*_numbers(3))["out"])

    with jax.set_mesh(MeshSpec.parse(mesh).build("auto")) if mesh else contextlib.nullcontext():
        plain = run()
        for given in ({"grouped_matmul": _grouped}, {"weight_sum": _summed}):
            assert np.abs(run(**given) - plain).max() < 1e-5 * np.abs(plain).max()
        assert np.abs(plain).max() > 1
        assert not run(grouped_matmul=lambda *given: 0 * _grouped(*given)).any()
        assert not run(weight_sum=lambda *given: 0 * _summed(*given)).any()


@SIDES
def test_wrong_arguments_are_refused(side: str) -> None:
    function, arrays = implementation(PAIR, side), _numbers(0)
    for statics, text in (
        ({"routing": "hash"}, "routing is 'hash'; expected one of softmax, sigmoid, group_limited, random"),
        ({"routing": "group_limited", "groups": 6}, "groups is 6; expected a divisor of 6 experts that leaves two"),
        ({"routing": "group_limited", "groups": 3, "top_groups": 4}, "top_groups is 4; expected 1 to 3"),
        ({"top_k": 7}, "top_k is 7; expected 1 to 6"),
    ):
        with pytest.raises(ValueError, match=text):
            function(*arrays, **{"top_k": 1, **statics})
    with pytest.raises(ValueError, match="x, router and bias have shapes"):
        function(*arrays[:1], *arrays[2:], arrays[1], top_k=1)
    with pytest.raises(ValueError, match="w_gate, w_up and w_down have shapes"):
        function(*arrays[:3], *arrays[:2:-1], top_k=1)

"""Tokens to the shards of their experts and back: gather everything and mask, against sort and ragged all-to-all."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from samebits import (
    REFERENCE,
    VARIANT,
    Arg,
    AxisSize,
    Case,
    Claim,
    Contract,
    Documented,
    Domain,
    MeshSpec,
    Normal,
    Pair,
    RealSize,
    Refusal,
    assert_same_bits,
    compile_test,
    implementation,
    pair_test,
)

EXPERTS, TOKENS, WIDTH = 8, 64, 4
MOVED = ("-0.0", "nan", "inf", "-inf", "subnormal", "largest")

Routing = Callable[[Any, tuple[int, ...], int], Any]
ROUTINGS: dict[str, Routing] = {}  # Of each case.


def _balanced(rng: Any, shape: tuple[int, ...], experts: int) -> Any:
    return rng.permutation(shape[0]) % experts


def _empty(rng: Any, shape: tuple[int, ...], experts: int) -> Any:
    """Only experts 1 and the last but one have tokens: some shards have none at all."""
    return rng.choice([1, experts - 2], shape)


def _single(rng: Any, shape: tuple[int, ...], experts: int) -> Any:
    return np.full(shape, experts - 2)


def _skewed(rng: Any, shape: tuple[int, ...], experts: int) -> Any:
    """Two thirds of the tokens want experts 1 and 2; if only the last shard dropped, wrong offsets would not show."""
    return np.where(rng.random(shape) < 0.67, rng.integers(1, 3, shape), rng.integers(0, experts, shape))


def _case(
    name: str,
    routing: Routing,
    mesh: str | None = None,
    dtype: str | None = None,
    *,
    experts: int = EXPERTS,
    tokens: int = TOKENS,
    **statics: Any,
) -> Case:
    ROUTINGS[name] = routing
    return Case(
        id=name,
        sizes={"tokens": tokens, "width": WIDTH, "experts": experts},
        statics={"num_experts": experts, "shards": AxisSize(axis="expert"), "groups": AxisSize(axis="fsdp"), **statics},
        meshes=(mesh,) if mesh else WHOLE,
        dtypes=(dtype,) if dtype else ("float32", "bfloat16"),
    )


def _args(case: Case, mesh: MeshSpec) -> Mapping[str, Arg]:
    shards, groups = mesh.size("expert"), mesh.size("fsdp")
    factor, split = case.statics.get("buffer_factor", 0), case.statics.get("batch_sharded", True)
    tokens = case.sizes["tokens"] // groups
    local = tokens // shards if split else tokens
    buffer = int(local * factor) if factor else tokens
    combine = case.statics["operation"] == "combine"
    block = ("fsdp", "expert") if split else ("fsdp",)
    return {
        "rows": Arg(
            shape=(groups * shards * buffer if combine else "tokens", "width"),
            spec=(("fsdp", "expert") if combine else block, "tensor"),
            values=Normal(),
            # XLA:CPU carries bfloat16 through float32 in every collective, which makes NaN 0xffc1 into 0xffc0.
            special=MOVED if "bfloat16" in (case.dtypes or ("bfloat16",)) else (*MOVED, "nan_payload"),
        ),
        "experts": Arg(
            shape=("tokens",),
            dtype="int32",
            spec=(block,),
            values=lambda rng, shape: ROUTINGS[case.id](rng, shape, case.sizes["experts"]),
        ),
    }


def _out_spec(case: Case, mesh: MeshSpec) -> Mapping[str, Any]:
    buffers = (("fsdp", "expert"), "tensor")
    if case.statics["operation"] == "dispatch":
        return {"out['rows']": buffers, "out['sizes']": ("fsdp", "expert")}
    return {"out": buffers if case.statics.get("batch_sharded", True) else ("fsdp", "tensor")}


WHOLE = ("expert1", "expert8", "expert4_fsdp2")
_COMPILED = (
    RealSize(
        case=Case(  # 4096 tokens per shard, of 2048 numbers each, to 64 experts, and back
            id="round_trip_32k",
            sizes={"tokens": 32768, "width": 2048, "experts": 64},
            statics={
                **{"operation": "round_trip", "num_experts": 64, "buffer_factor": 2.0},
                **{"shards": AxisSize(axis="expert"), "groups": AxisSize(axis="fsdp")},
            },
        ),
        layout="expert*",
        dtype="bfloat16",
        targets=("tpu7x:2x2x1",),
        claims=(
            Claim(shows=VARIANT.wire_bytes <= REFERENCE.wire_bytes, source="only the rows asked for are sent"),
            Claim(shows=VARIANT.temp_bytes <= REFERENCE.temp_bytes, source="no shard holds every token"),
        ),
    ),
)
REPLICATED: dict[str, Any] = {"buffer_factor": 0.3, "batch_sharded": False}
_PULLED, _EXPERTS = ("cotangents", "mul of the cotangent of out"), "experts in [0, num_experts)"

PAIR = Pair(
    name="token_exchange",
    reference="all_gather_and_mask",
    variants=("ragged_all_to_all",),
    args=_args,
    out_spec=_out_spec,
    cases=(
        # The first is compared everywhere; the others look at one operation in one place, for this pair's programs are
        # large. Where only the routing differs they share one.
        _case("round_trip_drop", _skewed, operation="round_trip", buffer_factor=0.75),
        _case("round_trip_int", _single, "expert8", "int32", operation="round_trip"),
        _case("dispatch", _balanced, "expert4_fsdp2", "bfloat16", operation="dispatch"),
        _case("dispatch_empty", _empty, "expert4_fsdp2", "bfloat16", operation="dispatch"),
        _case("dispatch_single", _single, "expert4_fsdp2", "bfloat16", operation="dispatch"),
        _case("dispatch_replicated", _skewed, "expert4", "float32", operation="dispatch", **REPLICATED),
        _case("combine_drop", _skewed, "expert8", "float32", operation="combine", buffer_factor=1.25),
        _case("combine_replicated", _skewed, "expert2_tensor2", "float32", operation="combine", **REPLICATED),
        _case("wide", _skewed, "expert64", operation="round_trip", experts=128, tokens=256, buffer_factor=2.0),
        Case(
            id="uneven",
            sizes={"tokens": TOKENS, "width": WIDTH, "experts": 6},
            statics={"operation": "dispatch", "num_experts": 6, "shards": AxisSize(axis="expert")},
            meshes=("expert4",),
            refuses=(Refusal(error="ValueError", match="num_experts=6 does not divide by shards=4"),),
        ),
    ),
    dtypes=("float32", "bfloat16", "int32"),
    meshes=(*WHOLE, "expert4", "expert2_tensor2"),
    modes=("auto", "explicit"),
    wide_meshes=("expert64",),
    compiled=_COMPILED,
    documented=(
        Documented(
            id="4170.exchange",
            document="MaxText #4170: layers/moe.py",
            says="tokens sent and brought back by ragged all-to-all are those of all-gather and mask, with less sent",
            variants=("ragged_all_to_all",),
            saves="wire_bytes",
            directions=("forward",),  # to the experts and back; the gradient sends the same rows again
        ),
    ),
    contracts=(
        # In bfloat16 rows are cast to float32 and back: a NaN stays one, its payload may not.
        Contract(lowest="proved", domain=Domain(no_nan=("rows",), no_subnormal=("rows",), also=_EXPERTS)),
        Contract(
            lowest="proved",
            direction="gradient",
            # The reference's scatter-add makes -0.0 of a cotangent +0.0, and so of what an expert's factor makes of it.
            domain=Domain(no_nan=_PULLED, no_negative_zero=_PULLED, no_subnormal=_PULLED, also=_EXPERTS),
        ),
    ),
)
ROUTINGS["uneven"] = _balanced

test_token_exchange = pair_test(PAIR)
test_compiled = pytest.mark.slow(compile_test(PAIR))


# Properties that need no reference. `_arrivals` says in plain lists which tokens a shard gets, and in what order.


def _optimized() -> Any:
    return inspect.getmodule(implementation(PAIR, "ragged_all_to_all"))


def _routing(seed: int, tokens: int = TOKENS, experts: int = EXPERTS) -> NDArray[Any]:
    return np.asarray(_skewed(np.random.default_rng(seed), (tokens,), experts), np.int32)


def _arrivals(experts: NDArray[Any], shards: int, owned: int, room: int, split: bool = True) -> list[list[int]]:
    local = len(experts) // shards if split else len(experts)
    order = sorted(range(len(experts)), key=lambda i: (i // local, experts[i], i))
    return [[i for i in order if experts[i] // owned == shard][:room] for shard in range(shards)]


def _kept(arrivals: list[list[int]]) -> list[int]:
    return [token for mine in arrivals for token in mine]


def _replay(operands: NDArray[Any], rows: int, plans: list[Any]) -> NDArray[Any]:
    """The documented meaning of `jax.lax.ragged_all_to_all`, one row at a time, into NaN."""
    out = np.full((len(plans), rows, *operands.shape[2:]), np.nan, operands.dtype)
    for sender, plan in enumerate(plans):
        for receiver in range(len(plans)):
            assert plan.send_sizes[receiver] == plans[receiver].recv_sizes[sender]
            for k in range(plan.send_sizes[receiver]):
                place = plan.output_offsets[receiver] + k
                assert 0 <= place < rows and np.isnan(out[receiver, place]).all(), "beyond the buffer, or written twice"
                out[receiver, place] = operands[sender, plan.input_offsets[receiver] + k]
    return out


def _tables(experts: NDArray[Any], shards: int, owned: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """The counts between shards, and the rows of each shard sorted by expert: each row is its token's number."""
    blocks = experts.reshape(shards, -1)
    table = np.array([[(block // owned == to).sum() for to in range(shards)] for block in blocks], np.int32)
    local = blocks.shape[1]
    rows = np.array([[s * local + i for i in np.argsort(b, kind="stable")] for s, b in enumerate(blocks)], np.float32)
    return table, rows[..., None]


def _numpy(plan: Any) -> Any:
    return type(plan)(*(np.asarray(x) for x in plan))


@pytest.mark.parametrize("room", [1, 7, 16, 64])
@pytest.mark.parametrize("shards", [1, 2, 4])
def test_plans_move_every_row_to_its_place(shards: int, room: int) -> None:
    opt, owned, experts = _optimized(), EXPERTS // shards, _routing(room)
    table, rows = _tables(experts, shards, owned)
    there = _replay(rows, room, [_numpy(opt.dispatch_plan(table, me, room)) for me in range(shards)])
    for shard, want in enumerate(_arrivals(experts, shards, owned, room)):
        assert_same_bits(there[shard, :, 0], np.array([*want, *[np.nan] * (room - len(want))], np.float32))
    back = _replay(there, rows.shape[1], [_numpy(opt.combine_plan(table, me, room)) for me in range(shards)])
    kept = _kept(_arrivals(experts, shards, owned, room))
    assert_same_bits(back, np.where(np.isin(rows, kept), rows, np.nan))


@pytest.mark.parametrize("room", [3, 20, 64])
def test_broadcast_plan_gives_everyone_the_rows_sorted_by_expert(room: int) -> None:
    opt, shards, experts = _optimized(), 4, _routing(room)
    owned = EXPERTS // shards
    held = np.full((shards, room, 1), -1, np.float32)
    arrivals = _arrivals(experts, shards, owned, room, split=False)
    for shard, mine in enumerate(arrivals):
        held[shard, : len(mine), 0] = mine
    totals = np.bincount(experts // owned, minlength=shards).astype(np.int32)
    back = _replay(held, TOKENS, [_numpy(opt.broadcast_plan(totals, me, room)) for me in range(shards)])
    order = np.argsort(experts, kind="stable")
    for copy in back:
        assert_same_bits(copy[:, 0], np.where(np.isin(order, _kept(arrivals)), order, np.nan).astype(np.float32))


def test_plans_of_four_shards_by_hand() -> None:
    opt = _optimized()
    table = np.array([[2, 0, 1, 3], [1, 4, 0, 1], [0, 2, 2, 2], [3, 0, 0, 3]], np.int32)
    # The columns sum to 6, 6, 3, 9; with room for 5, shard 0 drops 1 row of shard 3, shard 1 drops 1 row of shard 2,
    # and shard 3 drops 1 row of shard 2 and all 3 of shard 3.
    there, whole = (_numpy(opt.dispatch_plan(table, me, room)) for me, room in ((2, 5), (3, 24)))
    assert_same_bits(np.array(there), np.array([[0, 0, 2, 4], [0, 1, 2, 1], [3, 4, 1, 4], [1, 0, 2, 0]], np.int32))
    back = _numpy(opt.combine_plan(table, 3, 5))
    assert_same_bits(np.array(back), np.array([[0, 3, 4, 5], [3, 1, 1, 0], [3, 5, 4, 3], [2, 0, 0, 0]], np.int32))
    assert_same_bits(np.array(whole), np.array([[0, 3, 3, 3], [3, 0, 0, 3], [3, 6, 3, 6], [3, 1, 2, 3]], np.int32))


@pytest.mark.parametrize("room", [9, 64])
def test_emulation_copies_rows_as_documented(room: int) -> None:
    import jax

    opt, shards, experts = _optimized(), 4, _routing(room)
    table, rows = _tables(experts, shards, EXPERTS // shards)
    plans = [_numpy(opt.dispatch_plan(table, me, room)) for me in range(shards)]
    want = _replay(rows, room, plans)
    poison = np.full((room, 1), np.nan, np.float32)
    copy_segments = jax.jit(opt.copy_segments)  # one program, and not one for each of its operations
    for me in range(shards):
        starts, lengths, places = (np.stack([plan[k] for plan in plans])[:, me] for k in range(3))
        got = copy_segments(rows, poison, starts, lengths, places, plans[me].recv_sizes)
        assert_same_bits(got, want[me])
        unlike = copy_segments(rows, poison, starts, lengths, places, plans[me].recv_sizes + 1)
        assert np.isnan(unlike).all(), "sizes that disagree are undefined, and must not look like a success"
        double = copy_segments(rows, poison, starts, lengths, 0 * places, plans[me].recv_sizes)
        *_, second, longest = np.sort(lengths)
        assert np.isnan(double).sum() == room - longest + second, "rows written twice are undefined"


@pytest.mark.devices(2)
def test_an_exchange_gives_the_example_of_the_documentation() -> None:
    import jax
    import jax.numpy as jnp
    from jax.sharding import PartitionSpec

    opt, spec = _optimized(), PartitionSpec("expert")
    operand = jnp.array([[1.0, 2, 2], [3, 4, 0]]).reshape(6, 1)
    tables = jnp.array([[[0, 1], [1, 2], [0, 0], [1, 1]], [[0, 1], [1, 1], [1, 2], [2, 1]]]).reshape(8, 2)

    with jax.set_mesh(MeshSpec.parse("expert2").build("auto")):
        step = jax.shard_map(lambda x, t: opt.exchange(x, 4, opt.Exchange(*t)), in_specs=(spec, spec), out_specs=spec)
        out = jax.jit(step)(operand, tables)
    assert_same_bits(out[:, 0], np.array([1, 3, np.nan, np.nan, 2, 2, 4, np.nan], np.float32))


def _call(rows: NDArray[Any], experts: NDArray[Any], mesh: str, *operations: str, **statics: Any) -> list[Any]:
    """Operations of the variant in one program on a mesh of explicit axes, copies compared between devices."""
    import jax
    from jax.sharding import NamedSharding, PartitionSpec

    split, combine = statics.get("batch_sharded", True), operations == ("combine",)
    shards, function = MeshSpec.parse(mesh).size("expert"), implementation(PAIR, "ragged_all_to_all")
    with jax.set_mesh(built := MeshSpec.parse(mesh).build("explicit")):
        ids = NamedSharding(built, PartitionSpec("expert" if split else None))
        data = NamedSharding(built, PartitionSpec("expert" if split or combine else None, None))
        each = functools.partial(function, num_experts=EXPERTS, shards=shards, **statics)
        exchanged = jax.jit(lambda *arrays: [each(*arrays, operation=name) for name in operations])
        out = exchanged(jax.device_put(rows, data), jax.device_put(experts, ids))
    for leaf in jax.tree.leaves(out):
        copies = {str(shard.index): np.asarray(shard.data) for shard in leaf.addressable_shards}
        for shard in leaf.addressable_shards:
            assert_same_bits(shard.data, copies[str(shard.index)])
    return list(jax.tree.map(np.asarray, out))


@pytest.mark.devices(4)
@pytest.mark.parametrize("split", [True, False])
def test_nothing_is_lost_and_combine_undoes_dispatch(split: bool) -> None:
    experts, rows = _routing(3), 1 + np.arange(TOKENS * WIDTH, dtype=np.float32).reshape(TOKENS, WIDTH)
    (there,) = _call(rows, experts, "expert4", "dispatch", batch_sharded=split)
    holds = there["rows"].any(1, keepdims=True)
    assert_same_bits(there["rows"][holds[:, 0]], rows[np.argsort(experts, kind="stable")])
    assert_same_bits(there["sizes"], np.bincount(experts, minlength=EXPERTS)[None].astype(np.int32))
    outputs = np.where(holds, there["rows"], np.float32(np.nan))  # Nobody may look at rows that hold no token.
    (back,) = _call(outputs, experts, "expert4", "combine", batch_sharded=split)
    assert_same_bits(back, rows)


@pytest.mark.devices(4)
@pytest.mark.parametrize(("split", "factor"), [(True, 1.25), (True, 0.5), (False, 0.25)])
def test_exactly_the_last_to_arrive_are_dropped(split: bool, factor: float) -> None:
    shards, experts, rows = 4, _routing(5), np.ones((TOKENS, 1), np.float32)
    room = int((TOKENS // shards if split else TOKENS) * factor)
    kept = _kept(_arrivals(experts, shards, EXPERTS // shards, room, split))
    assert 0 < len(kept) < TOKENS
    statics = {"buffer_factor": factor, "batch_sharded": split}
    there, back = _call(rows, experts, "expert4", "dispatch", "round_trip", **statics)
    assert_same_bits(there["sizes"], np.bincount(experts[kept], minlength=EXPERTS)[None].astype(np.int32))
    assert there["rows"].sum() == len(kept)
    assert_same_bits(back[:, 0], np.where(np.isin(np.arange(TOKENS), kept), experts + 1, 0).astype(np.float32))


@pytest.mark.devices(4)
def test_a_tpu_gets_the_real_operation() -> None:
    import jax
    from jax.sharding import NamedSharding, PartitionSpec

    function = implementation(PAIR, "ragged_all_to_all")
    mesh = MeshSpec.parse("expert4").build("auto")
    with jax.set_mesh(mesh):
        split = NamedSharding(mesh, PartitionSpec("expert"))
        rows = jax.ShapeDtypeStruct((TOKENS, WIDTH), "bfloat16", sharding=split)
        experts = jax.ShapeDtypeStruct((TOKENS,), "int32", sharding=split)
        traced = jax.jit(lambda *args: function(*args, operation="round_trip", num_experts=EXPERTS, shards=4)).trace(
            rows, experts
        )
        found = {name: traced.lower(lowering_platforms=(name,)).as_text() for name in ("cpu", "tpu")}
    assert found["tpu"].count("@ragged_all_to_all") == 2
    assert "@ragged_all_to_all" not in found["cpu"]

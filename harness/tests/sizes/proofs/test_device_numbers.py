"""Exchanges that ask for the mesh: proved on every number of devices up to a printed one, or refuted on one of them."""

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from samebits import Arg, Case, MeshSpec, Pair
from samebits.prove import mesh_queries
from samebits.schema.domain import RequiredFact
from samebits.schema.meshes import Mode
from samebits.sizes.proofs import mesh_proofs, pair_sizes, witnesses
from samebits.sizes.proofs import pair_sizes as device_numbers
from samebits.sizes.proofs.attempts import PairPoint
from samebits.sizes.proofs.family import Family, Shaped
from samebits.sizes.proofs.family_proof import PairProof, prove_all_sizes
from samebits.sizes.proofs.mesh_proofs import known_by, values_in
from samebits.sizes.proofs.pair_sizes import PairSizes, few, in_order, strictest
from samebits.sizes.proofs.tracing import traced
from tests.sizes.proofs.device_faults import (
    EXCHANGES,
    RINGS,
    SUMS,
    WRONG_EXCHANGES,
    WRONG_RINGS,
    WRONG_SUMS,
    exchange_pair,
    ring_pair,
    sum_pair,
)

EVERY = tuple(range(1, 17))
HONEST = [
    *((ring_pair, name, side) for name, side in RINGS.items()),
    *((exchange_pair, name, side) for name, side in EXCHANGES.items()),
    *((sum_pair, name, side) for name, side in SUMS.items()),
]
WRONG = [
    *((ring_pair, name, *wrong) for name, wrong in WRONG_RINGS.items()),
    *((exchange_pair, name, *wrong) for name, wrong in WRONG_EXCHANGES.items()),
    *((sum_pair, name, *wrong) for name, wrong in WRONG_SUMS.items()),
]


def _proof(
    pair: Pair, mesh: str = "context2", direction: str = "forward", mode: Mode = "auto", most: int | None = None
) -> PairProof:
    (variant,) = pair.variant_names
    point = PairPoint(pair, variant, pair.cases[0], "float32", direction, mode)
    sizes = PairSizes() if most is None else PairSizes(most_devices=most)
    return sizes.prove(point, MeshSpec.parse(mesh))


def _numbers(proof: PairProof) -> dict[str, tuple[int, ...]]:
    (leaf,) = proof.leaves
    return {shown.axis: shown.numbers for shown in proof.family(leaf).devices}


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("pair", "name", "side"), HONEST, ids=[name for _, name, _ in HONEST])
def test_an_exchange_is_proved_on_every_number(pair: Callable[[Any], Pair], name: str, side: Any) -> None:
    proof = _proof(pair({name: side}))
    assert [leaf.verdict for leaf in proof.leaves] == ["proved"], proof
    assert _numbers(proof) == {"context": EVERY}
    family = proof.family(proof.leaves[0])
    assert "the devices of context2, and every number of devices up to 16 on axis context" in family.text


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("pair", "name", "number", "side"), WRONG, ids=[name for _, name, *_ in WRONG])
def test_a_fault_on_some_numbers_is_refuted(pair: Callable[[Any], Pair], name: str, number: int, side: Any) -> None:
    proof = _proof(pair({name: side}))
    (leaf,) = proof.leaves
    assert leaf.verdict == "different", leaf
    assert proof.family(leaf).mesh == f"context{number}"
    assert proof.place_of(leaf).startswith(f"on context{number} at ")


@pytest.mark.slow
def test_an_exchange_is_proved_in_explicit_mode_and_gradients() -> None:
    pair = ring_pair({"ppermute": RINGS["ppermute"]})
    assert _numbers(_proof(pair, direction="gradient")) == {"context": EVERY}
    assert _numbers(_proof(pair, mode="explicit")) == {"context": EVERY}
    wrong = _proof(ring_pair({"wrong": WRONG_RINGS["wrong_at_sixteen"][1]}), direction="gradient", mode="explicit")
    assert [leaf.verdict for leaf in wrong.leaves] == ["different"]


@pytest.mark.parametrize(("side", "questions"), [(RINGS["ppermute"], 1), (lambda x, *, cp: x, 2)])
def test_the_gradient_does_not_ask_again(monkeypatch: pytest.MonkeyPatch, side: Any, questions: int) -> None:
    """Whoever asked for the mesh does so in the pull-back; where code did not ask, the gradient's own may."""
    asked: list[object] = []

    def watched() -> Any:
        asked.append(None)
        return mesh_queries.mesh_queries()

    monkeypatch.setattr(pair_sizes, "mesh_queries", watched)
    pair, proofs = ring_pair({"side": side}), PairSizes(most_devices=2)
    for direction in ("forward", "gradient"):
        proofs.prove(PairPoint(pair, "side", pair.cases[0], "float32", direction), MeshSpec.parse("context2"))
    assert len(asked) == questions


def test_what_integers_are_belongs_to_a_proof() -> None:
    """Two cases with the same programs: where positions may be any, what is shown of one, two, ... is not shown."""

    def turned(x: jax.Array, positions: jax.Array, *, cp: int) -> jax.Array:
        return jnp.take(jnp.roll(x.reshape(cp, -1), 1, axis=0).reshape(x.shape), positions, mode="clip")

    def ignoring(x: jax.Array, positions: jax.Array, *, cp: int) -> jax.Array:
        return RINGS["ppermute"](x, cp=cp)

    of_ring = ring_pair({"ignoring": ignoring})
    placed = Arg(shape=("length",), dtype="int32", equals="index0")
    (case,) = of_ring.cases
    cases = (case, replace(case, id="any"))
    verdicts = []
    for order in (cases, cases[::-1]):
        proofs = PairSizes(most_devices=2)
        for own in order:
            arg = placed if own.id == case.id else replace(placed, equals=None)
            args = {**of_ring.arguments(own, MeshSpec.parse("context2")), "positions": arg}
            pair = replace(of_ring, reference=turned, args=args, cases=cases)
            point = PairPoint(pair, "ignoring", own, "float32", "forward")
            verdicts.append((own.id, proofs.prove(point, MeshSpec.parse("context2")).leaves[0].verdict))
    assert verdicts == [(case.id, "proved"), ("any", "different"), ("any", "different"), (case.id, "proved")]


def test_programs_are_known_by_what_their_integers_are() -> None:
    def taken(x: jax.Array, at: jax.Array) -> jax.Array:
        return jnp.take(x, at, mode="clip")

    keys = set()
    for equals in (None, "index0", "n - 1 - index0"):
        args = {"x": Shaped(("n",)), "at": Shaped(("n",), "int32", equals=equals)}
        family = Family(symbols={"n": 1}, args=args)
        keys.add(known_by(family, (traced(taken, family), traced(taken, family)), "forward"))
    assert len(keys) == 3 and None not in keys


@pytest.mark.slow
def test_each_axis_of_a_mesh_is_varied_alone() -> None:
    proof = _proof(ring_pair({"ppermute": RINGS["ppermute"]}), "data2_context2")
    assert _numbers(proof) == {"data": EVERY, "context": EVERY}
    text = proof.family(proof.leaves[0]).text
    assert "up to 16 on axis data alone, and every number of devices up to 16 on axis context alone" in text
    wrong = _proof(ring_pair({"wrong": WRONG_RINGS["wrong_at_sixteen"][1]}), "data2_context2")
    assert wrong.family(wrong.leaves[0]).mesh == "data2_context16"


def test_numbers_that_the_symbols_do_not_allow_are_left_out() -> None:
    pair = ring_pair({"ppermute": RINGS["ppermute"]})
    (case,) = pair.cases
    even = replace(case, symbols={"context": "2*half", "length": "context*group"})
    wrong_at_odd = WRONG_RINGS["wrong_at_odd"][1]
    proof = _proof(replace(ring_pair({"even": wrong_at_odd}), cases=(even,)), most=6)
    assert _numbers(proof) == {"context": (2, 4, 6)}
    (shown,) = proof.family(proof.leaves[0]).devices
    assert shown.why_not == "at context1: the symbols of the sizes do not allow this number"
    assert shown.text.startswith("2, 4 and 6 devices on axis context")


def test_a_number_on_which_code_raises_is_not_claimed() -> None:
    def raises_at_five(x: jax.Array, *, cp: int) -> jax.Array:
        if cp == 5:
            raise ValueError("five is not supported")
        return RINGS["ppermute"](x, cp=cp)

    proof = _proof(ring_pair({"raises_at_five": raises_at_five}), most=6)
    assert _numbers(proof) == {"context": (1, 2, 3, 4, 6)}
    (shown,) = proof.family(proof.leaves[0]).devices
    assert shown.why_not is not None
    assert shown.why_not.startswith("at context5: ")
    assert "five is not supported" in shown.why_not


def test_where_nothing_is_shown_only_a_fault_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []

    def counted(*functions: Any, **words: Any) -> Any:
        calls.append(functions)
        return prove_all_sizes(*functions, **words)

    def undecided(x: jax.Array, *, cp: int, wrong_at: int = 0) -> jax.Array:
        turned = RINGS["ppermute"](x, cp=cp)
        start = (0, turned)  # no rule for all sizes follows a loop without a length
        again = jax.lax.while_loop(lambda state: state[0] < 4, lambda state: (state[0] + 2, state[1][::-1]), start)[1]
        return x if cp == wrong_at else again

    monkeypatch.setattr(mesh_proofs, "prove_all_sizes", counted)
    monkeypatch.setattr(witnesses, "MOST_TRIALS", 4)  # at each number of devices
    (leaf,) = _proof(ring_pair({"undecided": undecided}), most=4).leaves
    assert leaf.verdict == "error"
    assert "while" in leaf.reason
    assert len(calls) == 1
    wrong = _proof(ring_pair({"wrong": functools.partial(undecided, wrong_at=3)}), most=4)
    assert [leaf.verdict for leaf in wrong.leaves] == ["different"]
    assert wrong.family(wrong.leaves[0]).mesh == "context3"


@pytest.mark.slow
def test_numbers_are_asked_for_up_to_the_most_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_numbers, "MOST_ASKED", -1)
    proof = _proof(ring_pair({"all_gather": RINGS["all_gather"]}))
    (shown,) = proof.family(proof.leaves[0]).devices
    assert shown.numbers == (2,)
    assert "not tried" in str(shown.why_not)


@pytest.mark.slow
def test_one_device_stands_for_more_where_sums_need_no_facts() -> None:
    proof = _proof(ring_pair({"ppermute": RINGS["ppermute"]}), "context1")
    assert _numbers(proof) == {"context": EVERY}
    assert _numbers(proof.with_sums(())) == {"context": EVERY}
    restricted = proof.with_sums((RequiredFact("no_negative_zero", "x"),))
    assert _numbers(restricted) == {"context": (1,)}
    (shown,) = restricted.family(restricted.leaves[0]).devices
    assert shown.why_not is not None
    assert shown.why_not.startswith("from context2 on a gather may be compiled to a sum")


@pytest.mark.slow
def test_programs_that_only_ask_are_proved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The proof on one device, for every number of rows, is that on 16 devices where the programs are the same."""
    calls: list[object] = []

    def counted(*functions: Any, **words: Any) -> Any:
        calls.append(functions)
        return prove_all_sizes(*functions, **words)

    monkeypatch.setattr(mesh_proofs, "prove_all_sizes", counted)

    def asks(x: jax.Array, wrong_at: int = 0) -> jax.Array:
        devices = jax.sharding.get_abstract_mesh().shape.get("context", 1)
        if x.shape[0] % devices:
            raise ValueError("the rows do not divide")
        return x if devices == wrong_at else jnp.flip(x, 0)

    def pair(side: Any) -> Pair:
        return Pair(
            name="turned",
            reference=lambda x: x[::-1],
            variants={"asks": side},
            args={"x": Arg(shape=("rows", "width"), spec=("context",))},
            cases=(Case(id="small", sizes={"rows": 8, "width": 2}, symbols={"rows": "context*part"}),),
            dtypes=("float32",),
            meshes=("context4",),
            gradients=False,
        )

    assert _numbers(_proof(pair(asks), "context4")) == {"context": EVERY}
    assert len(calls) == 2
    wrong = _proof(pair(functools.partial(asks, wrong_at=16)), "context4")
    assert wrong.family(wrong.leaves[0]).mesh == "context16"


def test_of_the_conditions_of_several_numbers_the_strictest_stay() -> None:
    conditions = ("rows >= 1", "2*rows <= 9", "16*rows <= 9", "rows*width <= 9", "ids[...] + rows <= 9", "2*rows <= 9")
    assert strictest(conditions) == ("rows >= 1", "16*rows <= 9", "rows*width <= 9", "ids[...] + rows <= 9")


def test_the_order_of_numbers_begins_with_those_that_are_run() -> None:
    assert [*in_order(6)] == [1, 6, 4, 2, 3, 5]
    assert [*in_order(16)][:5] == [1, 16, 8, 4, 2]
    assert [*few(16)] == [1, 16, 3]
    assert sorted(in_order(16)) == [*EVERY]


def test_a_family_is_part_of_another_for_some_of_its_sizes() -> None:
    one = Family(symbols={"rows": 1, "width": 1}, args={"x": Shaped(("2*rows", "width"))})
    eight = Family(symbols={"rows": 1, "width": 1}, args={"x": Shaped(("16*rows", "width"))})
    assert {name: str(size) for name, size in (values_in(one, eight) or {}).items()} == {
        "rows": "8*rows",
        "width": "width",
    }
    assert values_in(eight, one) is None
    from_two_on = Family(symbols={"rows": 9, "width": 1}, args={"x": Shaped(("2*rows", "width"))})
    assert values_in(from_two_on, eight) is None
    other = Family(symbols={"rows": 1, "width": 1}, args={"x": Shaped(("16*rows", "width"), "int32")})
    assert values_in(one, other) is None

"""What sides write into their arguments: an update that is forgotten, another update, and the same one."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

import samebits
from samebits import Adapt, Arg, Case, Pair
from samebits.programs.host_trees import Watched, WithWrites, returned, touched, writes_apart
from samebits.programs.program_cache import Programs
from samebits.programs.sides import Site, TracedSides
from samebits.schema.meshes import MeshSpec

RATE = 0.5
STATE = {"w": np.linspace(-1, 1, 8, dtype=np.float32), "m": np.zeros(8, np.float32)}
X = np.linspace(0, 3, 8, dtype=np.float32)


def step(state: Any, x: Any) -> Any:
    """A step with momentum, written into a dict."""
    out = (state["w"] * x).sum()
    state["m"] = 0.9 * state["m"] + x
    state["w"] = state["w"] - RATE * state["m"]
    return out


def rewritten(state: Any, x: Any) -> Any:
    """The same in another order."""
    out, momentum = (x * state["w"]).sum(), x + state["m"] * 0.9
    state.update(m=momentum, w=-RATE * momentum + state["w"])
    return out


def forgets(state: Any, x: Any) -> Any:
    """No update."""
    return (state["w"] * x).sum()


def other_momentum(state: Any, x: Any) -> Any:
    """Another momentum."""
    out = (state["w"] * x).sum()
    state["m"] = 0.8 * state["m"] + x
    state["w"] = state["w"] - RATE * state["m"]
    return out


def removes(state: Any, x: Any) -> Any:
    """The momentum is taken out of the dict."""
    step(state, x)
    del state["m"]
    return (state["w"] * x).sum()


def normed(layer: Any, x: Any) -> Any:
    """A layer that keeps statistics."""
    return layer(x)


def without_statistics(layer: Any, x: Any) -> Any:
    """The same output; the statistics stay as they were."""
    mean = x.mean(0)
    variance = ((x - mean) ** 2).mean(0)
    return (x - mean) * jax.lax.rsqrt(variance + layer.epsilon) * layer.scale[...] + layer.bias[...]


def _verdicts(compared: Any, direction: str = "forward") -> dict[str, bool]:
    return {leaf.place.leaf: leaf.ruling.ok for leaf in compared.leaves if leaf.place.direction == direction}


def test_a_forgotten_update_is_different() -> None:
    compared = samebits.check(step, forgets, STATE, X)
    wrong = {"state['m'] after the call": False, "state['w'] after the call": False}
    assert _verdicts(compared) == {"out": True, **wrong}
    assert all(_verdicts(compared, "gradient").values()), "gradients are those of what is returned"
    assert not samebits.check(forgets, step, STATE, X, gradients=False).ok


def test_another_momentum_is_different() -> None:
    state = {"w": STATE["w"], "m": X}
    compared = samebits.check(step, other_momentum, state, X, gradients=False)
    assert _verdicts(compared)["out"]
    assert not _verdicts(compared)["state['m'] after the call"]


def test_the_same_update_in_other_words_agrees() -> None:
    compared = samebits.check(step, rewritten, STATE, X)
    assert compared.ok, compared
    assert len(_verdicts(compared)) == 3


def test_statistics_of_a_layer_are_compared() -> None:
    layer = nnx.BatchNorm(4, rngs=nnx.Rngs(0))
    x = np.linspace(-1, 2, 24, dtype=np.float32).reshape(6, 4)
    compared = samebits.check(normed, without_statistics, layer, x, gradients=False)
    wrong = sorted(leaf for leaf, ok in _verdicts(compared).items() if not ok)
    assert [name.partition(".")[2].partition(".")[0] for name in wrong] == ["mean", "var"], compared
    assert all(name.endswith(" after the call") for name in wrong)


def test_a_removed_leaf_is_named() -> None:
    compared = samebits.check(step, removes, STATE, X, gradients=False)
    assert not compared.ok
    assert "optimized removes state['m']" in str(compared)


def test_a_function_that_only_writes_is_compared() -> None:
    def adds(state: Any, x: Any) -> None:
        state["w"] = state["w"] + x

    def subtracts(state: Any, x: Any) -> None:
        state["w"] = state["w"] - x

    assert not samebits.check(adds, subtracts, STATE, X).ok
    assert samebits.check(adds, lambda state, x: adds(state, x), STATE, X).ok


@pytest.mark.parametrize("empty", [{}, []])
def test_an_empty_container_that_is_filled_is_compared(empty: Any) -> None:
    def fills(cache: Any, x: Any) -> Any:
        cache.update(k=2 * x) if isinstance(cache, dict) else cache.append(2 * x)
        return x.sum()

    def fills_otherwise(cache: Any, x: Any) -> Any:
        cache.update(k=x * 3) if isinstance(cache, dict) else cache.append(x * 3)
        return x.sum()

    def leaves_it(cache: Any, x: Any) -> Any:
        return x.sum()

    assert not samebits.check(fills, leaves_it, empty, X, gradients=False).ok
    assert not samebits.check(fills, fills_otherwise, empty, X, gradients=False).ok
    assert samebits.check(fills, lambda cache, x: fills(cache, x), empty, X, gradients=False).ok
    assert not empty, "what the caller has is as it was"


def test_nothing_written_nothing_else_returned() -> None:
    traces = []

    def counted(state: Any, x: Any) -> Any:
        traces.append("counted")
        return (x * state["w"]).sum()

    compared = samebits.check(forgets, counted, STATE, X, gradients=False)
    assert list(_verdicts(compared)) == ["out"]
    before = len(traces)
    compared = samebits.check(lambda w, x: (w * x).sum(), lambda w, x: counted({"w": w}, x), X, X, gradients=False)
    assert len(traces) - before == before, "a dict is traced as often as an array"


def test_adapted_sides_that_write_are_refused() -> None:
    pair = Pair(
        name="adapted",
        reference=step,
        variants={"flat": lambda w, m, x: (w * x).sum()},
        args={"state": {"w": Arg(shape=(8,)), "m": Arg(shape=(8,))}, "x": Arg(shape=(8,))},
        cases=(Case(id="only"),),
        dtypes=("float32",),
        meshes=("none",),
        gradients=False,
        adapt={"flat": Adapt(arguments=lambda state, x: {**state, "x": x})},
    )
    with pytest.raises(samebits.DeclarationError, match=r"not compared where a side is adapted"):
        samebits.check(pair)


def test_every_size_is_not_proved_where_a_side_writes() -> None:
    sizes = {"state['w']": "n", "state['m']": "n", "x": "n"}
    proof = samebits.prove(step, rewritten, STATE, X, sizes=sizes, gradients=False)
    assert "writes into its arguments" in str(proof)


def test_leaves_are_watched_by_identity() -> None:
    state: dict[str, Any] = {"a": jnp.zeros(3), "b": jnp.ones(3), "n": 1, "s": "text"}
    watched = Watched({"state": state})
    assert watched.outcome(5) == 5
    state.update(a=state["a"] + 0, n=2, s="other")
    outcome = watched.outcome(5)
    assert isinstance(outcome, WithWrites)
    assert returned(outcome) == 5
    assert touched(outcome) == ("state['a']", "state['n']", "state['s']")
    assert list(outcome.written) == ["state['a'] after the call", "state['n'] after the call"]
    assert outcome.changes == (("state['s']", "sets state['s']", "'other'"),)
    first, second = jax.tree.structure(outcome), jax.tree.structure(5)
    assert writes_apart(first, first) is None
    assert writes_apart(second, first) == (
        "reference does not; optimized writes state['a'], writes state['n'], sets state['s']"
    )


def test_sides_that_were_traced_are_not_traced_again() -> None:
    own: list[None] = []
    other: list[None] = []

    def doubled(state: Any) -> Any:
        own.append(None)
        state["a"] = state["a"] * 2
        return state["a"]

    def kept(state: Any) -> Any:
        other.append(None)
        return state["a"] * 2

    state = {"state": samebits.like({"a": np.zeros(3, np.float32)})}
    only, variants = (Case(id="only"),), {"kept": kept}
    pair = Pair(name="written", reference=doubled, variants=variants, args=state, cases=only, dtypes=("float32",))
    sides, none = TracedSides(pair, Programs()), MeshSpec.parse("none")
    site = Site(case=pair.cases[0], dtype="float32", mesh=none, mode="auto", built=None)
    for side in (*pair.sides, *pair.sides):
        assert touched(sides.forward(side, site).traced.out_info) == ("state['a']",)
    assert (len(own), len(other)) == (1, 2)  # the other one by itself, and with what the reference writes

"""`assert_resumes`: trainings that are restored whole, and planted ones that lose a part of their state."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import samebits
from samebits.errors import CouldNotRun, NothingCompared, RequestError
from samebits.properties.resuming import Accepted, resuming

State = dict[str, Any]
BATCHES = [np.arange(3, dtype=np.float32) + n for n in range(6)]
DATA = np.arange(24, dtype=np.float32).reshape(8, 3) % 5


def first_state() -> State:
    zeros = np.zeros(3, np.float32)
    return {
        "params": {"w": np.arange(3, dtype=np.float32), "frozen": np.ones(2, np.float32)},
        "opt": {"count": np.int32(0), "mean": zeros},
        "rng": jax.random.key(0),
        "position": np.int32(0),
    }


@jax.jit
def train(state: State, batch: Any) -> tuple[State, Any]:
    """Make a step of momentum with noise and a schedule on a batch and on one that the state points to."""
    params, opt, (rng, key) = state["params"], state["opt"], jax.random.split(state["rng"])
    gradient = params["w"] - batch - jnp.asarray(DATA)[state["position"] % 8] + jax.random.uniform(key, (3,))
    mean = 0.5 * opt["mean"] + gradient
    w = params["w"] - mean / (4.0 + opt["count"])
    opt = {"count": opt["count"] + 1, "mean": mean}
    state = {"params": {**params, "w": w}, "opt": opt, "rng": rng, "position": state["position"] + 1}
    return state, {"loss": jnp.sum(gradient * gradient)}


class Store:
    """Stores the leaves of a state in a file, but for those that are planted as forgotten."""

    def __init__(self, folder: Path, *forgotten: str) -> None:
        self._file, self._forgotten = folder / "state.npz", forgotten

    def save(self, state: State) -> Path:
        leaves = {"w": state["params"]["w"], "frozen": state["params"]["frozen"], **state["opt"]}
        np.savez(self._file, **leaves, position=state["position"], rng=jax.random.key_data(state["rng"]))
        return self._file

    def restore(self, file: Path) -> State:
        first = first_state()
        with np.load(file) as loaded:
            stored = {name: loaded[name] for name in loaded.files if name not in self._forgotten}
        rng = jax.random.wrap_key_data(stored["rng"]) if "rng" in stored else first["rng"]
        return {
            "params": {name: stored.get(name, first["params"][name]) for name in ("w", "frozen")},
            "opt": {name: stored.get(name, first["opt"][name]) for name in ("count", "mean")},
            "rng": rng,
            "position": stored.get("position", first["position"]),
        }


def test_a_training_that_is_restored_whole_passes(tmp_path: Path) -> None:
    store = Store(tmp_path)
    samebits.assert_resumes(train, store.save, store.restore, first_state(), BATCHES)
    result = resuming(train, store.save, store.restore, first_state, BATCHES, at=(1, 5))
    assert [run.at for run in result.runs] == [1, 5] and result.ok
    assert "nothing is said of them: params.frozen" in str(result)


@pytest.mark.parametrize(
    ("leaf", "name", "value"),
    [
        ("rng", "rng", "which is its first value"),
        ("count", "opt.count", "saved 3 (0x00000003), restored 0 (0x00000000)"),
        ("mean", "opt.mean[", "3 of 3 elements differ"),
        ("position", "position", "saved 3 (0x00000003), restored 0 (0x00000000)"),
        ("w", "params.w[", "which is its first value"),
    ],
)
def test_a_leaf_that_is_not_saved_is_named(leaf: str, name: str, value: str, tmp_path: Path) -> None:
    store = Store(tmp_path, leaf)
    with pytest.raises(AssertionError, match="train, restored after step 3 of 6: not the uninterrupted run") as caught:
        samebits.assert_resumes(train, store.save, store.restore, first_state(), BATCHES)
    head, lost, *_, last = str(caught.value).splitlines()
    assert head.endswith("from step 4 on")
    assert lost.startswith(f"not restored: {name}") and value in lost
    assert "uninterrupted " in last and ", resumed " in last


def test_a_number_of_python_is_restored_as_an_array() -> None:
    def count(state: Any, batch: Any) -> Any:
        return {"step": jnp.asarray(state["step"]) + 1, "w": state["w"] + batch[0]}

    first = {"step": 0, "w": np.float32(0)}
    for restore in (lambda s: {**s, "step": int(s["step"])}, lambda s: {**s, "step": np.int32(s["step"])}):
        result = resuming(count, lambda s: s, restore, first, BATCHES)
        assert result.ok and not result.runs[0].lost
    result = resuming(count, lambda s: s, lambda s: {**s, "step": 0}, first, BATCHES)
    assert "not restored: step: saved 3 (0x00000003), restored 0 (0x00000000)" in str(result)


def test_a_leaf_that_is_rounded_is_within_an_envelope(tmp_path: Path) -> None:
    store = Store(tmp_path)

    def rounded(file: Path) -> State:
        state = store.restore(file)
        mean = state["opt"]["mean"]
        return {**state, "opt": {**state["opt"], "mean": np.nextafter(mean, np.float32(np.inf))}}

    def coarse(file: Path) -> State:
        state = store.restore(file)
        mean = jnp.asarray(state["opt"]["mean"], jnp.bfloat16).astype(jnp.float32)
        return {**state, "opt": {**state["opt"], "mean": mean}}

    call = (train, store.save)
    floats: dict[str, Accepted] = dict.fromkeys(("params.w", "opt.mean", "out.loss"), "rounding")
    with pytest.raises(AssertionError, match=r"not restored: opt\.mean"):
        samebits.assert_resumes(*call, rounded, first_state(), BATCHES)
    samebits.assert_resumes(*call, rounded, first_state(), BATCHES, accept=floats)
    samebits.assert_resumes(*call, coarse, first_state(), BATCHES, accept=dict.fromkeys(floats, "anything"))
    with pytest.raises(AssertionError, match=r"not restored: opt\.mean"):
        samebits.assert_resumes(*call, coarse, first_state(), BATCHES, accept=floats)


def test_a_state_that_no_step_shows_is_not_compared() -> None:
    def stateless(state: Any, batch: Any) -> Any:
        return {"w": batch * 2}

    with pytest.raises(NothingCompared, match="a cold start after step 3 gives the same leaves"):
        samebits.assert_resumes(stateless, lambda s: s, lambda s: s, {"w": np.zeros(3, np.float32)}, BATCHES)


def test_what_lies_outside_of_the_state_is_found() -> None:
    class Loop:
        """Draws from an iterator of its own."""

        def __init__(self) -> None:
            self.drawn = iter(range(100))

        def __call__(self, state: Any, batch: Any) -> Any:
            return state + next(self.drawn)

    with pytest.raises(CouldNotRun, match="repeat their bits: from step 1 on, in state; the step reads"):
        samebits.assert_resumes(Loop(), lambda s: s, lambda s: s, np.float32(0), BATCHES)


def test_what_restoring_changes_outside_of_the_state() -> None:
    hidden = {"scale": 1}

    def scaled(state: Any, batch: Any) -> Any:
        return state * np.float32(hidden["scale"]) + 1

    def restore(state: Any) -> Any:
        hidden["scale"] = 2
        return state

    def begin() -> Any:
        hidden["scale"] = 1
        return np.float32(1)

    result = resuming(scaled, lambda s: s, lambda s: s.astype(np.float64), begin, BATCHES)
    assert "not restored: state: another dtype: saved float32, restored float64" in str(result) and not result.ok
    result = resuming(scaled, lambda s: s, restore, begin, BATCHES)
    assert "every leaf was restored; the step reads what is not in the state" in str(result) and not result.ok


def test_a_weak_type_that_is_lost_is_named() -> None:
    def scaled(state: Any, batch: Any) -> Any:
        return {"scale": state["scale"] * 1.5, "x": (state["x"] * state["scale"] + 1).astype(jnp.bfloat16)}

    first = {"scale": jnp.asarray(1.1), "x": jnp.ones(3, jnp.bfloat16)}
    result = resuming(scaled, lambda s: s, lambda s: {**s, "scale": np.asarray(s["scale"])}, first, BATCHES)
    assert not result.ok and "not restored: scale: its weak type" in str(result)


def test_a_structure_that_is_lost_is_a_failure(tmp_path: Path) -> None:
    store = Store(tmp_path)

    def without(file: Path) -> State:
        return {name: part for name, part in store.restore(file).items() if name != "rng"}

    with pytest.raises(AssertionError, match=r"the resumed run raised: .*rng") as caught:
        samebits.assert_resumes(train, store.save, without, first_state(), BATCHES)
    assert "not restored: rng: not in the restored state" in str(caught.value)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"at": 6}, "at=6 of 6 batches; expected a number of steps between the first and the last"),
        ({"at": ()}, r"at=\(\) of 6 batches"),
        ({"accept": {"params.*": "close"}}, "expected 'rounding' or 'anything'"),
        ({"accept": {"optimiser.*": "anything"}}, r"'optimiser\.\*' names no leaf; the leaves are .*opt\.count"),
    ],
)
def test_what_cannot_be_asked_is_one_line(more: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError, match=message) as caught:
        resuming(train, lambda s: s, lambda s: s, first_state(), BATCHES, **more)
    assert "\n" not in str(caught.value)


def test_a_step_that_returns_no_state() -> None:
    loss: Callable[[Any, Any], Any] = lambda state, batch: {"loss": batch}  # noqa: E731
    with pytest.raises(RequestError, match=r"the step returns .*expected the state, or the state and outputs"):
        resuming(loss, lambda s: s, lambda s: s, first_state(), BATCHES)


def test_a_restored_checkpoint_of_orbax(tmp_path: Path) -> None:
    checkpoint = pytest.importorskip("orbax.checkpoint")
    store = checkpoint.StandardCheckpointer()

    def save(state: State) -> Path:
        folder = tmp_path / f"after_{int(state['position'])}"
        store.save(folder, {**state, "rng": jax.random.key_data(state["rng"])})
        store.wait_until_finished()
        return folder

    def restore(folder: Path, *, forgets: bool = False) -> State:
        state = store.restore(folder)
        return {**state, "rng": first_state()["rng"] if forgets else jax.random.wrap_key_data(state["rng"])}

    samebits.assert_resumes(train, save, restore, first_state(), BATCHES)
    with pytest.raises(AssertionError, match="not restored: rng"):
        samebits.assert_resumes(train, save, lambda f: restore(f, forgets=True), first_state(), BATCHES, at=2)

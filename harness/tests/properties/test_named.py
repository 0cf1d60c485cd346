"""What a function may read: every leak is refuted with a witness, every honest twin is proved."""

import inspect
import re
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

import samebits
from samebits.errors import CouldNotRun, RequestError
from samebits.properties import named
from samebits.properties.outcome import PropertyOutcome, picture
from tests.properties.specimens import SPECIMENS
from tests.properties.specimens.specimen import Specimen
from tests.properties.threads import THREADS

Array = Any
X = np.random.default_rng(0).standard_normal((2, 6, 4)).astype(np.float32)
TOKENS = np.random.default_rng(1).integers(1, 9, (2, 6))


ALL = (*SPECIMENS, *THREADS)


def outcome(specimen: Specimen) -> PropertyOutcome:
    keywords, arguments = dict(specimen.keywords), specimen.arguments()
    if specimen.property.startswith("gradient"):
        (keywords["param"],) = keywords.pop("on")
    else:
        keywords.setdefault("gradient", False)

    def function(*arrays: Any) -> Any:
        return specimen.function(*arrays)

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    function.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in arguments])  # type: ignore
    result: PropertyOutcome = getattr(named, specimen.property)(function, *arguments.values(), **keywords)
    return result


@pytest.mark.parametrize("specimen", [s for s in ALL if s.leaks], ids=lambda s: s.name)
def test_a_leak_is_refuted(specimen: Specimen) -> None:
    result = outcome(specimen)
    assert result.verdict == "refuted", result
    assert any(reading.witness for reading in result.readings), result
    with pytest.raises(AssertionError, match="refuted"):
        result.raise_for_status()


@pytest.mark.parametrize("specimen", [s for s in ALL if not s.leaks], ids=lambda s: s.name)
def test_an_honest_form_is_proved(specimen: Specimen) -> None:
    result = outcome(specimen)
    assert result.verdict == "proved", result
    result.raise_for_status()


def test_the_gradient_of_an_honest_form_is_proved_too() -> None:
    chosen = [s for s in SPECIMENS if s.name in ("additive_mask_honest", "state_without_reset_honest")]
    for specimen in chosen:
        decide = getattr(named, specimen.property)
        result = decide(specimen.function, *specimen.arguments().values(), **specimen.keywords)
        assert [reading.direction for reading in result.readings] == ["forward", "gradient"]
        assert result.ok, result


def future(x: Array) -> Array:
    return x + jnp.roll(x, -1, axis=1)


def mean_of_batch(x: Array) -> Array:
    return x - x.mean(0)


def pooled(x: Array, mask: Array) -> Array:
    return (x * mask[..., None]).sum(1) / mask.sum(1)[:, None]


MASK = np.arange(6) < np.array([[4], [2]])


def test_index_expressions_say_what_is_asked() -> None:
    earlier = samebits.independent(jnp.cumsum, X, axis=1, of="out[:, t]", on="a[:, t+1:]")
    assert earlier.ok
    later = samebits.independent(lambda x: jnp.cumsum(x, 1), X, of="out[b, t]", on="x[b, :t]")
    assert later.verdict == "refuted"
    assert samebits.independent(lambda x: {"a": x, "b": x[::-1]}, X, of="out['a'][b, ..., d]", on="x[b, :, d+1:]").ok
    assert not samebits.independent(lambda x: {"a": x, "b": x[::-1]}, X, of="out['b'][b]", on="x[1-b]").ok
    with pytest.raises(AssertionError, match=re.escape("changing x[0, 1, 0]")):
        samebits.assert_independent(future, X, of="out[:, 0]", on="x[:, 1]")


def test_a_witness_is_one_element_and_the_equation_has_its_line() -> None:
    result = samebits.causal(future, X, gradient=False)
    (reading,) = result.readings
    assert re.fullmatch(r"changing x\[0, 1, 0\] from \S+ to \S+ moves out\[0, 0, 0\] from \S+ to \S+", reading.witness)
    assert reading.place.startswith("add(float32[2, 6, 4], float32[2, 6, 4]) at ")
    assert "test_named.py:" in reading.place
    assert "it gets in by add" in repr(result)
    assert cells(picture(reading), "#c62828") == 5  # each place but the last reads the next
    assert "output group 0 reads input group 1, which it must not, by add(" in picture(reading)
    assert result.verdict == "refuted"


def cells(svg: str, colour: str) -> int:
    """Count the cells of a colour."""
    columns = int(svg.split(' width="', 1)[1].split('"')[0]) // 6
    widths = re.findall(rf'width="(\d+)" height="{columns}" fill="{colour}"', svg)
    return sum(map(int, widths)) // columns


def test_tokens_are_changed_as_integers() -> None:
    table = np.random.default_rng(2).standard_normal((9, 4)).astype(np.float32)
    assert samebits.causal(lambda tokens, table: table[tokens].cumsum(1), TOKENS, table).ok
    result = samebits.causal(lambda tokens, table: table[tokens[:, ::-1]], TOKENS, table)
    assert re.search(r"changing tokens\[0, \d\] from \d to \d moves out", repr(result))


def test_rows_microbatches_and_windows() -> None:
    wide = np.concatenate([X, X[::-1]])
    assert samebits.batch_rows(lambda x: x - x.mean(1, keepdims=True), X).ok
    assert samebits.batch_rows(mean_of_batch, X).verdict == "refuted"

    def of_two(x: Array) -> Array:
        return (x.reshape(2, 2, *x.shape[1:]) - x.reshape(2, 2, *x.shape[1:]).mean(1, keepdims=True)).reshape(x.shape)

    assert samebits.microbatches(of_two, wide, size=2).ok
    assert samebits.batch_rows(of_two, wide).verdict == "refuted"
    assert samebits.window(lambda x: x + jnp.pad(x, ((0, 0), (2, 0), (0, 0)))[:, :-2], X, size=3).ok
    assert samebits.window(lambda x: x + jnp.pad(x, ((0, 0), (2, 0), (0, 0)))[:, :-2], X, size=2).verdict == "refuted"


def test_padding_is_not_read_by_values_nor_gradients() -> None:
    assert samebits.padding(pooled, X, MASK).ok
    assert samebits.padding(lambda x, mask: x.mean(1), X, MASK).verdict == "refuted"

    @jax.custom_vjp
    def leaky(x: Array, mask: Array) -> Array:
        return pooled(x, mask)

    leaky.defvjp(
        lambda x, m: (pooled(x, m), (x, m)),
        lambda kept, ct: (kept[0] * ct[:, None] * kept[0].sum(1, keepdims=True), None),
    )
    result = samebits.padding(leaky, X, MASK)
    assert [reading.verdict for reading in result.readings] == ["proved", "refuted"]


def test_gradients_stop_or_reach() -> None:
    w = {"kept": np.ones(4, np.float32), "stopped": np.ones(4, np.float32)}

    def scaled(w: Any, x: Array) -> Array:
        return x * w["kept"] + jax.lax.stop_gradient(w["stopped"])

    assert samebits.gradient_stops(scaled, w, X, param="w.stopped").ok
    assert samebits.gradient_stops(scaled, w, X, param="w").verdict == "refuted"
    assert samebits.gradient_reaches(scaled, w, X, param="w.kept").ok
    assert samebits.gradient_reaches(scaled, w, X, param="w").verdict == "refuted"
    assert "whatever the values" in repr(samebits.gradient_reaches(scaled, w, X, param="w"))


def test_modules_of_flax_are_functions() -> None:
    class Mixer(nnx.Module):
        def __init__(self, rngs: nnx.Rngs) -> None:
            self.attention = nnx.MultiHeadAttention(2, 4, 4, decode=False, rngs=rngs)

        def __call__(self, x: Array, causal: bool) -> Array:
            mask = nn.make_causal_mask(jnp.ones(x.shape[:2])) if causal else None
            return self.attention(x, mask=mask)

    graph, state = nnx.split(Mixer(nnx.Rngs(0)))
    for causal, verdict in ((True, "proved"), (False, "refuted")):
        result = samebits.causal(lambda state, x, c=causal: nnx.merge(graph, state)(x, c), state, X, on="x")
        assert result.verdict == verdict, result
    dense = nn.Dense(4)
    assert samebits.causal(dense.apply, dense.init(jax.random.key(0), X), X, on="args0").ok


def test_by_default_what_has_the_axes_of_the_output_is_asked() -> None:
    def model(params: Any, tokens: Array, positions: Array) -> Array:
        return params["table"][tokens].cumsum(1) + params["two"][:, :1] + positions[..., None]

    params = {"table": np.ones((9, 4), np.float32), "two": np.ones((2, 6, 4), np.float32)}
    result = samebits.causal(model, params, TOKENS, TOKENS)
    assert result.ok
    assert "does not read tokens at a later position" in repr(result)
    both = samebits.causal(lambda q, k: q + k[:, ::-1], X, X, gradient=False)
    assert "does not read q, k at" in repr(both)
    assert both.verdict == "refuted"


def test_shapes_alone_are_enough() -> None:
    shape = jax.ShapeDtypeStruct((2, 6, 4), jnp.float32)
    assert samebits.causal(lambda x: jnp.cumsum(x, 1), shape).ok
    assert samebits.causal(future, shape).verdict == "refuted"


def test_masks_are_as_passed_and_other_floats_are_not() -> None:
    mask = np.where(np.tril(np.ones((6, 6))), 0, -1e9).astype(np.float32)

    def attention(x: Array, mask: Array) -> Array:
        return jax.nn.softmax(jnp.einsum("btd,bsd->bts", x, x) + mask) @ x

    result = samebits.causal(attention, X, mask)
    assert result.ok
    assert "mask as given" in repr(result)
    weights = np.tril(np.random.default_rng(0).random((6, 6))).astype(np.float32)
    mixed = samebits.causal(lambda x, w: jnp.einsum("ts,bsd->btd", w, x), X, weights)
    assert mixed.verdict == "undecided"
    assert "position 0" in mixed.readings[0].reason
    assert samebits.causal(lambda x, w: jnp.einsum("ts,bsd->btd", w, x), X, weights, exactly="w").ok


def test_one_hot_floats_are_not_masks() -> None:
    one_hot = np.eye(5, dtype=np.float32)[TOKENS % 5]
    table = np.random.default_rng(0).random((5, 4)).astype(np.float32)
    assert samebits.causal(lambda x, table: (x @ table).cumsum(1), one_hot, table, on="x").ok
    result = samebits.causal(lambda y, x: y + (x[..., :4] * x[..., 1:]).sum(1, keepdims=True), X, one_hot)
    assert result.verdict == "refuted"  # which is zero for all that is one-hot
    mask = np.eye(6, dtype=np.float32)
    assert samebits.causal(lambda x, mask: mask @ x, X, mask).ok
    first = (np.arange(6) < 1) * np.ones((2, 1), np.float32)
    assert samebits.padding(pooled, X, first).ok


def test_what_cannot_be_followed_is_undecided_by_name() -> None:
    def called_back(x: Array) -> Array:
        return jax.pure_callback(lambda y: y, jax.ShapeDtypeStruct(x.shape, x.dtype), x)

    result = samebits.causal(called_back, X, gradient=False)
    assert result.verdict == "undecided"
    assert "pure_callback" in result.readings[0].reason
    with pytest.raises(CouldNotRun, match="pure_callback"):
        result.raise_for_status()
    leaky = samebits.causal(lambda x: called_back(x)[:, ::-1], X, gradient=False)
    assert leaky.verdict == "refuted"


NO_FUNCTION: Any = X
WRONG: dict[str, tuple[Any, str]] = {
    "no such output": (
        lambda: samebits.independent(future, X, of="out[0][:, t]", on="x[:, t+1:]"),
        "of='out[0][:, t]': no array 'out[0]'; there are out",
    ),
    "no such input": (
        lambda: samebits.independent(future, X, of="out[:, t]", on="y[:, t+1:]"),
        "on='y[:, t+1:]': no array 'y'; there are x",
    ),
    "no index": (
        lambda: samebits.independent(future, X, of="out[:, t", on="x[:, t+1:]"),
        "of='out[:, t'; expected an array with an index, such as 'out[:, t]' or 'x[:, t+1:]'",
    ),
    "unknown name": (
        lambda: samebits.independent(future, X, of="out[:, t]", on="x[:, s]"),
        "'x[:, s]': 's' is not an index of `of`; the indices there are t",
    ),
    "no element": (
        lambda: samebits.independent(future, X, of="out[:, t]", on="x[:, t+9:]"),
        "on='x[:, t+9:]' names no element of x[2, 6, 4] for any index of 'out[:, t]'",
    ),
    "outside": (
        lambda: samebits.independent(future, X, of="out[:, 6]", on="x[:, 0]"),
        "'out[:, 6]': index 6 is outside of an axis of 6",
    ),
    "too many": (
        lambda: samebits.independent(future, X, of="out[0, 0, 0, 0]", on="x[:, 0]"),
        "'out[0, 0, 0, 0]' has 4 indices, and 'out' has 3 axes",
    ),
    "no axis": (lambda: samebits.causal(lambda x: x, X[0, 0]), "no output has an axis 1: out[4]"),
    "no axis of an input": (
        lambda: samebits.causal(lambda x, y: x + y, X, X[0, 0], on="y"),
        "y has the shape [4] and no",
    ),
    "no such places": (
        lambda: samebits.causal(lambda x: x.sum(1), X),
        "no array begins with the shape [2, 4]; name in on=",
    ),
    "other places": (
        lambda: samebits.packed(lambda x, segment_ids: x, X[:, :3], np.array([[0, 1]] * 2)),
        "no array begins with the shape [2, 2]; name in on= what must not be read: x, segment_ids",
    ),
    "no such argument": (lambda: samebits.causal(future, X, on="y"), "on names 'y'; the arrays are x"),
    "one segment": (
        lambda: samebits.packed(lambda x, segment_ids: x, X, np.ones((2, 6), int)),
        "segment_ids of shape [2, 6] holds no row of two segments",
    ),
    "nothing padded": (lambda: samebits.padding(pooled, X, MASK | True), "mask has no padded places"),
    "a window of none": (lambda: samebits.window(future, X, size=0), "size=0; expected a number of positions"),
    "no floats": (
        lambda: samebits.gradient_stops(lambda tokens: jnp.float32(tokens), TOKENS, param="tokens"),
        "param='tokens' holds no floats, which alone have gradients",
    ),
    "no array": (lambda: samebits.causal(future, 3), "no array among the arguments"),
    "no function": (lambda: samebits.causal(NO_FUNCTION, X), "the first argument is ndarray; expected a function"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_request_gets_one_line(name: str) -> None:
    call, expected = WRONG[name]
    with pytest.raises(RequestError) as error:
        call()
    assert expected in str(error.value)
    assert "\n" not in str(error.value)

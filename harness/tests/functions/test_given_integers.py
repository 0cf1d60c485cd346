"""Two functions called with integers and masks, which are examples of what may be given: others are tried."""

import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import samebits
from samebits.errors import RequestError
from samebits.functions.result import OtherInputsWarning
from samebits.schema.values import Integers
from tests.functions import specimens as f

Side = Callable[..., Any]
RNG = np.random.default_rng(0)


def floats(*shape: int) -> Any:
    return RNG.normal(size=shape).astype(np.float32)


def ids(*numbers: int) -> Any:
    return np.array(numbers, np.int32)


X, TABLE, ROWS = floats(8, 3), floats(10, 3), floats(8, 4)
Q, K, V = floats(2, 4, 3), floats(2, 4, 3), floats(2, 4, 3)


def masked(q: Any, k: Any, v: Any, mask: Any) -> Any:
    scores = jnp.where(mask, jnp.einsum("bqd,bkd->bqk", q, k), -1e30)
    return jnp.einsum("bqk,bkd->bqd", jax.nn.softmax(scores, -1), v)


def in_parts(q: Any, k: Any, v: Any, mask: Any) -> Any:
    scores = jnp.where(mask, jnp.einsum("bqd,bkd->bqk", q, k), -1e30)
    p = jnp.exp(scores - scores.max(-1, keepdims=True))
    return jnp.einsum("bqk,bkd->bqd", p, v) / p.sum(-1, keepdims=True)


def whole(q: Any, k: Any, v: Any, mask: Any) -> Any:
    return masked(q, k, v, True)


def causal(q: Any, k: Any, v: Any, mask: Any) -> Any:
    return masked(q, k, v, jnp.tril(jnp.ones((4, 4), bool)))


def segments(inner: Side) -> Side:
    def attention(q: Any, k: Any, v: Any, segment_ids: Any) -> Any:
        return inner(q, k, v, segment_ids[:, :, None] == segment_ids[:, None, :])

    return attention


def up_to(inner: Side) -> Side:
    def attention(q: Any, k: Any, v: Any, lengths: Any) -> Any:
        return inner(q, k, v, jnp.arange(4) < lengths[:, None, None])

    return attention


def loss(logits: Any, labels: Any) -> Any:
    keep = labels != -100
    picked = jnp.take_along_axis(jax.nn.log_softmax(logits), jnp.where(keep, labels, 0)[:, None], 1)[:, 0]
    return -(picked * keep).sum() / jnp.maximum(keep.sum(), 1)


def loss_of_all(logits: Any, labels: Any) -> Any:
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1, mode="clip").mean()


def rotated(x: Any, positions: Any) -> Any:
    angle = positions[:, None] / jnp.array([1.0, 100.0])
    cos, sin, (first, second) = jnp.cos(angle), jnp.sin(angle), jnp.split(x, 2, -1)
    return jnp.concatenate([first * cos - second * sin, first * sin + second * cos], -1)


def by_groups(x: Any, w: Any, sizes: Any) -> Any:
    group = jnp.searchsorted(jnp.cumsum(sizes), jnp.arange(8), side="right")
    return jnp.einsum("td,tdf->tf", x, w[group])


def by_equal_groups(x: Any, w: Any, sizes: Any) -> Any:
    return jnp.einsum("gtd,gdf->gtf", x.reshape(4, 2, 3), w).reshape(8, 2)


def by_experts(x: Any, w: Any, experts: Any, sizes: Any) -> Any:
    return jnp.einsum("td,tdf->tf", x, w[experts])


def by_sizes(x: Any, w: Any, experts: Any, sizes: Any) -> Any:
    return jax.lax.ragged_dot(x, w, sizes)


def within_capacity(x: Any, experts: Any) -> Any:
    chosen = jax.nn.one_hot(experts, 4)
    return jnp.where(((jnp.cumsum(chosen, 0) * chosen).sum(-1) <= 2)[:, None], 2 * x, 0)


ONES = np.ones((2, 4, 4), bool)
W = floats(4, 3, 2)

UNLIKE: dict[str, tuple[Side, Side, tuple[Any, ...], str]] = {
    "segment ids are ignored": (
        segments(masked),
        segments(whole),
        (Q, K, V, np.zeros((2, 4), np.int32)),
        "1 in the second half",
    ),
    "a mask is ignored": (masked, whole, (Q, K, V, ONES), "with both values in every row"),
    "a causal mask is ignored": (masked, causal, (Q, K, V, np.tril(ONES)), "with rows of other lengths"),
    "lengths are ignored": (up_to(masked), up_to(whole), (Q, K, V, ids(4, 4)), "of 1 to 4"),
    "no label is ignored": (loss, loss_of_all, (TABLE, ids(1, 2, 0, 1, 0, 2, 2, 1, 0, 1)), "-100 at the start"),
    "positions by arange": (
        rotated,
        lambda x, positions: rotated(x, jnp.arange(8)),
        (ROWS, np.arange(8, dtype=np.int32)),
        "in another order",
    ),
    "groups of one size": (by_groups, by_equal_groups, (X, W, ids(2, 2, 2, 2)), "drawn anew, with the sum that it has"),
    "an order that changes nothing": (
        lambda x, order: x[order],
        lambda x, order: x + 0,
        (X, np.arange(8, dtype=np.int32)),
        "in another order",
    ),
    "ids beyond a table": (
        lambda table, ids: jnp.take(table, ids, axis=0, mode="clip"),
        lambda table, ids: jax.nn.one_hot(ids, 10) @ table,
        (TABLE, ids(3, 1, 4, 1, 5)),
        "-1 at the start",
    ),
    "a pad id": (
        lambda table, ids: jnp.where((ids == 7)[:, None], 0, table[ids]),
        lambda table, ids: table[ids],
        (TABLE, ids(3, 1, 4, 1, 5)),
        "7 at the end",
    ),
    "a sum of all": (
        lambda x, keep: jnp.where(keep[:, None], x, 0).sum(0),
        lambda x, keep: x.sum(0),
        (X, np.ones(8, bool)),
        "with both values in every row",
    ),
}
"""What differs only at values beyond the given ones: a note, with the words of the first that shows it."""

LIKE: dict[str, tuple[Side, Side, tuple[Any, ...], str]] = {
    "segments of one length": (
        lambda x, n: jax.ops.segment_sum(x, n, 4),
        lambda x, n: x.reshape(4, 2, 3).sum(1),
        (X, ids(0, 0, 1, 1, 2, 2, 3, 3)),
        r"with other boundaries \(given: 0 to 3, sorted",
    ),
    "two segments in each row": (
        lambda x, n: jnp.where((n == 1)[..., None], x, 0),
        lambda x, n: jnp.where((jnp.arange(8) >= 4)[:, None], x, 0),
        (np.stack([X, 2 * X, 3 * X, 4 * X]), np.tile(np.repeat(np.array([0, 1], np.int32), 4), (4, 1))),
        r"with other boundaries \(given: 0 to 1, sorted",
    ),
    "an expert that overflows": (
        lambda x, experts: 2 * x,
        within_capacity,
        (X, ids(3, 0, 1, 2, 2, 0, 1, 3)),
        r"'experts' .*\(given: 0 to 3",
    ),
    "an id between others": (
        lambda table, n: jnp.where((n == 7)[:, None], 0, table[n]),
        lambda table, n: table[n],
        (TABLE, ids(3, 1, 4, 1, 9)),
        r"'n' .*\(given: 1 to 9\)",
    ),
    "an order that is its own inverse": (
        lambda x, order: x[order],
        lambda x, order: x[jnp.argsort(order)],
        (X, ids(1, 0, 3, 2, 5, 4, 7, 6)),
        r"in another order \(given: 0 to 7, a permutation",
    ),
    "a mask of rows": (
        lambda x, keep: jnp.where(keep, x, 0),
        lambda x, keep: jnp.where(keep[:1], x, 0),
        (ROWS[:4], np.tile([[True, False, True, False]], (4, 1))),
        r"in another order \(given: 2 of 4 in each row",
    ),
}
"""What differs at other values that have all that the given ones have."""

SAME: dict[str, tuple[Side, Side, tuple[Any, ...]]] = {
    "a mask that is used": (
        masked,
        in_parts,
        (Q, K, V, np.array([[1, 0, 1, 1], [0, 1, 1, 0], [1, 1, 0, 0], [0, 0, 1, 0]], bool)),
    ),
    "a mask of ones": (masked, in_parts, (Q, K, V, ONES)),
    "a causal mask": (masked, in_parts, (Q, K, V, np.tril(ONES))),
    "segments": (segments(masked), segments(in_parts), (Q, K, V, np.array([[1, 1, 2, 2], [1, 2, 2, 0]], np.int32))),
    "lengths": (up_to(masked), up_to(in_parts), (Q, K, V, ids(4, 2))),
    "positions": (
        rotated,
        lambda x, positions: rotated(x, positions.astype(jnp.float32)),
        (ROWS, np.arange(8, dtype=np.int32)),
    ),
    "two spellings of a gather": (lambda t, n: t[n], lambda t, n: t[n, :], (TABLE, ids(3, 1, 4, 1, 5))),
    "an inverse order": (
        lambda x, order: x[jnp.argsort(order)],
        lambda x, order: jnp.zeros_like(x).at[order].set(x),
        (X, ids(3, 1, 0, 7, 5, 2, 6, 4)),
    ),
    "sizes of groups": (by_groups, jax.lax.ragged_dot, (X, W, ids(1, 3, 2, 2))),
    "experts and their sizes": (by_experts, by_sizes, (X, W, ids(0, 1, 1, 1, 2, 2, 3, 3), ids(1, 3, 2, 2))),
    "runs by their boundaries": (
        lambda x, n: jnp.where((n[:, None] == n).sum(1)[:, None] > 1, x, 0),
        lambda x, n: jnp.where(((n == jnp.roll(n, 1)) | (n == jnp.roll(n, -1)))[:, None], x, 0),
        (X, ids(1, 1, 1, 2, 2, 0, 0, 0)),
    ),
    "labels": (loss, lambda logits, labels: loss(logits * 1.0, labels), (TABLE, ids(1, 2, 0, 1, 0, 2, 2, 1, 0, 1))),
}
"""What is the same at all values tried."""

FAST = ("segment ids are ignored", "a sum of all", "an order that changes nothing", "groups of one size")


def cases(table: dict[str, Any], fast: tuple[str, ...]) -> list[Any]:
    """The names of a table, all but a few of them slow."""
    return [name if name in fast else pytest.param(name, marks=pytest.mark.slow) for name in table]


@pytest.mark.parametrize("name", cases(UNLIKE, FAST))
def test_what_differs_beyond_given_integers_is_told(name: str) -> None:
    reference, variant, args, words = UNLIKE[name]
    for compare in (samebits.assert_same, samebits.check, samebits.prove):
        with pytest.warns(samebits.OtherInputsWarning, match=words) as seen:
            compared = compare(reference, variant, *args, accept="rounding")
        assert len(seen) == 1 and "exactly=" in str(seen[0].message)
        if compared is not None:
            told = {
                leaf.place.direction
                for leaf in compared.leaves
                for each in leaf.proof.assumptions
                if each.counterexample
            }
            assert compared.ok and told == {"forward", "gradient"}


@pytest.mark.parametrize("name", cases(LIKE, ("segments of one length", "two segments in each row", "a mask of rows")))
def test_what_differs_at_integers_like_the_given_fails(name: str) -> None:
    reference, variant, args, words = LIKE[name]
    for compare in (samebits.check, samebits.prove):
        compared = compare(reference, variant, *args)
        assert compared.verdict == "different" and len(compared.leaves) == 2
        for leaf in compared.leaves:
            assert leaf.ruling.verdict == "different" and leaf.named.lines
            assert leaf.comparison.witness or leaf.proof.refutation
        compared = compare(reference, variant, *args, exactly=(name_of(reference),), accept="rounding")
        assert compared.verdict != "different"
    with pytest.raises(AssertionError, match=words) as raised:
        samebits.assert_same(reference, variant, *args)
    assert "  witness   " in str(raised.value) and "  input     '" in str(raised.value)


def name_of(side: Side) -> str:
    """The name of the last argument."""
    return side.__code__.co_varnames[side.__code__.co_argcount - 1]


@pytest.mark.parametrize(
    "name", cases(SAME, ("a mask of ones", "two spellings of a gather", "experts and their sizes"))
)
def test_honest_functions_hold_without_a_word(name: str) -> None:
    reference, variant, args = SAME[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error", samebits.OtherInputsWarning)
        for compare in (samebits.check, samebits.prove):
            compared = compare(reference, variant, *args)
            assert compared.verdict != "different", str(compared)
            assert not any(each.counterexample for each in compared.assumptions), str(compared)


@pytest.mark.parametrize("name", cases({**UNLIKE, **LIKE}, ("a sum of all",)))
def test_on_a_mesh(name: str) -> None:
    reference, variant, args, _ = {**UNLIKE, **LIKE}[name]
    options: dict[str, Any] = {"mesh": "dp2", "accept": "rounding"}
    if name in LIKE:
        assert samebits.check(reference, variant, *args, **options).verdict == "different"
    else:
        with pytest.warns(samebits.OtherInputsWarning):
            samebits.assert_same(reference, variant, *args, **options)


def mean(x: Any, keep: Any) -> Any:
    return (x * keep[:, None]).sum(0) / keep.sum()


def mean_of_all(x: Any, keep: Any) -> Any:
    return x.mean(0)


def test_a_call_says_what_its_integers_are() -> None:
    keep = np.ones(8, bool)
    samebits.assert_same(mean, mean_of_all, X, keep, exactly=("keep",))
    samebits.assert_same(mean, mean_of_all, X, keep=keep, exactly=["keep"])
    drawn = samebits.check(mean, mean_of_all, X, keep, values={"keep": lambda rng, shape: rng.random(shape) > 0.5})
    assert drawn.verdict == "different"
    rows = {"n": ids(1, 1, 1)}
    first, second = lambda t, tree: t[tree["n"]], lambda t, tree: t[1] + 0 * t[tree["n"]]
    assert samebits.check(first, second, TABLE, rows, values={"tree['n']": Integers(high=10)}).verdict == "different"
    samebits.assert_same(first, second, TABLE, rows, exactly=("tree['n']",), accept="rounding")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"exactly": ("mask",)}, r"exactly= names 'mask'; the arrays are x, keep"),
        ({"exactly": "keep"}, r"exactly='keep'; expected names, as in exactly=\('ids',\)"),
        ({"values": {"mask": Integers(high=2)}}, r"values= names 'mask'; the arrays are x, keep"),
    ],
)
def test_wrong_options_are_named(options: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError, match=words):
        samebits.check(mean, mean_of_all, X, np.ones(8, bool), **options)


def test_an_argument_may_be_called_values() -> None:
    def weighted(x: Any, values: Any) -> Any:
        return x * values

    samebits.assert_same(weighted, lambda x, values: values * x, X, values=X)


def test_all_integers_of_a_declared_array_may_be_given() -> None:
    for exactly in (False, True):
        declared = samebits.like(np.ones(8, bool), exactly=exactly)
        pair = samebits.Pair(
            name="mean",
            reference=mean,
            variants={"of_all": mean_of_all},
            args={"x": samebits.Arg(shape=(8, 3)), "keep": declared},
            cases=(samebits.Case(id="ones"),),
            dtypes=("float32",),
            meshes=("none",),
            gradients=False,
        )
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always", samebits.OtherInputsWarning)
            assert samebits.check(pair).ok
        assert [exactly] == [not seen]


# --- two functions at inputs beyond those that are given or drawn ----------------------------------------------------


def test_a_threshold_that_the_arrays_do_not_reach_is_told() -> None:
    with pytest.warns(OtherInputsWarning, match="64 times as large"):
        compared = samebits.check(jax.nn.relu, jax.nn.relu6, f.rows(), gradients=False)
    assert compared.verdict == "bitwise" and compared.ok
    assert "not so at other inputs: out[" in str(compared) and "64 times as large" in str(compared)
    with pytest.warns(OtherInputsWarning) as warned:
        samebits.assert_same(jax.nn.relu, jax.nn.relu6, f.rows())
    (warning,) = warned
    assert warning.filename == __file__
    assert str(warning.message).startswith(
        "relu_relu6: forward of 'out' is the same at the inputs tried, but not at others: out["
    )
    assert str(warning.message).endswith(
        "64 times as large (and 1 more result). If such inputs can occur, pass some as arguments, or declare them by "
        "values=, and the comparison fails; otherwise name the integers and masks that are all there are in exactly=, "
        "or filter samebits.OtherInputsWarning"
    )
    with pytest.raises(AssertionError, match="with the inputs 64 times as large"):  # of arrays that are not given
        samebits.assert_same(jax.nn.relu, jax.nn.relu6, jax.ShapeDtypeStruct((4, 8), jnp.float32), gradients=False)


def test_arrays_that_are_drawn_are_stretched_beside_given_ones() -> None:
    def clipped(limit: float) -> Any:
        return lambda w, v, x: jnp.clip(x, -limit, limit) * w + v

    args = f.rows(), 2 * f.rows(), jax.ShapeDtypeStruct(f.rows().shape, jnp.float32)
    compared = samebits.check(clipped(20.0), clipped(40.0), *args, gradients=False)
    assert compared.verdict == "different"
    assert "with the inputs that are drawn 64 times as large" in compared.failure()


def tied(factor: float) -> Any:
    """Ones tie in a sort, so that no formula is known at them."""
    return lambda scale, x: x * jnp.sort(scale) * (1 + (factor - 1) * (scale - 1))


def test_a_variation_shows_other_formulas_where_arrays_tie() -> None:
    ones, x = np.ones(6, np.float32), np.arange(1, 7, dtype=np.float32)
    assert samebits.check(tied(2.0), tied(3.0), ones, x, gradients=False).verdict == "different"
    assert samebits.prove(tied(2.0), tied(3.0), ones, x, gradients=False).verdict == "different"
    assert samebits.prove(tied(2.0), tied(2.0), ones, x, gradients=False).verdict == "error"


def test_a_given_integer_warns_of_others() -> None:
    def every_tenth(x: Any, step: Any) -> Any:
        return jnp.where(step % 10 == 0, 2 * x, x)

    with pytest.warns(samebits.OtherInputsWarning, match="not at others: .*'step' = "):
        samebits.assert_same(every_tenth, lambda x, step: x, f.rows(), np.int32(3), gradients=False)
    samebits.assert_same(
        every_tenth, lambda x, step: every_tenth(x, step), f.rows(), np.int32(3), gradients=False
    )  # warnings are errors


def normed(x: Any) -> Any:
    return x / jnp.sqrt((x * x).sum(-1, keepdims=True))


def normed_unless_zero(x: Any) -> Any:
    norm = jnp.sqrt((x * x).sum(-1, keepdims=True))
    return x / jnp.where(norm > 0, norm, 1)


@pytest.mark.parametrize("drawn", [False, True])
def test_a_row_of_zeros_is_a_note_and_fails_where_it_is_passed(drawn: bool) -> None:
    x = jax.ShapeDtypeStruct((4, 8), jnp.float32) if drawn else f.rows()
    with pytest.warns(samebits.OtherInputsWarning, match=r"out\[0, 0\] is nan .*'x' zero in its first row"):
        samebits.assert_same(normed, normed_unless_zero, x, gradients=False)
    with pytest.raises(AssertionError, match="nan"):  # as the warning says
        samebits.assert_same(normed, normed_unless_zero, f.rows() * (jnp.arange(6) > 0)[:, None], gradients=False)


# --- indices and sizes as numbers of a narrow float: exact up to a size, which a proof for every size names ----------

SHORT = {"bfloat16": 256, "float16": 2048, "float8_e4m3fn": 16}


def places(x: Any, dtype: Any) -> Any:
    return jnp.arange(x.shape[0], dtype=dtype)


FAULTS: dict[str, tuple[Side, Side]] = {
    "positions": (
        lambda x, dtype: x + places(x, jnp.float32),
        lambda x, dtype: x + places(x, dtype).astype(jnp.float32),
    ),
    "cast positions": (
        lambda x, dtype: x + places(x, jnp.float32),
        lambda x, dtype: x + places(x, jnp.int32).astype(dtype).astype(jnp.float32),
    ),
    "rounded positions": (
        lambda x, dtype: x + places(x, jnp.float32),
        lambda x, dtype: x + places(x, jnp.float32).astype(dtype).astype(jnp.float32),
    ),
    "angles": (
        lambda x, dtype: x * jnp.cos(0.1 * places(x, jnp.float32)),
        lambda x, dtype: x * jnp.cos(0.1 * places(x, dtype).astype(jnp.float32)),
    ),
    "a slope": (
        lambda x, dtype: x - 0.5 * places(x, jnp.float32)[::-1],
        lambda x, dtype: x - 0.5 * places(x, dtype)[::-1].astype(jnp.float32),
    ),
    "weights of a sum": (
        lambda x, dtype: (x * places(x, jnp.float32)).sum(),
        lambda x, dtype: (x * places(x, dtype).astype(jnp.float32)).sum(),
    ),
    "a distance": (
        lambda x, dtype: jnp.abs(places(x, jnp.float32)[:, None] - places(x, jnp.float32)) * x,
        lambda x, dtype: jnp.abs((places(x, dtype)[:, None] - places(x, dtype)).astype(jnp.float32)) * x,
    ),
    "a number of rows": (
        lambda x, dtype: x - jnp.float32(1) * x.shape[0],
        lambda x, dtype: x - (jnp.zeros((), jnp.int32) + x.shape[0]).astype(dtype).astype(jnp.float32),
    ),
}
FAST_SIZES = ("positions", "cast positions", "weights of a sum")


def family(reference: Side, variant: Side, dtype: str) -> str:
    x = jax.ShapeDtypeStruct((8,), jnp.float32)
    short = jnp.dtype(dtype)
    sides = (lambda x: reference(x, short), lambda x: variant(x, short))
    compared = samebits.prove(*sides, x, sizes="all", gradients=False)
    assert compared.verdict == "rounding"
    return str(compared)


@pytest.mark.parametrize(
    "fault", [each if each in FAST_SIZES else pytest.param(each, marks=pytest.mark.slow) for each in FAULTS]
)
@pytest.mark.parametrize("dtype", ["bfloat16", *(pytest.param(d, marks=pytest.mark.slow) for d in list(SHORT)[1:])])
def test_a_narrow_float_is_exact_up_to_a_size(fault: str, dtype: str) -> None:
    said = f"no index or size that becomes a {dtype} is above {SHORT[dtype]}"
    assert said in family(*FAULTS[fault], dtype)


def test_what_is_not_narrow_is_not_bounded() -> None:
    said = family(lambda x, dtype: x + places(x, jnp.float32), lambda x, dtype: places(x, jnp.int32) + x, "bfloat16")
    assert "no index or size" not in said

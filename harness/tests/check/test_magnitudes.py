"""Sides that are the same at the numbers drawn, and apart at other magnitudes or at special values."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import samebits
from samebits import Arg, Case, Contract, Pair
from samebits.schema.finding import Finding
from tests.support.toys import run

pytestmark = pytest.mark.filterwarnings("ignore::samebits.OtherInputsWarning")

X = np.random.default_rng(0).standard_normal((8, 16)).astype(np.float32)
Y = np.random.default_rng(1).standard_normal((8, 16)).astype(np.float32)


def _softmax(x: Any) -> Any:
    return jax.nn.softmax(x, -1)


def _softmax_naive(x: Any) -> Any:
    e = jnp.exp(x)
    return e / e.sum(-1, keepdims=True)


def _softmax_by_logsumexp(x: Any) -> Any:
    return jnp.exp(x - jax.nn.logsumexp(x, -1, keepdims=True))


def _lse(x: Any) -> Any:
    return jax.nn.logsumexp(x, -1)


def _lse_naive(x: Any) -> Any:
    return jnp.log(jnp.exp(x).sum(-1))


def _softplus(x: Any) -> Any:
    return jax.nn.softplus(x)


def _softplus_naive(x: Any) -> Any:
    return jnp.log(1 + jnp.exp(x))


def _softplus_stable(x: Any) -> Any:
    return jnp.maximum(x, 0) + jnp.log1p(jnp.exp(-jnp.abs(x)))


def _log_sigmoid(x: Any) -> Any:
    return jax.nn.log_sigmoid(x)


def _log_sigmoid_naive(x: Any) -> Any:
    return jnp.log(1 / (1 + jnp.exp(-x)))


def _log_cosh(x: Any) -> Any:
    return jnp.logaddexp(x, -x) - np.float32(np.log(2))


def _log_cosh_naive(x: Any) -> Any:
    return jnp.log(jnp.cosh(x))


def _sinh(x: Any) -> Any:
    return jnp.sinh(x)


def _sinh_by_exps(x: Any) -> Any:
    return (jnp.exp(x) - jnp.exp(-x)) / 2


def _distances(x: Any, y: Any) -> Any:
    return ((x[:, None] - y[None]) ** 2).sum(-1)


def _distances_by_products(x: Any, y: Any) -> Any:
    return (x * x).sum(-1)[:, None] + (y * y).sum(-1)[None] - 2 * x @ y.T


def _variance(x: Any) -> Any:
    return x.var(-1)


def _variance_in_two_passes(x: Any) -> Any:
    return ((x - x.mean(-1, keepdims=True)) ** 2).mean(-1)


def _variance_by_squares(x: Any) -> Any:
    return (x * x).mean(-1) - x.mean(-1) ** 2


def _rms_in_float32(x: Any) -> Any:
    y = x.astype(jnp.float32)
    return (y * jax.lax.rsqrt((y * y).mean(-1, keepdims=True) + 1e-3)).astype(x.dtype)


def _rms(x: Any) -> Any:
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + np.asarray(1e-3, x.dtype))


def _rms_by_einsum(x: Any) -> Any:
    squares = jnp.einsum("...i,...i->...", x, x)[..., None] / x.shape[-1]
    return x * jax.lax.rsqrt(squares + np.asarray(1e-3, x.dtype))


def _masked(scores: Any, value: float) -> Any:
    return jax.nn.softmax(jnp.where(jnp.tril(jnp.ones(scores.shape, bool)), scores, value))


def _masked_fully(x: Any) -> Any:
    return _masked(x, -np.inf)


def _masked_by_a_number(x: Any) -> Any:
    return _masked(x, -1e4)


def _twice(x: Any) -> Any:
    return 2 * x


def _twice_of_numbers(x: Any) -> Any:
    return 2 * jnp.nan_to_num(x)


def _relu(x: Any) -> Any:
    return jnp.maximum(x, 0)


def _relu_by_where(x: Any) -> Any:
    return jnp.where(x > 0, x, 0)


def _step(x: Any, y: Any) -> Any:
    return jnp.where(jnp.isfinite(y).all(), x - y, x)


def _step_always(x: Any, y: Any) -> Any:
    return x - y


def _step_unless_nan(x: Any, y: Any) -> Any:
    return jnp.where(jnp.isnan(y).any(), x, x - y)


def _step_unless_high(x: Any, y: Any) -> Any:
    return jnp.where(y.max() < jnp.inf, x - y, x)


def _inverse(x: Any) -> Any:
    return jnp.where(x == 0, jnp.inf, 1 / x)


def _inverse_of_zero(x: Any) -> Any:
    return 1 / x


def _inverse_of_normal(x: Any) -> Any:
    bits = jax.lax.bitcast_convert_type(x, jnp.int32) & 0x7FFFFFFF
    return jnp.where(bits == 0, jnp.inf, jnp.where(bits < 2**23, 0, 1 / x))


def _inverse_of_any(x: Any) -> Any:
    bits = jax.lax.bitcast_convert_type(x, jnp.int32) & 0x7FFFFFFF
    return jnp.where(bits == 0, jnp.inf, 1 / x)


def _other(x: Any, y: Any) -> Any:
    return y + 0 * x


def _other_as_difference(x: Any, y: Any) -> Any:
    return (x + y) - x


def _quantized(x: Any) -> Any:
    return jnp.clip(jnp.round(16 * x), -127, 127).astype(jnp.int8)


def _quantized_without_clip(x: Any) -> Any:
    return jnp.round(16 * x).astype(jnp.int32).astype(jnp.int8)


def _narrowed(x: Any) -> Any:
    return jnp.clip(x, -448, 448).astype(jnp.float8_e4m3fn).astype(x.dtype)


def _narrowed_without_clip(x: Any) -> Any:
    return x.astype(jnp.float8_e4m3fn).astype(x.dtype)


def _halved(x: Any) -> Any:
    return jnp.clip(x, -65504, 65504).astype(jnp.float16)


def _halved_without_clip(x: Any) -> Any:
    return x.astype(jnp.float16)


def _causal(x: Any) -> Any:
    return jnp.where(jnp.arange(x.shape[-1]) < 8, x, 0)


def _causal_by_product(x: Any) -> Any:
    return x * (jnp.arange(x.shape[-1]) < 8)


def _notes(reference: Callable[..., Any], variant: Callable[..., Any], *args: Any, **more: Any) -> dict[str, str]:
    """What is seen at other inputs, by leaf; of leaves that hold."""
    results = samebits.check(reference, variant, *args, **more).leaves
    noted: dict[str, str] = {}
    for result in results:
        assert isinstance(result, Finding) and result.ruling.ok, str(result)
        texts = [each.counterexample for each in result.proof.assumptions if each.counterexample is not None]
        noted |= {result.place.leaf: texts[-1]} if texts else {}
    return noted


slow = pytest.mark.slow
OVERFLOWS = [
    pytest.param(_softmax, _softmax_naive, X, 88, id="softmax"),
    pytest.param(_lse, _lse_naive, X, 88, id="logsumexp", marks=slow),
    pytest.param(_softplus, _softplus_naive, X, 88, id="softplus", marks=slow),
    pytest.param(_log_sigmoid, _log_sigmoid_naive, X, 87, id="log_sigmoid", marks=slow),
    pytest.param(_log_cosh, _log_cosh_naive, X, 89, id="log_cosh", marks=slow),
    pytest.param(_narrowed, _narrowed_without_clip, X, 464, id="float8", marks=slow),
    pytest.param(_halved, _halved_without_clip, X, 65520, id="float16"),
]


@pytest.mark.parametrize(("reference", "variant", "x", "least"), OVERFLOWS)
def test_an_overflow_on_one_side_and_from_where_on(reference: Any, variant: Any, x: Any, least: float) -> None:
    noted = _notes(reference, variant, x, gradients=False)
    name, other = (side.__name__.strip("_") for side in (variant, reference))
    assert noted["out"].startswith(f"'{name}' overflows from |x| = ")
    assert f"; '{other}' does not: out" in noted["out"]
    size = float(noted["out"].partition("|x| = ")[2].partition(";")[0])
    assert least <= size <= least * (1.25 if reference is _lse else 1.04)  # of a sum, the largest of any sign


def _scores(x: Any, y: Any) -> Any:
    return (x * jnp.float16(0.25)) @ y.T


def _scores_scaled_late(x: Any, y: Any) -> Any:
    return (x @ y.T) * jnp.float16(0.25)


def test_an_overflow_at_half_the_size_counts_in_float16() -> None:
    args = X.astype(np.float16), Y.astype(np.float16)
    assert "'scores_scaled_late' overflows from" in _notes(_scores, _scores_scaled_late, *args, gradients=False)["out"]
    args = X.astype("bfloat16"), Y.astype("bfloat16")  # a range that is not met
    assert _notes(_scores, _scores_scaled_late, *args, gradients=False) == {}


PROVED = [
    pytest.param(_softmax, _softmax_naive, "'softmax_naive' overflows from |x| = 8", id="softmax"),
    pytest.param(_halved, _halved_without_clip, "'halved_without_clip' overflows from |x| = 6", id="float16"),
    pytest.param(_relu, _relu_by_where, "with one NaN in 'x', out[4, 0] is nan", id="relu"),
    pytest.param(_variance, _variance_in_two_passes, None, id="honest variance"),
    pytest.param(_rms, _rms_by_einsum, None, id="honest norm", marks=slow),
    pytest.param(_twice, _twice_of_numbers, "with one NaN in 'x', out[4, 0] is nan", id="nan_to_num", marks=slow),
]


@pytest.mark.parametrize(("reference", "variant", "words"), PROVED)
def test_a_proof_sees_other_magnitudes_too(reference: Any, variant: Any, words: str | None) -> None:
    proof = samebits.prove(reference, variant, X / 4, gradients=False)
    assert proof.ok, str(proof)
    noted = [str(each.counterexample) for each in proof.leaves[0].proof.assumptions if each.counterexample is not None]
    assert any(text.startswith(words) for text in noted) if words else not noted, noted


@pytest.mark.slow
@pytest.mark.parametrize(("reference", "variant"), [(_softmax, _softmax_naive), (_softplus, _softplus_naive)])
def test_gradients_overflow_too(reference: Any, variant: Any) -> None:
    assert "overflows from |x| = " in _notes(reference, variant, X)["x"]


LOSSES = [
    pytest.param(_sinh, _sinh_by_exps, (X,), "times smaller", id="sinh"),
    pytest.param(_distances, _distances_by_products, (X, Y), "added to 'x', 'y'", id="distances", marks=slow),
    pytest.param(_variance, _variance_by_squares, (X,), "added to 'x'", id="variance"),
]


@pytest.mark.parametrize(("reference", "variant", "args", "words"), LOSSES)
def test_accuracy_lost_at_other_magnitudes(reference: Any, variant: Any, args: Any, words: str) -> None:
    noted = _notes(reference, variant, *args, gradients=False)
    assert words in noted["out"] and f"'{variant.__name__.strip('_')}' loses accuracy: out" in noted["out"]


OTHERS = [
    pytest.param(_rms_in_float32, _rms, (X.astype(np.float16),), "overflows float16", id="norm in float16"),
    pytest.param(_masked_fully, _masked_by_a_number, (X[:, :8],), "times as large, out", id="mask", marks=slow),
    pytest.param(_twice, _twice_of_numbers, (X,), "with one NaN in 'x', out[4, 0] is nan", id="nan_to_num", marks=slow),
    pytest.param(_relu, _relu_by_where, (X,), "with one NaN in 'x', out[4, 0] is nan", id="relu"),
    pytest.param(_step, _step_always, (X, Y), "with one NaN in 'y', out[4, 0] is ", id="step", marks=slow),
    pytest.param(_step, _step_unless_nan, (X, Y), "with one infinity in 'y'", id="infinity", marks=slow),
    pytest.param(_step, _step_unless_high, (X, Y), "one negative infinity at the end in 'y'", id="-inf", marks=slow),
    pytest.param(_inverse, _inverse_of_zero, (X,), "with one -0.0 at the end in 'x'", id="-0.0"),
    pytest.param(
        _inverse_of_normal, _inverse_of_any, (X,), "with a subnormal number in 'x'", id="subnormal", marks=slow
    ),
    pytest.param(_other, _other_as_difference, (X, Y), "with 'y' 16384 times smaller", id="one alone", marks=slow),
    pytest.param(_quantized, _quantized_without_clip, (X,), "times as large, out", id="integers", marks=slow),
    pytest.param(_causal, _causal_by_product, (X,), "one NaN at the end in 'x'", id="padding", marks=slow),
]


OTHERS += [
    pytest.param(_variance, _variance_in_two_passes, (X.astype(np.float16),), "overflows from |x|", id="f16 variance"),
    pytest.param(_rms, _rms_by_einsum, (X.astype(np.float16),), "overflows float16", id="f16 sum of squares"),
]


@pytest.mark.parametrize(("reference", "variant", "args", "words"), OTHERS)
def test_other_effects_of_magnitudes_and_special_values(reference: Any, variant: Any, args: Any, words: str) -> None:
    assert words in _notes(reference, variant, *args, gradients=False)["out"]


HONEST: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[Any, ...]]] = {
    "softmax": (_softmax, _softmax_by_logsumexp, (X,)),
    "softplus": (_softplus, _softplus_stable, (X,)),
    "variance": (_variance, _variance_in_two_passes, (X,)),
    "norm": (_rms, _rms_by_einsum, (X / 4,)),
    "logsumexp": (_lse, lambda x: _lse(x[:, ::-1]), (X,)),
    "distances": (_distances, lambda x, y: _distances(y, x).T, (X, Y)),
    "later": (lambda x: x * x / 64, lambda x: (x / 8) ** 2, (X,)),
    "products": (lambda x, y: 3 * (x @ y.T), lambda x, y: (3 * x) @ y.T, (X, Y)),
}
BOTH = ("softmax", "softplus", "logsumexp", "distances", "products")  # the others overflow in float16 on one side


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        *(
            pytest.param(name, "float32", marks=[] if name in ("softmax", "softplus", "later") else slow)
            for name in HONEST
        ),
        *(pytest.param(name, "float16", marks=slow) for name in BOTH),
    ],
)
def test_honest_rewrites_get_no_note(name: str, dtype: str) -> None:
    reference, variant, args = HONEST[name]
    results = samebits.check(reference, variant, *(each.astype(dtype) for each in args), gradients=False).leaves
    assert not any(each.counterexample for result in results for each in result.proof.assumptions)


def test_a_warning_is_seen_when_it_is_green() -> None:
    with pytest.warns(samebits.OtherInputsWarning, match=r"'softmax_naive' overflows from \|x\| = 8"):
        samebits.assert_same(_softmax, _softmax_naive, X, gradients=False)


def _declared(values: Any, variant: Any, **more: Any) -> list[Finding]:
    pair = samebits.Pair(
        name="ranges",
        reference=_softplus,
        variants={"naive": variant},
        args={"x": samebits.Arg(shape=(8, 16), spec=("data",), values=values)},
        cases=(samebits.Case(id="small"), samebits.Case(id="other")),
        dtypes=("float32",),
        meshes=("none", "data2"),
        modes=("auto",),
        gradients=False,
    )
    return [result for result in run(pair, **more) if result.place.variant == "naive"]


def _saturating(x: Any) -> Any:
    """Wrong at small numbers only: what is near zero, where no number of a wide range is drawn."""
    return jnp.where(jnp.abs(x) < 1e-3, jnp.exp(x) - 0.5, _softplus(x))


def test_within_a_stated_range_it_is_different() -> None:
    wide = _declared(samebits.Uniform(low=-80, high=80), _saturating)
    assert {
        result.ruling.verdict for result in wide if result.place.mesh == "none" and result.place.case == "small"
    } == {"different"}
    stated = _declared(samebits.Uniform(low=-80, high=80), _softplus_naive)
    assert all("overflows" not in str(result.ruling.evidence) for result in stated)
    noted = [
        result for result in _declared(samebits.Normal(), _softplus_naive) if "overflows" in str(result.ruling.evidence)
    ]
    assert [(result.place.case, result.place.mesh, result.ruling.ok) for result in noted] == [("small", "none", True)]
    (result,) = noted
    assert len(result.accuracy.magnitudes) > 5 and result.accuracy.magnitudes[0].optimized is not None
    assert result.accuracy.magnitudes[-1].optimized is None and result.accuracy.magnitudes[-1].reference == 0


def _total_twice_of_small(x: Any) -> Any:
    total = jnp.exp(x).sum()
    return jnp.where(jnp.abs(x).max() < 1e-3, 2 * total, total)


def test_equal_bits_on_a_mesh_that_moves_them_hide_nothing() -> None:
    pair = samebits.Pair(
        name="totals",
        reference=lambda x: jnp.exp(x).sum(),
        variants={"small": _total_twice_of_small},
        args={"x": samebits.Arg(shape=(64, 16), spec=("data",), values=samebits.Uniform(low=-8, high=8))},
        cases=(samebits.Case(id="small"),),
        dtypes=("float32",),
        meshes=("data8",),
        modes=("auto",),
        gradients=False,
    )
    (result,) = [result for result in run(pair) if result.place.variant == "small"]
    assert result.ruling.verdict == "different" and "against the reference on this mesh" in str(result.ruling.evidence)


@pytest.mark.parametrize("domain", [None, samebits.Domain(no_nan=("x",))])
def test_a_special_value_that_the_contract_leaves_out(domain: samebits.Domain | None) -> None:
    contract = samebits.Contract(lowest="bitwise", domain=domain, reason="it selects")
    pair = samebits.Pair(
        name="selected",
        reference=_relu,
        variants={"where": _relu_by_where},
        args={"x": samebits.Arg(shape=(8, 16))},
        cases=(samebits.Case(id="small"),),
        dtypes=("float32",),
        meshes=("none",),
        modes=("auto",),
        contracts=(contract,),
        gradients=False,
    )
    noted = [result for result in run(pair) if "one NaN" in str(result.ruling.evidence)]
    assert bool(noted) is (domain is None)


# --- A contract is offered to be tightened where nothing speaks against it: neither ties nor branches of other values -

Sides = tuple[Callable[[Any], Any], Callable[[Any], Any]]
ROWS = slice(None, None, -1)
SLOW = pytest.mark.slow


def _last(x: Any) -> Any:
    """`argmax`, of equal numbers the last."""
    return x.shape[-1] - 1 - jnp.argmax(x[:, ROWS], -1)


AT_TIES: dict[str, Sides] = {
    "argmax": (lambda x: jnp.argmax(x, -1) * 1.0, lambda x: _last(x) * 1.0),
    "top_k": (lambda x: jax.lax.top_k(x, 2)[1] * 1.0, lambda x: jnp.argsort(x, -1, stable=True)[:, ROWS][:, :2] * 1.0),
    "sort": (
        lambda x: jnp.argsort(x, -1, stable=True) * 1.0,
        lambda x: jnp.argsort(x[:, ROWS], -1, stable=True) * -1.0 + x.shape[-1] - 1,
    ),
    "one hot": (
        lambda x: jax.nn.one_hot(jnp.argmax(x, -1), x.shape[-1]),
        lambda x: (x == x.max(-1, keepdims=True)) * 1.0,
    ),
    "argmin": (lambda x: jnp.argmin(x, -1) * 1.0, lambda x: x.shape[-1] - 1.0 - jnp.argmin(x[:, ROWS], -1)),
    "a threshold": (lambda x: jnp.where(x > 0.5, 1.0, 0.0), lambda x: jnp.where(x >= 0.5, 1.0, 0.0)),
    "a relu": (lambda x: jnp.maximum(x, 0), lambda x: jnp.where(x > 0, x, 0)),
    "a clip": (lambda x: jnp.clip(x, -9, 9), lambda x: jnp.maximum(jnp.minimum(x, 9), -8)),
}
EXACT: dict[str, Sides] = {
    "a sign": (lambda x: -x, lambda x: x * -1),
    "twice": (lambda x: x + x, lambda x: 2 * x),
    "a square": (lambda x: x * x, lambda x: -x * -x),
}


def _offers(sides: Sides) -> list[str]:
    pair = Pair(
        name="offered",
        reference=sides[0],
        variants={"variant": sides[1]},
        args={"x": Arg(shape=(4, 8))},
        cases=(Case(id="case"),),
        dtypes=("float32",),
        gradients=False,
        contracts=(Contract(lowest="rounding", reason="the sums in it are added in another order"),),
    )
    return [note for note in samebits.check(pair).notes if "tightened" in note]


@pytest.mark.parametrize("name", ["argmax", *(pytest.param(n, marks=SLOW) for n in list(AT_TIES)[1:])])
def test_nothing_is_offered_that_other_values_break(name: str) -> None:
    assert _offers(AT_TIES[name]) == []


@pytest.mark.parametrize("name", ["a sign", *(pytest.param(n, marks=SLOW) for n in list(EXACT)[1:])])
def test_what_is_exact_is_offered(name: str) -> None:
    assert len(_offers(EXACT[name])) == 1

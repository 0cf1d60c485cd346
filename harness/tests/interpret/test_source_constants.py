"""Constants that are roundings of one formula are reported with both values and lines; unrelated ones are not."""

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from samebits.interpret import source_constants
from samebits.interpret.field_proof import result
from samebits.interpret.field_proof.proof import FieldIdentity, identity
from samebits.interpret.source_constants import SourceConstant, is_rounding, roundings
from tests.interpret.executed import asked

Array = Any
Function = Callable[[Array], Array]
B, H, F = ml_dtypes.bfloat16, np.float16, np.float32

X = np.random.default_rng(3).uniform(0.3, 2, (4, 8)).astype(np.float32)
THETA = 7000.0


def within(dtype: Any, function: Function) -> Function:
    """A function computed in another dtype."""
    return lambda x: function(x.astype(dtype)).astype(x.dtype)


def norm(epsilon: Any) -> Function:
    return lambda x: x / jnp.sqrt((x * x).mean(-1, keepdims=True) + epsilon)


def gelu(scale: float = math.sqrt(2 / math.pi), cubic: float = 0.044715) -> Function:
    return lambda x: 0.5 * x * (1 + jnp.tanh(scale * (x + cubic * x**3)))


def gelu_multiplied_out(scale: float = math.sqrt(2 / math.pi), cubic: float = 0.044715) -> Function:
    return lambda x: 0.5 * x * (1 + jnp.tanh(x * (scale + scale * cubic * x * x)))


def gelu_erf(root: Any) -> Function:
    return lambda x: x * 0.5 * (1 + jax.lax.erf(x * root))


def table(dtype: Any, scale: float = 1.0) -> Callable[[], Array]:
    """Frequencies computed in NumPy, which then are literals."""
    found = (scale / THETA ** (np.arange(0, 8, 2, dtype=dtype) / dtype(8))).astype(np.float32)
    return lambda: found


def computed(theta: float = THETA, width: Any = 8, dtype: Any = F) -> Callable[[], Array]:
    """The same, computed by the program."""
    return lambda: 1.0 / jnp.asarray(theta, dtype) ** (jnp.arange(0, 8, 2, dtype=dtype) / width)


def by_logarithm() -> Array:
    return jnp.exp(-jnp.log(F(THETA)) * jnp.arange(0, 8, 2, dtype=jnp.float32) / 8)


def rope(frequencies: Callable[[], Array], offset: int = 0) -> Function:
    def function(x: Array) -> Array:
        angles = (jnp.arange(4, dtype=jnp.float32)[:, None] + offset) * frequencies()
        first, second = x[:, :4], x[:, 4:]
        sin, cos = jnp.sin(angles), jnp.cos(angles)
        return jnp.concatenate([first * cos - second * sin, second * cos + first * sin], -1)

    return function


def rope_of_tables(x: Array) -> Array:
    angles = np.arange(4)[:, None] * np.tile(table(np.float64)(), 2)
    turned = jnp.concatenate([-x[:, 4:], x[:, :4]], -1)
    return x * np.cos(angles).astype(np.float32) + turned * np.sin(angles).astype(np.float32)


def rope_of_jax_tables(x: Array) -> Array:
    """Frequencies of 1, 0.1, 0.01 and 0.001; cosines and sines computed before the trace."""
    with jax.ensure_compile_time_eval():
        angles = jnp.arange(4, dtype=jnp.float32)[:, None] * computed(10000.0)()
        sin, cos = np.asarray(jnp.sin(angles)), np.asarray(jnp.cos(angles))
    first, second = x[:, :4], x[:, 4:]
    return jnp.concatenate([first * cos - second * sin, second * cos + first * sin], -1)


def selu(scale: float = 1.0507009873554805, alpha: float = 1.6732632423543772) -> Function:
    return lambda x: scale * jnp.where(x > 1, x, alpha * (jnp.exp(x) - 1))


def selu_multiplied_out(scale: float = 1.0507009873554805, both: float = 1.7580993408473766) -> Function:
    return lambda x: jnp.where(x > 1, scale * x, both * (jnp.exp(x) - 1))


def softmax(exp: Function) -> Function:
    def function(x: Array) -> Array:
        powers = exp(x - x.max(-1, keepdims=True))
        return powers / powers.sum(-1, keepdims=True)

    return function


ROUNDED: dict[str, tuple[Function, Function, str]] = {
    "pi in bfloat16": (
        lambda x: x * math.pi,
        within(B, lambda x: x * math.pi),
        "3.140625 .bfloat16.* 3.1415927 .float32",
    ),
    "pi in bfloat16, widened": (lambda x: x * math.pi, lambda x: x * F(B(math.pi)), "3.140625 .float32.* 3.1415927"),
    "pi in float16": (lambda x: x * math.pi, within(H, lambda x: x * math.pi), "3.140625 .float16.* 3.1415927"),
    "2/3": (lambda x: x * (2 / 3), within(B, lambda x: x * (2 / 3)), "0.66796875 .bfloat16.* 0.6666667"),
    "an epsilon": (norm(1e-6), within(B, norm(B(1e-6))), "9.98377799987793e-07 .bfloat16.* 1e-06"),
    "GELU in bfloat16": (gelu(), within(B, gelu()), "0.044677734375 .bfloat16.* 0.044715.*0.796875.* 0.7978846"),
    "GELU multiplied out": (gelu(), gelu_multiplied_out(), r"0.035677407.*0.0447\d* \* 0.7978"),
    "GELU multiplied out in float16": (gelu(), within(H, gelu_multiplied_out()), r"0.035675.*0.0447\d* \* 0.7978"),
    "1/sqrt(2) in bfloat16": (lambda x: gelu_erf(1 / np.sqrt(F(2)))(x), within(B, gelu_erf(0.5**0.5)), "0.70703125"),
    "a root in NumPy": (lambda x: x * np.sqrt(F(2 / np.pi)), lambda x: x * F(np.sqrt(2 / np.pi)), "0.797884"),
    "a root in the program": (lambda x: x * jnp.sqrt(2 / F(np.pi)), lambda x: x * F(np.sqrt(2 / np.pi)), "0.797884"),
    "a root in bfloat16": (
        within(B, lambda x: x * jnp.sqrt(2 / B(np.pi))),
        lambda x: x * F(np.sqrt(2 / np.pi)),
        "0.79",
    ),
    "1/sqrt(2) and a root in bfloat16": (
        within(B, gelu_erf(0.5**0.5)),
        within(B, lambda x: x * 0.5 * (1 + jax.lax.erf(x / jnp.sqrt(jnp.asarray(2, B))))),
        r"0.70703125 .bfloat16.* 1.4142135623730951",
    ),
    "a root in bfloat16 and 1/sqrt(2)": (
        within(B, lambda x: x * 0.5 * (1 + jax.lax.erf(x / jnp.sqrt(2.0)))),
        within(B, gelu_erf(0.5**0.5)),
        r"0.70703125 .bfloat16.* 1.4142135623730951",
    ),
    "SELU multiplied out in bfloat16": (within(B, selu()), within(B, selu_multiplied_out()), r"1.7578125.*1.671875"),
    "one less a tenth in bfloat16": (
        within(B, lambda x: x + 0.1 * (x[::-1] - x)),
        within(B, lambda x: 0.9 * x + 0.1 * x[::-1]),
        "0.8984375 .bfloat16. at .* for 1 - 0.1",
    ),
    "a table of exact frequencies": (rope_of_jax_tables, rope(computed(10000.0)), "float32"),
    "a power of two": (
        softmax(jnp.exp),
        softmax(lambda x: jnp.exp2(x * F(math.log2(math.e)))),
        "1.442695.* 1.0 / 0.69",
    ),
    "frequencies of float32": (rope(computed()), rope(table(np.float32)), "0.10932"),
    "frequencies of float64": (rope(computed()), rope(table(np.float64)), "0.10932"),
    "frequencies far out": (rope(computed(), 5000), rope(table(np.float32), 5000), "0.10932"),
    "frequencies by a logarithm": (rope(computed()), rope(by_logarithm), "computed in another order"),
    "frequencies from theta in bfloat16": (rope(computed()), rope(computed(dtype=B)), "7008.0 .bfloat16.* 7000.0"),
    "tables of sines": (rope(computed()), rope_of_tables, "float32"),
}
"""By name: reference, variant, and what is said of the constants."""

OTHER: dict[str, tuple[Function, Function, str]] = {
    "an epsilon of 1e-5": (norm(1e-6), norm(1e-5), "1e-06 .float32. at .* where this has 1e-05 .float32. at"),
    "an epsilon of 1e-5 in bfloat16": (norm(1e-6), within(B, norm(1e-5)), "1e-06.* where this has 1.00135\\d*e-05"),
    "no epsilon": (norm(1e-6), norm(0.0), "1e-06 .* where this has 0.0"),
    "0.0447 for 0.044715": (gelu(), gelu(cubic=0.0447), "0.044715 .* where this has 0.0447 "),
    "0.045 in bfloat16": (gelu(), within(B, gelu(cubic=0.045)), "0.044715 .* where this has 0.044921875 .bfloat16"),
    "0.8 for sqrt(2/pi)": (gelu(), gelu(scale=0.8), "0.7978846 .* where this has 0.8 "),
    "0.5 for 0.5001": (lambda x: x * 0.5001, lambda x: x * 0.5, "0.5001 .* where this has 0.5 "),
    "3/4 for 0.7501": (lambda x: x * 0.7501, lambda x: x * 0.75, "0.7501 .* where this has 0.75 "),
    "one ulp": (norm(1e-6), norm(np.nextafter(F(1e-6), F(1))), "1e-06"),
    "four digits of 1/sqrt(2)": (gelu_erf(F(0.5**0.5)), gelu_erf(F(0.7071)), "0.70710677 .* where this has 0.7071 "),
    "two constants exchanged": (lambda x: x * 0.3 + x[::-1] * 0.7, lambda x: x * 0.7 + x[::-1] * 0.3, "out"),
    "another place of epsilon": (norm(1e-6), lambda x: x / (jnp.sqrt((x * x).mean(-1, keepdims=True)) + 1e-6), "out"),
    "another theta": (rope(computed()), rope(computed(20000.0)), "7000.0 .* where this has 20000.0"),
    "another width": (rope(computed()), rope(computed(width=16)), "8.0 .* where this has 16.0"),
    "a table off by a thousandth": (rope(computed()), rope(table(np.float32, 1.001)), "out"),
    "a table in reverse": (rope(computed()), rope(lambda: table(np.float32)()[::-1].copy()), "out"),
    "a row further": (rope(computed(), 5000), rope(computed(), 5001), "5000.0 .* where this has 5001.0"),
    "0.7 for a root of 2 in bfloat16": (
        within(B, lambda x: jax.lax.erf(x / jnp.sqrt(2.0))),
        within(B, lambda x: jax.lax.erf(x * 0.7)),
        "0.69921875 .bfloat16",
    ),
    "0.71 for 1/sqrt(2) in bfloat16": (
        within(B, lambda x: jax.lax.erf(x / math.sqrt(2))),
        within(B, lambda x: jax.lax.erf(x * 0.71)),
        "0.7109375 .bfloat16",
    ),
    "an epsilon of 1e-5, both in bfloat16": (within(B, norm(1e-6)), within(B, norm(1e-5)), "9.98.*e-07.* 1.00135"),
    "SELU of 1.78 in bfloat16": (within(B, selu()), within(B, selu_multiplied_out(both=1.78)), "1.78125 .bfloat16"),
    "a ninth less in bfloat16": (
        within(B, lambda x: x + 0.1 * (x[::-1] - x)),
        within(B, lambda x: 0.89 * x + 0.1 * x[::-1]),
        "0.890625 .bfloat16",
    ),
    "a table of another theta": (rope_of_jax_tables, rope(computed(10001.0)), "out"),
    "log2(e) of five digits": (jnp.exp, lambda x: jnp.exp2(x * 1.4427), "1.4427"),
}
"""By name: reference, variant, and what the message names."""


def said(reference: Function, variant: Function, *, gradient: bool = False) -> FieldIdentity:
    def side(function: Function) -> Function:
        return jax.grad(lambda x: (function(x) * X).sum()) if gradient else function

    return identity(asked(side(reference), side(variant), X))["out"]


@pytest.mark.sampled(12)
@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize("name", ROUNDED)
def test_a_rounded_constant_is_one_formula_and_is_named(name: str, gradient: bool) -> None:
    reference, variant, text = ROUNDED[name]
    found = said(reference, variant, gradient=gradient)
    assert found.equal and found.log2_error < -60
    if not gradient:
        assert re.search(text, "; ".join(found.constants)), found.constants
        assert all(one in found.probability for one in found.constants)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize("name", OTHER)
def test_another_constant_is_another_formula_and_is_named(name: str, gradient: bool) -> None:
    reference, variant, text = OTHER[name]
    found = said(reference, variant, gradient=gradient)
    assert not found.equal and not found.constants
    if not gradient:
        assert found.witness is not None and re.search(text, found.witness), found.witness


def test_both_literals_are_named_with_their_lines() -> None:
    def first(x: Array) -> Array:
        return x + 1e-6

    def second(x: Array) -> Array:
        return x + 1e-5

    lines = [function.__code__.co_firstlineno + 1 for function in (first, second)]
    here = [f"at interpret/test_source_constants.py:{line}" for line in lines]
    witness = said(first, second).witness
    assert witness is not None
    assert witness.endswith(
        f"the reference has the literal 1e-06 (float32) {here[0]} where this has 1e-05 (float32) {here[1]}"
    )


def test_the_witness_is_where_the_formulas_are_farthest_apart() -> None:
    """Not the first place, where they differ by rounding; nor one that is infinite on both sides."""
    factors = np.ones((4, 8), np.float32)
    factors[0, 0], factors[2, 5] = np.nextafter(F(1), F(2)), 1.5
    found = said(lambda x: x, lambda x: x * factors)
    assert found.witness is not None and found.witness.startswith("out[2, 5] is "), found.witness


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ((3.140625, "bfloat16"), (math.pi, "float32"), True),
        ((3.140625, "float32"), (math.pi, "float64"), True),
        ((3.15625, "bfloat16"), (math.pi, "float32"), False),  # the next number of bfloat16
        ((0.5, "float32"), (0.5001, "float32"), False),
        ((0.5, "bfloat16"), (0.5001, "float32"), True),  # what bfloat16 makes of it; accuracy decides
        ((5000.0, "float32"), (5001.0, "float32"), False),  # an integer is what it is, though float16 has no 5001
        ((0.0, "float16"), (1e-8, "float32"), False),
        ((-3.140625, "bfloat16"), (math.pi, "float32"), False),
        ((1e-6, "float32"), (float(np.nextafter(F(1e-6), F(1))), "float32"), False),
        ((0.15625, "float8_e4m3fn"), (0.16, "float32"), True),
        ((0.15625, "float8_e4m3fn"), (0.17, "float32"), False),
    ],
)
def test_which_constants_are_roundings(one: tuple[float, str], other: tuple[float, str], expected: bool) -> None:
    for first, second in ((one, other), (other, one)):
        assert is_rounding(SourceConstant(*first), SourceConstant(*second)) is expected


def test_no_constant_of_both_sides_stands_for_another() -> None:
    """With pi in both formats on one side, that of bfloat16 stands for the other; on both sides, each for itself."""
    long, short = SourceConstant(float(F(math.pi)), "float32"), SourceConstant(3.140625, "bfloat16")
    both: Mapping[float, SourceConstant] = {long.value: long, short.value: short}
    assert list(roundings({long.value: long}, both)) == [short.value]
    assert not roundings(both, both)


def test_a_table_may_hold_what_is_a_product_of_others() -> None:
    scalars = {value: SourceConstant(value, "float32") for value in (float(F(0.044715)), float(F(0.7978846)))}
    made = SourceConstant(float(F(0.044715) * F(0.7978846)), "float32", table=True)
    assert list(roundings(scalars, {made.value: made})) == [made.value]


# -- planted faults


@pytest.mark.parametrize(
    ("fault", "name"),
    [
        (lambda one, other, units=None: abs(one.value - other.value) < 0.01 * abs(other.value), "0.0447 for 0.044715"),
        (
            lambda one, other, units=None: abs(one.value / other.value - 1) < 0.01 if other.value else False,
            "a row further",
        ),
        (lambda one, other, units=None: True, "an epsilon of 1e-5"),
    ],
)
def test_a_loose_rule_is_noticed(fault: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_constants, "is_rounding", fault)
    with pytest.raises(AssertionError):
        test_another_constant_is_another_formula_and_is_named(name, False)


def test_no_rule_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result, "roundings", lambda first, second: {})
    for name in ("2/3", "GELU multiplied out", "a power of two"):
        with pytest.raises(AssertionError):
            test_a_rounded_constant_is_one_formula_and_is_named(name, False)

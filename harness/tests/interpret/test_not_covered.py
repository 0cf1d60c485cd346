"""What the abstract domains do not cover: unknown primitives, near ties, NaN, and the maximum of nothing."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from samebits.errors import NearTie, NotCovered
from samebits.interpret.equation import Type
from samebits.interpret.field.domain import Field
from samebits.interpret.field_proof.proof import FieldIdentity, identity
from samebits.interpret.interpreter import Interpreter
from samebits.interpret.labels import LabelDomain
from samebits.interpret.oracle import Oracle
from tests.interpret.executed import asked
from tests.interpret.sweep import share
from tests.interpret.sweep.share import DOMAINS, markdown, table

Function = Callable[..., Any]

X = np.random.default_rng(5).uniform(0.3, 2, (4, 4)).astype(np.float32)


def in_a_scan(x: Any) -> Any:
    """A reduction whose result depends on the order."""
    half = np.float32(0.5)
    return lax.scan(lambda c, row: (c + lax.reduce(row, half, lambda a, b: a + b * half, (0,)), None), x[0], x)[0]


def in_a_reference(x: Any) -> Any:
    memory = jax.new_ref(x)
    memory[0] = x[1]
    return memory[...]


UNKNOWN: dict[str, Function] = {"pure_callback": lambda x: jax.pure_callback(np.sin, x, x), "reduce": in_a_scan}


def domains() -> dict[str, tuple[Any, Any]]:
    """Each domain with an input of its own."""
    kind, labels, field = Type(X.shape, X.dtype), LabelDomain(), Field()
    return {
        "oracle": (Oracle(), X),
        "labels": (labels, labels.input("x", kind)),
        "field": (field, field.input("x", X, kind)),
    }


@pytest.mark.parametrize("domain", ["oracle", "labels", "field"])
@pytest.mark.parametrize("name", UNKNOWN)
def test_an_unknown_primitive_is_named_with_its_domain_and_line(name: str, domain: str) -> None:
    meaning, x = domains()[domain]
    lines = "|".join(str(UNKNOWN[name].__code__.co_firstlineno + below) for below in range(6))
    with pytest.raises(NotCovered) as caught:
        Interpreter(meaning)(jax.make_jaxpr(UNKNOWN[name])(X), x)
    text = str(caught.value)
    assert text.startswith(f"{name}(") and re.search(rf" at interpret/test_not_covered\.py:({lines})( |$)", text), text
    assert text.endswith(f"has no rule in the domain '{domain}'")


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (
            lambda x: jnp.sort(x * 1j).imag,
            "sort(complex64[4, 4]) of complex numbers has no rule in the domain 'oracle'",
        ),
        (lambda x: jnp.sin(x * 1j).imag, "sin(complex64[4, 4]) of complex numbers has no rule in the domain 'oracle'"),
        (in_a_reference, "new_ref(float32[4, 4]) has no rule in the domain 'oracle'"),
    ],
)
def test_values_without_a_rule_are_named_in_place(function: Function, text: str) -> None:
    with pytest.raises(NotCovered) as caught:
        Interpreter(Oracle())(jax.make_jaxpr(function)(X), X)
    assert re.sub(r" at interpret/test_not_covered\.py:\d+", "", str(caught.value)).startswith(text)


def said(first: Function, second: Function, *args: Any) -> list[FieldIdentity]:
    return list(identity(asked(first, second, *args)).values())


# -- what is rejected


def pair_of(difference: float) -> Any:
    return np.array([1.0, 3.0]), np.array([1.0 + difference, 2.0])


CHOICES: dict[str, Function] = {
    "where": lambda x, y: jnp.where(x > y, x, 2 * y),
    "clamp": lambda x, y: lax.clamp(y, x, y + 7),
    "sort": lambda x, y: jnp.sort(jnp.concatenate([x, y])),
    "argmax": lambda x, y: x[jnp.argmax(jnp.concatenate([x, y])) % 2] * jnp.argmax(jnp.concatenate([x[:1], y[:1]])),
    "top_k": lambda x, y: lax.top_k(jnp.concatenate([x[:1], y[:1]]), 1)[0],
    "cummax": lambda x, y: lax.cummax(jnp.concatenate([y, x])[:3]),
}


@pytest.mark.parametrize("name", CHOICES)
def test_near_ties_are_refused_and_ties_of_equals_are_not(name: str) -> None:
    function = CHOICES[name]
    with jax.enable_x64(True):
        for difference in (1e-13, -1e-10):
            with pytest.raises(NearTie, match="too close"):
                said(function, function, *pair_of(difference))
        assert said(function, function, *pair_of(0.25))[0].equal

        def tied(x: Any, y: Any) -> Any:
            return function(x, jnp.concatenate([x[:1], y[1:]]))

        assert said(tied, tied, *pair_of(1e-13))[0].equal


DIFFERENCES: dict[str, Function] = {
    "a comparison": lambda x, y: jnp.where((x - y) > 0, x, 2 * y),
    "equality": lambda x, y: jnp.where((y - x) == 0, x, 2 * y),
    "an absolute value": lambda x, y: jnp.abs(y - x),
    "a sign": lambda x, y: jnp.sign(x + -y) * x,
    "a truth": lambda x, y: jnp.where((x - y).astype(bool), x, y),
    "scaled": lambda x, y: jnp.abs((x - y) * 1e-5 / y),
    "a power": lambda x, y: (x - y) ** 3 > 0,
    "a fraction": lambda x, y: jnp.sign(1 / (x - y)) * x < 0,
    "added to": lambda x, y: (x - y) + 1e-14 * x > 0,
    "a total": lambda x, y: jnp.abs(jnp.stack([x, -y]).sum(0)),
    "a running total": lambda x, y: jnp.abs(jnp.cumsum(jnp.stack([x, -y]), 0)[1]),
    "a product": lambda x, y: jnp.abs(jnp.prod(jnp.stack([x, x - y]), 0)),
    "a running product": lambda x, y: jnp.abs(jnp.cumprod(jnp.stack([x, x - y]), 0)),
    "a dot": lambda x, y: jnp.abs(np.array([1.0, -1.0]) @ jnp.stack([x, y])),
    "a dot of a difference": lambda x, y: jnp.abs(jnp.eye(2) @ (x - y)),
    "a scatter": lambda x, y: jnp.abs(x.at[0].add(-y[0])),
    "moved": lambda x, y: jnp.sort(jnp.stack([(x - y)[0], x[0], 0 * x[0]])),
    "a function": lambda x, y: jnp.abs(jnp.sin(x - y)),
    "tanh": lambda x, y: jnp.tanh(x - y) > 0,
    "expm1": lambda x, y: jnp.expm1(x - y) > 0,
    "a logarithm": lambda x, y: jnp.log1p(x - y) > 0,
    "an exponential": lambda x, y: jnp.exp(x - y) - 1 > 0,
}


@pytest.mark.parametrize("name", DIFFERENCES)
def test_a_difference_is_as_near_a_tie_as_its_operands(name: str) -> None:
    function = DIFFERENCES[name]
    with jax.enable_x64(True):
        for difference in (1e-13, -1e-10):
            with pytest.raises(NearTie):
                said(function, function, *pair_of(difference))
        assert said(function, function, *pair_of(0.25))[0].equal


def test_a_zero_as_a_formula_and_whole_numbers_are_no_near_ties() -> None:
    for name, function in DIFFERENCES.items():
        if name != "a fraction":
            with jax.enable_x64(True):
                x, y = pair_of(1e-13)

                def tied(x: Any, y: Any, f: Function = function) -> Any:
                    return f(x, jnp.concatenate([x[:1], y[1:]]))

                assert said(tied, tied, x, y)[0].equal, name
    mask = np.array([1, 1, 0, 1], np.float32)
    masked = said(
        lambda x, m: jax.nn.softmax(x + (1 - m) * -1e9), lambda x, m: jax.nn.softmax((m - 1) * 1e9 + x), X, mask
    )
    assert masked[0].equal


def test_whole_numbers_close_to_a_jump_are_refused() -> None:
    for function, near, far in ((jnp.floor, 2 - 1e-12, 2.5), (jnp.round, 1.5 + 1e-12, 1.7)):
        with jax.enable_x64(True):
            with pytest.raises(NearTie, match="too close to a jump"):
                said(function, function, np.array([near]))
            assert said(function, function, np.array([far]))[0].equal
            assert said(lambda x, f=function: f(x - x + 2), lambda x: x - x + 2, np.array([near]))[0].equal


NAN = np.array([np.nan, 1.0, 2.0], np.float32)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + 1,
        lambda x: jnp.maximum(x, 0),
        lambda x: jnp.minimum(0, x),
        lambda x: x.min(),
        lambda x: x.max(),
        lambda x: jnp.sort(x)[:1],
        lambda x: lax.top_k(x, 1)[0],
        lambda x: jnp.argmin(x) * x[1],
        lambda x: lax.cummin(x, reverse=True)[2:],
        lambda x: lax.clamp(0.5, x, 2.5),
        lambda x: (jnp.inf - x[1:] / 0) * x[1:],
    ],
)
def test_nan_is_refused(function: Function) -> None:
    with pytest.raises(NotCovered, match="NaN"):
        said(function, function, NAN)


def test_infinities_that_a_program_means_are_followed() -> None:
    """A mask of -inf before a softmax, and an exponential that overflows below a fraction."""
    mask = np.array([0, 0, -np.inf, 0], np.float32)
    kept = np.array([0, 1, 3])
    part = said(lambda x: jax.nn.softmax(x + mask)[:, kept], lambda x: jax.nn.softmax(x[:, kept]), X)
    whole = said(lambda x: jax.nn.sigmoid(x), lambda x: jnp.exp(x) / (1 + jnp.exp(x)), -900 * X)
    assert part[0].equal and whole[0].equal


INFINITE = np.array([np.inf, 1.0], np.float32)
HIDDEN: dict[str, tuple[Function, Function]] = {
    "a sum": (lambda x: x[:1] + 1, lambda x: x[:1] + 2),
    "a product": (lambda x: 2 * x[:1], lambda x: x[:1] * x[:1]),
    "a square": (lambda x: x[:1] ** 2, lambda x: x[:1] ** 3),
    "a total": (lambda x: x.sum(), lambda x: x[0] + 2 * x[1]),
    "a running total": (lambda x: jnp.cumsum(x), lambda x: jnp.cumsum(x).at[1].add(1)),
    "a dot": (lambda x: x @ np.array([1, 2], np.float32), lambda x: x @ np.array([1, 3], np.float32)),
    "a scatter": (lambda x: x.at[0].add(x[1]), lambda x: x.at[0].add(2 * x[1])),
    "below a fraction": (lambda x: 1 / (x + 1), lambda x: 1 / jnp.concatenate([x[:1] + 2, x[1:] + 1])),
    "in an exponential": (lambda x: jnp.exp(-x[:1]), lambda x: jnp.exp(-2 * x[:1])),
    "in a function": (lambda x: jnp.arctan(x[:1] + 1), lambda x: jnp.arctan(x[:1] + 2)),
    "with a constant": (lambda x: x[:1] + jnp.inf, lambda x: 2 * x[:1] + jnp.inf),
    "beyond exp": (lambda x: jnp.exp(900 * x[1:]), lambda x: jnp.exp(901 * x[1:])),
    "beyond exp, in a function": (
        lambda x: jnp.arctan(jnp.exp(900 * x[1:])),
        lambda x: jnp.arctan(jnp.exp(901 * x[1:])),
    ),
    "the sign of a root": (lambda x: x, lambda x: jnp.sqrt(x * x)),
}


@pytest.mark.parametrize("name", HIDDEN)
def test_infinities_at_the_inputs_do_not_make_formulas_equal(name: str) -> None:
    first, second = HIDDEN[name]
    with pytest.raises(NotCovered, match="infinite at these inputs"):
        said(first, second, INFINITE)


def test_infinities_do_not_hide_what_differs_elsewhere() -> None:
    assert not said(lambda x: x + 1, lambda x: x + np.array([1, 2], np.float32), INFINITE)[0].equal
    assert not said(lambda x: -x, lambda x: jnp.sqrt(x * x), INFINITE)[0].equal


def test_infinities_that_move_are_followed() -> None:
    """Those of an input and those that are constants, also where a program computes with the constant."""
    assert said(lambda x: x[::-1], lambda x: jnp.stack([x[1], x[0]]), INFINITE)[0].equal
    mask = np.array([1, 0, 1, 1], np.float32)
    pairs: list[tuple[Function, Function]] = [
        (lambda x: jnp.where(mask > 0, x, -jnp.inf), lambda x: x + jnp.log(mask)),
        (lambda x: -jnp.where(mask > 0, x, -jnp.inf), lambda x: jnp.where(mask > 0, -x, jnp.inf)),
        (lambda x: jnp.abs(x + jnp.log(mask))[:, 1], lambda x: jnp.maximum(x[:, 1], jnp.inf)),
        (lambda x: jax.nn.softmax(x + jnp.log(mask)), lambda x: jax.nn.softmax(jnp.where(mask > 0, x, -jnp.inf))),
    ]
    for first, second in pairs:
        assert said(first, second, X)[0].equal


@pytest.mark.parametrize("function", [lambda x: x[:0].sum(0) + x, lambda x: jnp.prod(x[:0], 0) + x, lambda x: x[:0]])
def test_empty_arrays(function: Function) -> None:
    assert said(function, function, X)[0].equal
    with pytest.raises(NotCovered, match="best of nothing"):
        said(lambda x: lax.reduce_max(x[:0], (0,)), lambda x: x[0], X)


# The page of covered primitives is generated from the code, and has every primitive of a training step.
PAGE = Path(__file__).parents[3] / "docs" / "reference" / "primitives.md"


def test_the_table_is_what_the_code_says() -> None:
    assert PAGE.read_text(encoding="utf-8").startswith(markdown()), f"{PAGE.name} is old: run {share.MADE}"


@pytest.mark.slow
def test_the_share_is_what_the_sweep_finds() -> None:
    """Every program of the sweep is traced. Where a rule is new the table is old too, and one command makes both."""
    text = PAGE.read_text(encoding="utf-8")
    if f"## The share of jax {jax.__version__}\n" not in text:
        pytest.skip(f"the page is of another version of jax than {jax.__version__}")
    assert text == share.page(), f"{PAGE.name} is old: run {share.MADE}"


def test_every_primitive_has_a_cell_in_every_domain() -> None:
    known = table()
    assert all(len(cells) == len(DOMAINS) and all(cells) for cells in known.values())
    for name in ("shard_map", "psum", "ragged_all_to_all", "scan", "while", "cond", "custom_vjp_call", "dot_general"):
        assert name in known
    assert "pure_callback" not in known and "ffi_call" not in known


def test_the_share_counts_what_is_not_covered() -> None:
    found = {"sin": ["a"], "ffi_call": ["b"], "igamma": ["b", "c"], "and": ["c"]}
    assert share.covered(found, "field") == {"sin", "igamma", "and"}
    assert share.covered(found, "rounding") == {"sin", "and"}
    text = share.sections(found)
    assert "| that the sweep produces, of 3 programs | 4 | 3 (75 %) | 3 (75 %) | 2 (50 %) |" in text
    assert "\n- `ffi_call`: b\n" in text

"""The domain of dependence: sound for random programs of every primitive, and exact where programs cut a path."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax import lax
from numpy.typing import NDArray

from samebits.errors import NotCovered
from samebits.interpret.dependence import domain as dependence
from samebits.interpret.dependence import elementwise, ordered_rows, products
from samebits.interpret.dependence.domain import Cut, DependenceDomain
from samebits.interpret.dependence.sets import SetTable
from samebits.interpret.dependence.value import LOW, Dependent, opened
from samebits.interpret.equation import Type
from samebits.interpret.interpreter import Interpreter
from samebits.interpret.oracle import Oracle
from tests.interpret.arithmetic import TABLE
from tests.interpret.programs import Program, few

Matrix = NDArray[np.bool_]


def interpreted(closed: Any, arrays: Sequence[Any], tracked: Sequence[bool], cut: Cut | None = None) -> Any:
    """The domain, and the outputs; every element of a tracked input is a group."""
    domain = DependenceDomain(sum(array.size for array, own in zip(arrays, tracked, strict=True) if own), cut)
    args, first = [], 0
    for array, own in zip(arrays, tracked, strict=True):
        if not own:
            args.append(array)
            continue
        groups = first + np.arange(array.size).reshape(array.shape)
        args.append(opened(domain.table.single(groups), Type(array.shape, array.dtype)))
        first += array.size
    return domain, [domain.plain(output) for output in Interpreter(domain, "cpu")(closed, *args)]


def reads(function: Callable[..., Any], *arrays: Any, known: Sequence[int] = ()) -> Matrix:
    """Which elements of the inputs each element of the first output may read: `[outputs, inputs]`."""
    closed = jax.make_jaxpr(function)(*arrays)
    tracked = [number not in known for number in range(len(arrays))]
    domain, outputs = interpreted(closed, [np.asarray(array) for array in arrays], tracked)
    if not isinstance(outputs[0], Dependent):
        return np.zeros((outputs[0].size, domain.table.groups), bool)
    return np.stack([domain.table.members(each) for each in outputs[0].sets.reshape(-1)])


def drawn(seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [
        rng.normal(size=(2, 3, 2)),
        rng.normal(size=(3, 2)),
        rng.integers(-3, 4, (2, 3, 2), np.int32),
        rng.integers(0, 9, (3, 2), np.uint8),
        rng.integers(0, 2, (2, 3)).astype(bool),
    ]


def unseen(closed: Any, arrays: list[Any], tracked: Sequence[bool]) -> list[str]:
    """Outputs that move as one input element changes, which the domain does not say they read."""
    domain, outputs = interpreted(closed, arrays, tracked)
    before = Interpreter(Oracle(), "cpu")(closed, *arrays)
    missed, group = [], 0
    for number, array in enumerate(arrays):
        for place in np.ndindex(array.shape) if tracked[number] else ():
            changed = [*arrays]
            changed[number] = array.copy()
            changed[number][place] = ~array[place] if array.dtype.kind == "b" else array[place] + 1
            try:
                after = Interpreter(Oracle(), "cpu")(closed, *changed)
            except NotCovered:
                after = before
            for index, (first, second, value) in enumerate(zip(before, after, outputs, strict=True)):
                moved = np.isfinite(first) & np.isfinite(second) & (first != second)
                for at in np.argwhere(moved):
                    read = isinstance(value, Dependent) and domain.table.members(value.sets[tuple(at)])[group]
                    if not read:
                        missed.append(f"output {index}{list(at)} moves with input {number}{list(place)}")
            group += 1
    return missed


def random_program(tape: bytes, seed: int) -> tuple[Any, list[Any]]:
    with jax.enable_x64(True):
        arrays = drawn(seed)
        return jax.make_jaxpr(Program(tape, TABLE))(*arrays), arrays


@few(25)
@given(tape=st.binary(min_size=60, max_size=60), seed=st.integers(0, 999), tracks=st.integers(1, 31))
def test_what_moves_an_output_is_read_by_it(tape: bytes, seed: int, tracks: int) -> None:
    closed, arrays = random_program(tape, seed)
    tracked = [bool(tracks >> number & 1) for number in range(len(arrays))]
    try:
        missed = unseen(closed, arrays, tracked)
    except NotCovered:
        return
    assert not missed, missed[0]


LENGTH = 4
LOWER = np.tril(np.ones((LENGTH, LENGTH), bool))
ALL, OWN, NONE = np.ones((LENGTH, LENGTH), bool), np.eye(LENGTH, dtype=bool), np.zeros((LENGTH, LENGTH), bool)
NUMBERS, INDICES = np.arange(1.0, LENGTH + 1), np.arange(LENGTH)
LATER, MIDDLE = INDICES[:, None] > 0, np.array([False, True, True, False])
TRIANGLE = np.tril(np.ones((LENGTH, LENGTH)))


def softmax(x: Any) -> Any:
    exponentials = jnp.exp(x - x.max(-1, keepdims=True))
    return exponentials / exponentials.sum(-1, keepdims=True)


def masked(by: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Scores between all positions, masked in one way; each result depends on what is left in its row."""
    return lambda x: softmax(by(x[:, None] * x[None])) @ x


def online(x: Any) -> Any:
    """A causal softmax over blocks of one key, whose first maximum is a mask."""

    def block(carry: Any, number: Any) -> Any:
        top, total, mixed = carry
        scores = jnp.where(jnp.arange(LENGTH) >= number, x * x[number], -1e30)
        higher = jnp.maximum(top, scores)
        power, kept = jnp.exp(scores - higher), jnp.exp(top - higher)
        return (higher, total * kept + power, mixed * kept + power * x[number]), None

    nothing = jnp.zeros(LENGTH)
    (_, total, mixed), _ = lax.scan(block, (jnp.full(LENGTH, -1e30), nothing, nothing), jnp.arange(LENGTH))
    return mixed / total


def counted(x: Any) -> Any:
    """As many steps as a number says, each of which reads one place further on."""
    return lax.while_loop(lambda s: s[0] < x[0], lambda s: (s[0] + 1, jnp.roll(s[1], 1)), (0.0, x))[1]


FIRST = OWN | (np.arange(LENGTH) == 0)
CUT: dict[str, tuple[Callable[..., Any], Matrix]] = {
    "cumulative sum": (jnp.cumsum, LOWER),
    "reversed cumulative maximum": (lambda x: lax.cummax(x, reverse=True), LOWER.T),
    "associative scan": (lambda x: lax.associative_scan(jnp.multiply, x), LOWER),
    "convolution": (lambda x: jnp.convolve(x, NUMBERS[:2])[:LENGTH], LOWER & ~np.tril(LOWER, -2)),
    "product with zeros": (lambda x: TRIANGLE @ x, LOWER),
    "product with zeros on the right": (lambda x: x @ TRIANGLE.T, LOWER),
    "product": (lambda x: x * x[::-1], OWN | OWN[::-1]),
    "difference": (lambda x: x - x[::-1], OWN | OWN[::-1]),
    "product of all": (lambda x: (x[:, None] * x[None]) @ x, ALL),
    "times zero": (
        lambda x: x * 0 + x[::-1] * jnp.array([0.0, 1, 1, 0]),
        OWN[::-1] & np.array([[0], [1], [1], [0]], bool),
    ),
    "known place": (lambda x: x[jnp.array([1, 0, 3, 2])], OWN[[1, 0, 3, 2]]),
    "place by value": (lambda x: x[jnp.int32(x)], ALL),
    "table by value": (lambda x: jnp.asarray(NUMBERS)[jnp.int32(x)], OWN),
    "slice by value": (lambda x: lax.dynamic_slice(x, [jnp.int32(x[0])], [2]), ALL[:2]),
    "update by value": (lambda x: lax.dynamic_update_slice(x, x[1:2], [jnp.int32(x[0])]), FIRST | (INDICES == 1)),
    "scatter by value": (lambda x: jnp.zeros(LENGTH).at[jnp.int32(x)].add(1.0), ALL),
    "scatter": (lambda x: jnp.zeros(LENGTH).at[jnp.array([0, 0, 1, 1])].add(x), np.kron(np.eye(4, 2), [[1, 1]]) > 0),
    "sort": (jnp.sort, ALL),
    "order": (jnp.argsort, ALL),
    "largest": (lambda x: jnp.where(jnp.array([1, 1, 0, 0]), x, -jnp.inf).max()[None], np.array([[1, 1, 0, 0]], bool)),
    "choice by value": (lambda x: jnp.where(x[0] > 0, x, 0.0), FIRST),
    "choice by a known mask": (lambda x: jnp.where(jnp.arange(LENGTH) < 2, x, x[::-1]), OWN[[0, 1, 1, 0]]),
    "branch by value": (lambda x: lax.cond(x[0] > 0, lambda: x, lambda: x[::-1]), OWN | OWN[::-1] | (INDICES == 0)),
    "steps by value": (counted, ALL),
    "masked by infinity": (masked(lambda s: jnp.where(LOWER, s, -jnp.inf)), LOWER),
    "masked by the smallest number": (masked(lambda s: jnp.where(LOWER, s, jnp.finfo(s.dtype).min)), LOWER),
    "masked by a sum": (masked(lambda s: s + jnp.where(LOWER, 0, -1e9)), LOWER),
    "masked before a scale": (masked(lambda s: (s + jnp.where(LOWER, 0, -1e9)) * 0.125), LOWER),
    "masked and unmasked": (masked(lambda s: (s + jnp.where(LOWER, 0, -1e9)) * 1e-9), ALL),
    "masked by a small number": (masked(lambda s: s + jnp.where(LOWER, 0, -100.0)), ALL),
    "not masked": (masked(lambda s: s), ALL),
    "masked by one": (masked(lambda s: jnp.where(np.triu(ALL) | OWN, s, -jnp.inf)), LOWER.T),
    "all of a row masked": (
        masked(lambda s: jnp.where(LOWER & (INDICES > 0)[:, None], s, -1e9)),
        LOWER | (INDICES == 0)[:, None],
    ),
    "online softmax": (online, LOWER),
    "infinity is never met": (lambda x: jnp.where(x[0] == jnp.inf, x[::-1], x), OWN),
    "no number is met": (lambda x: jnp.nan_to_num(x), OWN),
    "a known branch": (lambda x: lax.cond(True, lambda: x, lambda: x[::-1]), OWN),
    "known steps": (lambda x: lax.fori_loop(0, 1, lambda i, s: jnp.roll(s, 1), x), OWN[[3, 0, 1, 2]]),
    "nothing": (lambda x: jnp.zeros_like(x), NONE),
    "random numbers": (lambda x: jax.random.normal(jax.random.key(0), x.shape), NONE),
    "a bit of a number": (lambda x: lax.bitcast_convert_type(x, jnp.int32), ALL),
}
"""Programs of four numbers, and which of them each result reads."""


@pytest.mark.parametrize("name", CUT)
def test_a_program_reads_what_it_reads(name: str) -> None:
    function, expected = CUT[name]
    assert np.array_equal(reads(function, NUMBERS.astype(np.float32)), expected)


@pytest.mark.parametrize("name", ["a bit of a number", "sort", "table by value", "not masked", "steps by value"])
def test_a_program_with_integers_reads_them(name: str) -> None:
    function, expected = CUT[name]
    assert np.array_equal(reads(lambda x: function(jnp.float32(x)), np.arange(LENGTH)), expected)


def test_each_cut_says_under_which_condition() -> None:
    def conditions(function: Callable[..., Any]) -> tuple[str, ...]:
        x = NUMBERS.astype(np.float32)
        domain, _ = interpreted(jax.make_jaxpr(function)(x), [x], [True])
        return tuple(domain.conditions)

    assert conditions(jnp.cumsum) == ()
    assert conditions(lambda x: x * 0) == ("all numbers are finite",)
    by_sum = conditions(CUT["masked by a sum"][0])
    assert "numbers beside a mask of 1e+09 are smaller than 5e+08" in by_sum
    assert "no number by which zero is divided is zero" in by_sum


def _reads_first(domain: Any, step: Any, values: Any) -> Any:
    return values[0]


def _stays_large(result: Dependent, where: Any, numbers: Any) -> Dependent:
    return Dependent(result.sets, np.where(where, np.int8(LOW), result.states), np.where(where, -1e9, numbers))


MUTANTS: dict[str, tuple[str, Any, str, Any]] = {
    "a product reads one factor": ("product", elementwise.RULES, "mul", _reads_first),
    "a difference reads one number": ("difference", elementwise.RULES, "sub", _reads_first),
    "a mask adds nothing": ("masked by a sum", elementwise.RULES, "add", _reads_first),
    "a scaled mask stays": ("masked and unmasked", elementwise, "_large", _stays_large),
    "no factor is used": ("product of all", products, "used", lambda value: value.states < 0),
    "a factor of zero is used": ("product with zeros", products, "used", lambda value: value.states >= 0),
    "an index is never open": ("place by value", dependence, "_unknown", lambda indices, axes: []),
    "a sort keeps places": ("sort", ordered_rows, "plain", lambda table, value: getattr(value, "value", value)),
    "a union is its first set": ("cumulative sum", SetTable, "union", lambda self, first, second: first),
    "a union over an axis is empty": ("largest", SetTable, "union", lambda self, first, second: first * 0),
    "a predicate decides nothing": ("choice by value", elementwise, "select", lambda domain, step, values: values[1]),
}
"""By name the program that becomes another one, and what is put in the place of what."""


@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_rule_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program, owner, attribute, wrong = MUTANTS[name]
    patch = monkeypatch.setitem if isinstance(owner, dict) else monkeypatch.setattr
    patch(owner, attribute, wrong)
    function, expected = CUT[program]
    assert not np.array_equal(reads(function, NUMBERS.astype(np.float32)), expected)


def test_a_wrong_rule_is_seen_by_random_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SetTable, "union", lambda self, first, second: first)
    programs = (
        random_program(bytes(np.random.default_rng(seed).integers(0, 256, 60, np.uint8)), seed) for seed in range(20)
    )
    assert any(unseen(closed, arrays, [True] * len(arrays)) for closed, arrays in programs)


def test_a_cut_takes_a_group_out_beside_another() -> None:
    """Until the equation that brings two places together, the cut changes nothing; from it on, it keeps one out."""
    function, _ = CUT["not masked"]
    x = NUMBERS.astype(np.float32)
    closed = jax.make_jaxpr(function)(x)
    domain, _ = interpreted(closed, [x], [True])
    read = []
    for until in range(domain.equations + 1):
        own, outputs = interpreted(closed, [x], [True], Cut(group=3, beside=0, until=until))
        read.append(own.table.members(outputs[0].sets[0])[3])
    assert read == sorted(read, reverse=True)
    last = domain.places[read.index(False)]
    assert last.name == "dot_general"


def test_sets_are_held_once() -> None:
    table = SetTable(130)
    groups = np.array([0, 64, 129, -1])
    sets = table.single(groups)
    assert sets[3] == 0
    both = table.union(sets, sets[::-1])
    assert both[0] == both[3] == sets[0]
    assert both[1] == both[2]
    assert np.flatnonzero(table.members(both)).tolist() == [0, 64, 129]
    assert np.flatnonzero(table.members(table.without(both, 64, 129))).tolist() == [0, 129]
    assert table.of_axis(sets, 0) == table.of_axis(sets[::-1], 0)

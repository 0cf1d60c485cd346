"""What the alignment rests on: fingerprints, recordings, repairs, and what it says where it cannot be done."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from samebits.errors import NotCovered
from samebits.interpret.alignment.align import Alignment, RecordLimits, align
from samebits.interpret.alignment.fingerprints import fingerprint, frontier, reaching
from samebits.interpret.alignment.repairs import earliest
from samebits.interpret.alignment.sources import code_of
from samebits.interpret.devices import PerDevice
from samebits.interpret.problem import Input, Question
from samebits.schema.line_difference import LineDifference
from tests.interpret.alignment.planted import TRAINER, aligned, functions, planted
from tests.interpret.alignment.slips import FIRST, LATER, SLIPS, Slip

X = np.random.default_rng(3).normal(size=(3, 4)).astype(np.float32)
S = np.random.default_rng(4).normal(size=4).astype(np.float32)


def _question(reference: Callable[..., Any], variant: Callable[..., Any], *args: Any) -> Question:
    first, second = (jax.make_jaxpr(side)(*args) for side in (reference, variant))
    inputs = [Input(f"argument {number}", value) for number, value in enumerate(args)]
    return Question(first, second, inputs, [f"out{number}" for number in range(len(first.out_avals))])


def _aligned(reference: Callable[..., Any], variant: Callable[..., Any], *args: Any) -> Alignment:
    return align(_question(reference, variant, *args))


def test_layouts_and_broadcasts_have_one_fingerprint() -> None:
    """Elements that were moved are the same content in another order; a broadcast repeats all alike."""
    array = np.random.default_rng(0).normal(size=(3, 4))
    mark = fingerprint(array, False)
    assert fingerprint(array.T, False).content == mark.content
    assert fingerprint(array.T, False).order != mark.order
    assert fingerprint(array.reshape(2, 6), False).order == mark.order
    assert fingerprint(np.broadcast_to(array, (5, 3, 4)), False).order == mark.order
    assert fingerprint(PerDevice((array, array)), False).order == mark.order
    assert fingerprint(array + np.eye(3, 4), False).content != mark.content
    assert fingerprint(np.vstack([array, array[:1]]), False).content != mark.content


def test_masks_are_compared_in_order() -> None:
    """Booleans hold two different elements: two masks with as many ones are two values."""
    lower = np.tril(np.ones((4, 4), bool))
    assert fingerprint(lower, False).content != fingerprint(lower.T, False).content
    assert fingerprint(lower, False).content == fingerprint(np.broadcast_to(lower, (2, 4, 4)), False).content


def test_a_value_that_occurs_ends_the_frontier() -> None:
    """The factors are multiplied in another order before they agree again; only what differs behind that counts."""

    def reference(x: Any, s: Any) -> Any:
        return jnp.tanh(x * s * 2) + 1

    def variant(x: Any, s: Any) -> Any:
        twice = 2 * s
        return jnp.tanh(twice * x) + 3

    alignment = _aligned(reference, variant, X, S)
    ours, side = alignment.sides(True)[1], alignment.sides(True)[1]
    end = ours.graph.nodes[ours.graph.outputs[0]]
    found = frontier(ours.graph, end, side.occurs)
    assert [code_of(node) for node in found] == ["jnp.tanh(twice * x) + 3"]
    assert [node.number for node in reaching(ours.graph, end, side.occurs)] == [end.number]
    (line,) = alignment.lines(0)
    assert line.variant_code == "jnp.tanh(twice * x) + 3" and line.reference_code == "jnp.tanh(x * s * 2) + 1"


def test_a_repair_is_the_earliest_value_that_mends_the_output() -> None:
    """The wrong factor is three equations before the output, in a form of which no step occurs in the reference."""

    def reference(x: Any, s: Any) -> Any:
        return jnp.sum(jnp.exp(x * s), -1) * jnp.sum(x)

    def variant(x: Any, s: Any) -> Any:
        wrong = jnp.einsum("ij,j->ij", x, s + 1)
        return jnp.einsum("ij,kl->i", jnp.exp(wrong), x)

    alignment = _aligned(reference, variant, X, S)
    first, second = alignment.sides(True)
    ends = [side.graph.nodes[side.graph.outputs[0]] for side in (second, first)]
    repair = earliest(second, first, *ends)
    assert repair is not None
    assert [node.name for node in repair.variant] == ["add"]


def test_a_mask_put_for_a_number_is_not_a_repair() -> None:
    """The sign of a mask has no meaning in NumPy; the search goes on to the value that wraps around."""

    def reference(x: Any, start: Any) -> Any:
        return x[(start.astype(jnp.int32) * 300) // 300 % x.shape[0]]

    def variant(x: Any, start: Any) -> Any:
        return x[((start.astype(jnp.int16) * jnp.int16(300)) // jnp.int16(300)).astype(jnp.int32) % x.shape[0]]

    x = np.random.default_rng(5).normal(size=(16, 4)).astype(np.float32)
    (line,) = _aligned(reference, variant, x, np.array([7, 900, 411, 3], np.int32)).lines(0)
    assert line.variant_code is not None
    assert "start.astype(jnp.int16)" in line.variant_code


def test_an_unreachable_input_is_named_where_a_gradient_is_lost() -> None:
    """A `stop_gradient` too many: the variant computes nothing there, and the place comes from the forward pass."""

    def loss(x: Any, s: Any) -> Any:
        return jnp.sum(jnp.square(x - s))

    def stopped(x: Any, s: Any) -> Any:
        return jnp.sum(jnp.square(x - jax.lax.stop_gradient(s)))

    alignment = _aligned(jax.grad(loss, (0, 1)), jax.grad(stopped, (0, 1)), X, S)
    assert alignment.lines(0) == ()
    (line, *_) = alignment.lines(1)
    assert line.variant_code == "x - jax.lax.stop_gradient(s)" and line.reference_code == "x - s"
    assert line.change == "missing"


def test_a_difference_below_float64_is_named_where_it_is_known() -> None:
    """The shadows agree to nine digits; the residues do not, and the proof said so."""

    def reference(x: Any, s: Any) -> Any:
        return jax.lax.rsqrt(x * x + 1e-14)

    def variant(x: Any, s: Any) -> Any:
        return jax.lax.rsqrt(x * x + 1e-15)

    alignment = _aligned(reference, variant, X + 3, S)
    assert alignment.lines(0) == () and not alignment.differs(0)
    (line, *_) = alignment.lines(0, refuted=True)
    assert line.variant_code == "x * x + 1e-15"


def test_float64_serves_where_the_fields_have_no_rule() -> None:
    """A comparison too close to call ends the proof; the alignment goes on in float64."""

    def reference(x: Any, s: Any) -> Any:
        return jnp.where(x * 3 > x + x + x, x, 2 * x) * s

    def variant(x: Any, s: Any) -> Any:
        return jnp.where(x * 3 > x + x + x, x, 2 * x) / s

    (line, *_) = _aligned(reference, variant, X, S).lines(0)
    assert line.variant_code == "jnp.where(x * 3 > x + x + x, x, 2 * x) / s"


def test_complex_values_and_random_keys_are_aligned() -> None:
    """A complex value is compared by both of its parts; a key is an input as any other."""

    def spectrum(x: Any, s: Any) -> Any:
        return jnp.abs(jnp.fft.rfft(x * s) * 2)

    def other(x: Any, s: Any) -> Any:
        return jnp.abs(jnp.fft.rfft(s * x) * 3)

    (line, *_) = _aligned(spectrum, other, X, S).lines(0)
    assert (line.variant_code, line.reference_code) == ("jnp.fft.rfft(s * x) * 3", "jnp.fft.rfft(x * s) * 2")

    def dropped(data: Any, x: Any) -> Any:
        return x * jax.random.normal(jax.random.wrap_key_data(data), x.shape)

    def added(data: Any, x: Any) -> Any:
        return x + jax.random.normal(jax.random.wrap_key_data(data), x.shape)

    (line, *_) = _aligned(dropped, added, np.array([1, 2], np.uint32), X).lines(0)
    assert line.variant_code.startswith("x + jax.random.normal")


def test_keys_that_are_computed_have_no_numbers() -> None:
    """Their words stand for them where a region is searched for elements that occur in the reference."""

    def reference(x: Any, key: Any) -> Any:
        return jnp.where(jax.random.bernoulli(key, 0.5, x.shape), x, 0.0)

    def variant(x: Any, key: Any) -> Any:
        return reference(x, jax.random.split(key)[0])

    lines = _aligned(reference, variant, X, np.array([3, 4], np.uint32)).lines(0)
    assert "jax.random.split(key)" in str(lines[0])


def test_what_cannot_be_aligned_is_said() -> None:
    """Programs beyond the limits, with another number of outputs, or with an equation that no domain knows."""

    def many(x: Any, s: Any) -> Any:
        return x * s

    def called(x: Any, s: Any) -> Any:
        return jax.pure_callback(lambda x: x, jax.ShapeDtypeStruct(x.shape, x.dtype), x) * s

    with pytest.raises(NotCovered, match="the values of the program have more than 10 elements"):
        align(_question(many, many, X, S), limits=RecordLimits(elements=10))
    with pytest.raises(NotCovered, match=r"aligning takes more than 0 s"):
        align(_question(many, many, X, S), limits=RecordLimits(seconds=0))
    with pytest.raises(NotCovered, match="the programs have 1 and 2 outputs"):
        align(_question(many, lambda x, s: (x, s), X, S))
    with pytest.raises(NotCovered, match="pure_callback"):
        align(_question(many, called, X, S))


def test_an_output_that_is_an_input_names_what_is_missing() -> None:
    """The reference's last equation where the variant has none; nothing where both give an input."""

    def reference(x: Any, y: Any) -> Any:
        return x + y

    (line, *_) = _aligned(reference, lambda x, y: x, X, X + 1).lines(0)
    assert (line.change, line.variant, line.reference_code) == ("missing", None, "x + y")
    alignment = _aligned(lambda x, y: x, lambda x, y: y, X, X * 2)
    assert alignment.differs(0) and alignment.lines(0) == ()


def test_tensors_are_listed_with_their_places() -> None:
    """Every computed value, whether it occurs, and the first that makes the output differ."""

    def reference(x: Any, s: Any) -> Any:
        return jnp.tanh(x * s) * 2

    def variant(x: Any, s: Any) -> Any:
        return jnp.tanh(s * x) * 3

    rows = _aligned(reference, variant, X, S).tensors(0)
    assert [(row.primitive, row.occurs, row.first) for row in rows] == [
        ("mul", True, False),
        ("tanh", True, False),
        ("mul", False, True),
    ]
    assert rows[0].type == "float32[3,4]" and rows[0].code == "s * x" and rows[0].reference is not None
    assert rows[2].reference is None


# The lines that two programs part at, on 73 planted slips, and on the honest forms of the same functions.
RIGHT = {FIRST: 42, LATER: 25}
"""How many of the slips have their line named first, of 44 and 29. The issue asks for 36 of 40."""


def _lines(alignment: Alignment) -> tuple[LineDifference, ...]:
    """Those of the first output that differs."""
    every = (alignment.lines(number) for number in range(len(alignment.question.outputs)))
    return next((lines for lines in every if lines), ())


def _named(slip: Slip, folder: Path) -> tuple[tuple[LineDifference, ...], str]:
    file, line = planted(slip, folder)
    return _lines(aligned(slip.function, slip.direction, file)), f"{file.parent.name}/rewritten.py:{line}"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("slips", [FIRST, LATER], ids=["first", "later"])
def test_the_line_of_a_slip_is_named_first(slips: tuple[Slip, ...], tmp_path: Path) -> None:
    """Each slip is one line of the rewritten functions; what is named is never only the reference's side."""
    wrong = []
    for slip in slips:
        lines, expected = _named(slip, tmp_path)
        assert lines, f"nothing is named for '{slip.new}'"
        assert all(line.variant is not None for line in lines), lines
        if lines[0].variant != expected:
            wrong.append(slip.new)
    assert len(slips) - len(wrong) >= RIGHT[slips], wrong


def test_nine_of_ten_slips_are_named_first() -> None:
    """The share that the issue asks for, over both sets."""
    assert sum(RIGHT.values()) >= 0.9 * len(SLIPS) and len(FIRST) >= 40


@pytest.mark.sampled(8)
@pytest.mark.parametrize("direction", ["forward", "gradient"])
@pytest.mark.parametrize("name", functions())
def test_honest_forms_have_no_line(name: str, direction: str) -> None:
    """The rewritten functions are the reference in other forms: sums in another order, fused, in loops, on a mesh."""
    alignment = aligned(name, direction, TRAINER / "rewritten.py")
    assert [alignment.lines(number) for number in range(len(alignment.question.outputs))] == [
        () for _ in alignment.question.outputs
    ]
    assert not any(alignment.differs(number) for number in range(len(alignment.question.outputs)))


def test_both_sides_are_named_with_their_expressions(tmp_path: Path) -> None:
    """The words that a report shows: the expression at each place, and what is missing."""
    slip = next(slip for slip in SLIPS if slip.new == "rsqrt(variance + 1e-5)")
    (line, *_), expected = _named(slip, tmp_path)
    assert (line.change, line.variant, line.variant_code) == ("other", expected, "variance + 1e-5")
    assert line.reference is not None and line.reference.startswith("trainer/reference.py:")
    assert str(line) == f"{expected} has `variance + 1e-5`, the reference's twin at {line.reference} has " + (
        "`variance + 1e-6`"
    )
    slip = next(slip for slip in SLIPS if slip.new == "square.sum(-1, keepdims=True)")
    (line, *_), expected = _named(slip, tmp_path)
    assert (line.change, line.primitive, line.variant) == ("missing", "div", expected)
    assert str(line).endswith(": the variant has no such `div`")


def test_iterations_of_a_loop_are_named(tmp_path: Path) -> None:
    """The iteration in which it begins to differ, and loops that do not run as often."""
    (line, *_), _ = _named(next(slip for slip in SLIPS if slip.new == "h = x * factor"), tmp_path)
    assert line.iterations == (0,) and str(line).endswith("(iteration 0)")
    slip = next(slip for slip in SLIPS if "x.shape[0] - 1, body" in slip.new)
    (line, *_), _ = _named(slip, tmp_path)
    assert line.change == "trip count" and str(line).endswith(": another number of iterations")


def test_a_rule_written_by_hand_has_lines(tmp_path: Path) -> None:
    """The equations of a gradient rule have the line of its call from jax; the rule is traced for its own."""
    slip = next(slip for slip in SLIPS if slip.new == "return ct * b * slope, ct * a")
    (line, *_), expected = _named(slip, tmp_path)
    assert (line.variant, line.variant_code) == (expected, "ct * a")

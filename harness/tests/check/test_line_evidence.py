"""A leaf that fails as `different` names the lines that make it differ, in every report of it."""

import dataclasses
import inspect
import io
import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import PartitionSpec as P

import samebits
from samebits.check.line_evidence import NO_PLACE, POINTS, few_lines
from samebits.check.prove_points import prove_points
from samebits.errors import NotCovered
from samebits.interpret.alignment import align
from samebits.programs.catalogue import Locator
from samebits.programs.plan import Request, plan
from samebits.report.failure import point_block
from samebits.report.prove import pair_block
from samebits.report.terminal import console, show_blocks
from samebits.schema.contract import Exemption
from samebits.schema.finding import Finding
from samebits.schema.pair import Pair
from tests.support.findings import changed, having
from tests.support.toys import alone, of, run, toy

HERE = "/".join(Path(__file__).parts[-2:])


def _place(function: Any, text: str) -> str:
    """Where a function of this file has a text."""
    lines, start = inspect.getsourcelines(function)
    (number,) = [number for number, line in enumerate(lines) if text in line]
    return f"{HERE}:{start + number}"


def plain(x: Any, *, factor: float = 2.0) -> Any:
    y = x * factor * 2
    return jnp.tanh(y)


def halved(x: Any, *, factor: float = 2.0) -> Any:
    y = factor * x
    return jnp.tanh(y)


@pytest.mark.slow
def test_both_sides_are_named_forward_and_in_the_gradient() -> None:
    """A factor that is missing; the gradient is wrong for the reason that the forward output is."""
    results = of(run(toy(plain, halved=halved)), variant="halved")
    assert {(r.ruling.verdict, r.place.direction) for r in results} == {
        ("different", "forward"),
        ("different", "gradient"),
    }
    for result in results:
        (line,) = result.named.lines
        assert (line.variant, line.variant_code) == (_place(halved, "y = factor"), "factor * x")
        assert (line.reference, line.reference_code) == (_place(plain, "y = x"), "x * factor * 2")
        (shown,) = [text for text in point_block([result]) if text.startswith("  line      ")]
        assert shown == (
            f"  line      {line.variant} has `factor * x`, the reference's twin at {line.reference} has "
            "`x * factor * 2`: the variant has no such `mul`"
        )


def same(x: Any, *, factor: float = 2.0) -> Any:
    return jnp.tanh(2 * factor * x)


@jax.custom_vjp
def _gate(x: Any) -> Any:
    return jax.nn.sigmoid(x)


def _gate_backward(saved: Any, cotangent: Any) -> Any:
    slope = saved * saved
    return (cotangent * slope,)


_gate.defvjp(lambda x: (_gate(x), jax.nn.sigmoid(x)), _gate_backward)


def gated(x: Any, *, factor: float = 2.0) -> Any:
    return _gate(x * factor)


def sigmoid(x: Any, *, factor: float = 2.0) -> Any:
    return jax.nn.sigmoid(x * factor)


def test_a_wrong_gradient_rule_is_named_in_the_rule() -> None:
    """The forward outputs are the same; the line is that of the rule, not of its call."""
    results = run(toy(sigmoid, gated=gated), Request(variants=("gated",), full=True))
    (gradient,) = of(results, direction="gradient")
    assert gradient.ruling.verdict == "different"
    named = [line.variant for line in gradient.named.lines]
    assert _place(_gate_backward, "slope = ") in named[:2], gradient.named.lines
    assert all(line.named.lines == () and line.named.why is None for line in of(results, direction="forward"))


def summed(x: Any, *, factor: float = 2.0) -> Any:
    return jnp.sum(x, 0) * factor


def over_the_mesh(x: Any, *, factor: float = 2.0) -> Any:
    def local(x: Any) -> Any:
        part = jnp.sum(x, 0) * factor
        return jax.lax.pmean(part, "data")

    return jax.shard_map(local, in_specs=P("data"), out_specs=P())(x)


def test_a_wrong_collective_is_named() -> None:
    """A mean over the devices in place of a sum; what each device adds up of its part is no difference."""
    (result,) = run(toy(summed, over_the_mesh=over_the_mesh), alone("over_the_mesh"))
    assert result.ruling.verdict == "different"
    assert result.named.lines[0].variant == _place(over_the_mesh, "pmean")


@pytest.mark.slow
def test_what_holds_names_no_line() -> None:
    """Nothing is searched for where a leaf passes or is exempt."""

    def quiet(results: list[Finding]) -> bool:
        return all(result.named.lines == () and result.named.why is None for result in results)

    assert quiet(run(toy(plain, same=same)))
    known = Exemption(verdict="different", reason="a factor is missing")
    assert quiet(of(run(toy(plain, halved=halved), exemptions=(known,)), variant="halved"))


def test_why_no_line_is_named_is_said() -> None:
    """A program that cannot be interpreted, and a difference that is not one of formulas."""

    def called(x: Any, *, factor: float = 2.0) -> Any:
        shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return jax.pure_callback(lambda x: 3 * x, shape, x, vmap_method="sequential")

    (result,) = run(toy(plain, called=called), alone("called"), meshes=("data1",))
    assert result.ruling.verdict == "different" and result.named.lines == ()
    assert result.named.why is not None and result.named.why.startswith("the programs cannot be aligned: pure_callback")
    (shown,) = [text for text in point_block([result]) if text.startswith("  line")]
    assert shown == f"  line      none named: {result.named.why}"

    def rounded(x: Any, *, factor: float = 2.0) -> Any:
        return jnp.tanh((x * factor * 2).astype(jnp.bfloat16).astype(x.dtype))

    (result,) = run(toy(plain, rounded=rounded), alone("rounded"), meshes=("data1",))
    (line,) = result.named.lines  # the formulas are the same, and the accuracy is lost there
    assert result.ruling.verdict == "different" and line.change == "narrower"
    assert line.variant_code == "(x * factor * 2).astype(jnp.bfloat16)"
    assert str(line).endswith(": floats are narrower from there than anywhere in the reference")


def test_a_failing_search_does_not_lose_the_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    """The verdict and the witness stay, and the reason names the exception."""

    def broken(*args: Any, **more: Any) -> Any:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(align, "align", broken)
    (result,) = run(toy(plain, halved=halved), alone("halved"))
    assert result.ruling.verdict == "different" and result.comparison.witness is not None
    assert result.named.why == "the search failed (ZeroDivisionError: planted), which is a bug of samebits"


@pytest.mark.slow
def test_lines_are_searched_for_few_points_of_a_variant() -> None:
    """The cause of one is that of the others, and every search interprets both programs again."""
    pair = toy(plain, halved=halved)
    case = pair.cases[0]
    cases = tuple(replace(case, id=f"case{n}", statics={"factor": 2.0 + n}) for n in range(POINTS + 1))
    results = of(run(pair, cases=cases, gradients=False, meshes=("data1",)), variant="halved")
    assert len(results) == POINTS + 1
    *searched, last = results
    assert all(result.named.lines for result in searched)
    assert last.named.why == f"lines were searched for {POINTS} points of 'halved', not for this one"
    assert len({line.variant for line in itertools.chain(*(result.named.lines for result in searched))}) == 1


def test_of_several_processes_the_first_points_have_lines() -> None:
    """Each names lines for the first ones that it meets: how many there are must not show in the document."""
    pair = toy(plain, halved=halved)
    case = pair.cases[0]
    cases = tuple(replace(case, id=f"case{n}") for n in range(2))
    found = run(pair, alone("halved"), cases=cases, meshes=("data1",))
    many = [changed(found[n % 2], case=f"case{n}") for n in range(POINTS + 3)]
    assert all(result.named.lines for result in many)
    few = few_lines(many)
    assert few[:POINTS] == many[:POINTS] and not any(result.named.lines for result in few[POINTS:])
    assert few[-1].named.why == f"lines were searched for {POINTS} points of 'halved', not for this one"
    assert few_lines(few) == few


def test_code_without_a_file_has_its_place() -> None:
    """As in a REPL; functions of jax alone have none, and the reason says so."""
    written: dict[str, Any] = {}
    text = "def side(x, *, factor=2.0):\n    import jax.numpy as jnp\n    return jnp.tanh(x * 3)"
    exec(compile(text, "<stdin>", "exec"), written)
    (result,) = run(toy(same, typed=written["side"]), alone("typed"), meshes=("data1",))
    assert (result.named.lines[0].variant, result.named.lines[0].reference) == ("<stdin>:3", _place(same, "return"))
    compared = samebits.check(jnp.cos, jnp.sin, jnp.ones((8, 16)), gradients=False)
    assert [leaf.named.why for leaf in compared.leaves] == [NO_PLACE]


# A refuted leaf names the lines that make it differ, without anything being compiled or run.
def leaves(x: Any, factor: float) -> tuple[Any, Any, Any]:
    return x * factor, x + factor, x - factor


def _proved(pair: Pair, **where: str) -> list[Finding]:
    arguments = prove_points(pair, Locator(name=pair.name), plan(pair, Request(full=True), devices=8))
    return having(arguments, **where)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("direction", ["forward", "gradient"])
def test_a_refuted_leaf_names_its_line(direction: str) -> None:
    """The gradient of what is wrong forward names the same line; the report shows it."""
    (refuted,) = _proved(toy(plain, halved=halved), variant="halved", direction=direction)
    assert refuted.ruling.verdict == "different"
    (line,) = refuted.named.lines
    assert (line.variant_code, line.reference_code) == ("factor * x", "x * factor * 2")
    text = io.StringIO()
    show_blocks(console(text), [pair_block("toy", [refuted])])
    assert "line" in text.getvalue() and "has `factor * x`, the reference's twin at" in " ".join(
        text.getvalue().split()
    )


def test_a_wrong_rule_is_named_where_only_the_gradient_differs() -> None:
    """The forward outputs are the same formula."""
    (refuted,) = _proved(toy(sigmoid, gated=gated), variant="gated", direction="gradient")
    assert [line.variant_code for line in refuted.named.lines][:1] == ["saved * saved"]


def test_what_is_proved_names_no_line() -> None:
    """Nothing is searched for."""
    for each in _proved(toy(plain, same=same)):
        assert each.ruling.verdict == "rounding" and each.named.lines == () and each.named.why is None


def test_a_failing_search_does_not_lose_the_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    """The verdict stays, and the reason names the exception."""

    def broken(*args: Any, **more: Any) -> Any:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(align, "align", broken)
    (refuted,) = _proved(toy(plain, halved=halved), variant="halved", direction="forward")
    assert refuted.ruling.verdict == "different" and refuted.named.lines == ()
    assert refuted.named.why == "the search failed (ZeroDivisionError: planted), which is a bug of samebits"


def test_programs_that_are_too_large_are_recorded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every leaf says so, but recording them takes as long each time."""
    recorded: list[None] = []

    def too_large(*args: Any, **more: Any) -> Any:
        recorded.append(None)
        raise NotCovered("planted")

    monkeypatch.setattr(align, "align", too_large)
    three = toy(leaves, halved=lambda x, factor: tuple(each / 2 for each in leaves(x, factor)))
    refuted = _proved(dataclasses.replace(three, meshes=("data1",), gradients=False), variant="halved")
    assert [each.named.why for each in refuted] == ["the programs cannot be aligned: planted"] * 3
    assert len(recorded) == 1


@pytest.mark.slow
def test_lines_are_searched_for_few_points() -> None:
    """As `samebits check` does."""
    pair = toy(plain, halved=halved)
    cases = tuple(
        dataclasses.replace(pair.cases[0], id=f"case{n}", statics={"factor": 2.0 + n}) for n in range(POINTS + 1)
    )
    pair = dataclasses.replace(pair, cases=cases, gradients=False, meshes=("data1",))
    assert [bool(each.named.lines) for each in _proved(pair, variant="halved")] == [True] * POINTS + [False]

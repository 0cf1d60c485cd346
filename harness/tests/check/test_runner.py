"""The runner: what is compared with what, and every reason why a point gives no result."""

import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax.experimental import io_callback
from jax.sharding import PartitionSpec as P

import samebits
from samebits import Pair
from samebits.check.evidence import EvidenceCollector
from samebits.check.outcome import says_nothing
from samebits.check.run_points import run_points
from samebits.cli.check_run import repeats_note
from samebits.errors import DeclarationError
from samebits.programs.catalogue import Locator
from samebits.programs.plan import Request, plan
from samebits.programs.program_cache import Programs
from samebits.schema.case import Arg, Case, Refusal
from samebits.schema.contract import Contract, Exemption
from samebits.schema.finding import Finding
from samebits.schema.point import Effort
from tests.support.toys import alone, double, of, run, toy, twice


def test_honest_variant_is_proved_forward_and_gradient() -> None:
    """The plain case, the same single product: the reference on the mesh and the variant, both directions."""
    results = run(toy())
    assert {(r.place.variant, r.place.direction, r.place.leaf, r.ruling.verdict) for r in results} == {
        ("double", "forward", "out", "proved"),
        ("double", "gradient", "x", "proved"),
        ("twice", "forward", "out", "proved"),
        ("twice", "gradient", "x", "proved"),
    }
    assert all(r.ruling.ok and r.run.devices == 4 and r.run.layout["x"] == "('data', None)" for r in results)


def test_elements_count_every_record_and_cotangent() -> None:
    """Forward compares one record, the gradient four cotangents; special values add a record."""

    def square(x: Any, *, factor: float = 2.0) -> Any:
        return x * factor * x

    def squared(x: Any, *, factor: float = 2.0) -> Any:
        return factor * x * x

    asked = Request(variants=("squared",), full=True)
    results = run(toy(square, squared=squared), asked)
    assert {r.place.direction: r.comparison.elements for r in results} == {"forward": 128, "gradient": 4 * 128}
    special = {"x": Arg(shape=("rows", "columns"), spec=("data",), special=("-0.0", "subnormal"))}
    found = run(toy(square, squared=squared), asked, args=special)
    assert {r.place.direction: r.comparison.elements for r in found} == {"forward": 256, "gradient": 8 * 128}


def test_a_wrong_factor_is_different_with_a_witness_and_a_replay() -> None:
    """A fault shows an element in decimal and hex, the formulas' largest difference, and the command to repeat it."""

    def wrong(x: Any, *, factor: float = 2.0) -> Any:
        return (factor + 1e-6) * x

    (found,) = run(toy(wrong=wrong), alone("wrong"))
    assert (found.ruling.verdict, found.ruling.ok) == ("different", False)
    assert found.comparison.witness is not None
    assert found.comparison.witness.index == (0, 0)
    assert found.comparison.witness.reference_hex != found.comparison.witness.optimized_hex
    assert found.comparison.witness.input == "ordinary"
    assert found.ruling.evidence is not None
    # Of two formulas the element that differs most is named: under a wrong factor, the largest one.
    assert found.ruling.evidence.startswith("not the same mathematics: out[2, 4] is 14.590233802")
    assert found.replay == (
        "samebits check toy --variant wrong --case small --dtype float32 --mesh data4 --mode auto --direction forward"
    )


def test_a_gradient_that_ignores_the_cotangent_is_different() -> None:
    """Values right, derivative right for a cotangent of one only: the loss's own scale is lost."""

    def unscaled(x: Any, *, factor: float = 2.0) -> Any:
        @jax.custom_vjp
        def scale(x: Any) -> Any:
            return x * factor

        scale.defvjp(lambda x: (x * factor, x), lambda x, ct: (jnp.where(ct == 0, 0, factor).astype(x.dtype),))
        return scale(x)

    results = run(toy(unscaled=unscaled), Request(variants=("unscaled",), full=True))
    assert of(results, variant="unscaled", direction="forward")[0].ruling.ok
    gradient = of(results, variant="unscaled", direction="gradient")[0]
    assert (gradient.ruling.verdict, gradient.comparison.mismatches) == (
        "different",
        256,
    )  # random and scaled; the one-hot cannot tell


def test_weak_types_and_dtypes_count() -> None:
    """The same numbers in another dtype, or weakly typed, are not the same output."""

    def wide(x: Any, *, factor: float = 2.0) -> Any:
        return (
            (x * factor).astype(jnp.float16).astype(jnp.float32) if x.dtype == jnp.bfloat16 else x.astype(jnp.float16)
        )

    def constant(x: Any, *, factor: float = 2.0) -> Any:
        return {"x": x, "factor": factor}

    def strong(x: Any, *, factor: float = 2.0) -> Any:
        return {"x": x, "factor": jnp.float32(factor)}

    (found,) = run(toy(wide=wide), alone("wide"))
    assert (found.comparison.kind, found.ruling.evidence) == ("dtype", "dtype: reference=float32, variant=float16")
    results = run(toy(constant, strong=strong), alone("strong"))
    assert {r.place.leaf: r.comparison.kind for r in results} == {"out['x']": None, "out['factor']": "weak type"}


def test_structure_is_compared_before_leaves() -> None:
    """A variant that returns a tuple for an array has another structure."""
    (found,) = run(toy(pair=lambda x, *, factor=2.0: (x, x)), alone("pair"))
    assert (found.ruling.verdict, found.comparison.kind) == ("different", "structure")


def test_a_side_that_does_not_repeat_is_unstable_not_different(monkeypatch: pytest.MonkeyPatch) -> None:
    """New random bits at every call; nothing is measured of them, since a callback in float64 may wait for ever."""
    rng = np.random.default_rng(0)
    monkeypatch.delattr(EvidenceCollector, "measure")

    def restless(x: Any, *, factor: float = 2.0) -> Any:
        noise = jax.pure_callback(lambda: rng.standard_normal((), np.float32), jax.ShapeDtypeStruct((), np.float32))
        return x * factor + noise

    (found,) = run(toy(restless=restless), alone("restless"))
    assert found.ruling.verdict == "unstable"
    assert found.ruling.evidence == "'restless' gave other bits when run again on the same input"


@pytest.mark.parametrize(
    ("side", "direction", "reason"),
    [
        (
            lambda x, *, factor=2.0: x * 0,
            "forward",
            "every element of 'out' is the same; a permutation of it would not show",
        ),
        (
            lambda x, *, factor=2.0: x * 0,
            "gradient",
            "the gradient of 'x' is zero for every cotangent; nothing was compared",
        ),
        (
            lambda x, *, factor=2.0: x * 0j + 1,
            "forward",
            "every element of 'out' is the same; a permutation of it would not show",
        ),
        (lambda x, *, factor=2.0: x[:0], "forward", "'out' has no elements; nothing was compared"),
        (lambda x, *, factor=2.0: {}, "forward", "returned no arrays; there is nothing to compare"),
    ],
)
def test_nothing_compared_is_an_error_never_a_pass(side: Any, direction: str, reason: str) -> None:
    """Constant outputs, zero gradients, empty leaves and empty trees on both sides."""

    def other(x: Any, *, factor: float = 2.0) -> Any:
        return side(x, factor=factor)

    (found,) = run(toy(side, other=other), alone("other", direction))
    assert (found.ruling.verdict, found.ruling.ok) == ("error", False)
    assert found.ruling.reason is not None
    assert reason in found.ruling.reason


def test_a_mesh_that_splits_nothing_is_an_error() -> None:
    """The label says four-way tensor parallel; no array is."""
    results = run(toy(), args={"x": Arg(shape=("rows", "columns"))})
    assert {r.ruling.verdict for r in results} == {"error"}
    assert results[0].ruling.reason == (
        "mesh 'data4': no argument and no output is split over 'data'; "
        "give an Arg spec=(...) with 'data', or leave that mesh out"
    )


def test_a_size_that_does_not_divide_names_the_dimension() -> None:
    """Six rows over four devices."""
    with pytest.raises(
        DeclarationError, match=r"argument 'x': dimension 0 has size 6, which does not divide by 4 \(data on mesh"
    ):
        run(toy(), cases=(Case(id="small", sizes={"rows": 6, "columns": 16}),))


def test_a_side_that_raises_is_an_error_with_its_line() -> None:
    """Tracing fails: could not run, which is not `different`."""

    def broken(x: Any, *, factor: float = 2.0) -> Any:
        raise ZeroDivisionError("cp is 0")

    found = run(toy(broken=broken), Request(variants=("broken",), full=True))
    assert {r.ruling.verdict for r in found} == {"error"}
    assert "raised ZeroDivisionError: cp is 0" in str(found[0].ruling.reason)


def test_refusals_are_held_against_their_text() -> None:
    """A documented refusal is `refused` when each side raises as documented, else `different`."""

    def refusing(x: Any, *, factor: float = 2.0) -> Any:
        raise ValueError("factor 4.0 is not odd")

    def also(x: Any, *, factor: float = 2.0) -> Any:
        return refusing(x, factor=factor)

    cases = (
        Case(
            id="small",
            sizes={"rows": 8, "columns": 16},
            statics={"factor": 4.0},
            refuses=(Refusal(error="ValueError", match="not odd"),),
        ),
    )
    assert {r.ruling.verdict for r in run(toy(refusing, also=also), cases=cases)} == {"refused"}
    (found,) = of(run(toy(refusing, twice=twice), cases=cases), variant="twice")
    assert (found.ruling.verdict, found.ruling.ok) == ("different", False)
    assert found.ruling.reason == "'twice' gave a result; expected ValueError matching 'not odd'"


def test_rounding_needs_a_contract_and_evidence() -> None:
    """A sum in another order is rounding, which a contract for bits rejects and a declaration without one accepts."""

    def summed(x: Any, *, factor: float = 2.0) -> Any:
        return jnp.sum(x * factor, axis=0)

    def pairwise(x: Any, *, factor: float = 2.0) -> Any:
        return (((x[0] + x[4]) + (x[1] + x[5])) + ((x[2] + x[6]) + (x[3] + x[7]))) * factor

    wide = {"x": Arg(shape=("rows", "columns"), spec=(None, "data"))}
    for contracts, expected in (((Contract(),), ("rounding", "bitwise", False)), ((), ("rounding", "rounding", True))):
        (found,) = run(toy(summed, pairwise=pairwise), alone("pairwise"), args=wide, contracts=contracts)
        assert (found.ruling.verdict, found.ruling.required, found.ruling.ok) == expected
    contract = Contract(direction="forward", lowest="rounding", reason="8 terms in another order: up to 3 ulps")
    (found,) = run(toy(summed, pairwise=pairwise), alone("pairwise"), args=wide, contracts=(contract,))
    assert (found.ruling.verdict, found.ruling.required, found.ruling.ok) == ("rounding", "rounding", True)
    assert found.accuracy.error_ratio is not None
    assert found.accuracy.error_ratio <= 2


def test_losing_accuracy_is_not_rounding() -> None:
    """The same mathematics with a sum in bfloat16: equal in float64, many times the reference's error."""

    def summed(x: Any, *, factor: float = 2.0) -> Any:
        return jnp.sum(x * factor, axis=0)

    def narrow(x: Any, *, factor: float = 2.0) -> Any:
        small = jnp.bfloat16 if x.dtype == jnp.float32 else x.dtype
        return jnp.sum((x * factor).astype(small), axis=0).astype(x.dtype)

    contract = Contract(lowest="rounding", reason="for this test")
    wide = {"x": Arg(shape=("rows", "columns"), spec=(None, "data"))}
    (found,) = run(toy(summed, narrow=narrow), alone("narrow"), args=wide, contracts=(contract,))
    assert (found.ruling.verdict, found.ruling.ok) == ("different", False)
    assert str(found.ruling.evidence).startswith("loses accuracy: error ")


def test_an_exemption_covers_only_the_difference_it_names() -> None:
    """A known difference passes as such; another kind of difference, or none, fails."""

    def negative(x: Any, *, factor: float = 2.0) -> Any:
        return -x * factor

    known = Exemption(variant="negative", kind="other", reason="the sign is flipped, on purpose")
    results = run(toy(negative=negative), Request(variants=("negative",), full=True), exemptions=(known,))
    assert [r.ruling.ok and r.ruling.exempt and r.ruling.required == "different" for r in results] == [True, True]
    wrong_kind = Exemption(variant="negative", kind="NaN payload", reason="not what happens")
    (result,) = run(toy(negative=negative), alone("negative"), exemptions=(wrong_kind,))
    assert not result.ruling.ok
    stale = Exemption(variant="twice", reason="was different once")
    (found,) = run(toy(), alone("twice"), exemptions=(stale,))
    assert (found.ruling.ok, found.ruling.verdict) == (False, "proved")
    assert found.ruling.reason == (
        "the exemption expects 'different' and 'proved' came out; change or remove it: was different once"
    )


def test_a_variant_that_is_the_reference_compares_nothing() -> None:
    """The same function on both sides."""
    with pytest.raises(DeclarationError, match="variant 'copy' is the reference itself; nothing would be compared"):
        run(toy(double, copy=double))


def test_explicit_mode_reaches_the_implementation() -> None:
    """In explicit mode an argument's sharding is part of its type."""
    seen: list[str] = []

    def looking(x: Any, *, factor: float = 2.0) -> Any:
        seen.append(str(jax.typeof(x).sharding.spec))
        return x * factor

    assert all(r.ruling.ok for r in run(toy(looking=looking), modes=("explicit",)))
    assert any("data" in spec for spec in seen)


# --- A variant whose outputs have another shape is different, and the others of its pair are judged all the same -----

SHAPES: dict[str, Callable[[Any], Any]] = {
    "first axis": lambda x: x.T[None],
    "last axis": lambda x: x.T[..., None],
    "flat": lambda x: x.T.reshape(-1),
    "fewer": lambda x: x.T[:2],
    "more": lambda x: jnp.concatenate([x.T, x.T]),
}


@pytest.mark.parametrize("name", ["first axis", *(pytest.param(n, marks=pytest.mark.slow) for n in list(SHAPES)[1:])])
@pytest.mark.parametrize("door", [samebits.check, samebits.prove])
def test_the_other_variants_are_judged(name: str, door: Callable[..., Any]) -> None:
    """At points that a proof alone decides too: each gradient pulls back cotangents of its own shape."""
    pair = Pair(
        name="shapes",
        reference=lambda x: x.T,
        variants={"good": lambda x: jnp.swapaxes(x, 0, 1), "other": SHAPES[name], "last": lambda x: jnp.transpose(x)},
        args={"x": Arg(shape=("n", "n"), spec=("dp",))},
        cases=(Case(id="a", sizes={"n": 4}), Case(id="b", sizes={"n": 8})),
        dtypes=("float32", "bfloat16"),
        meshes=("none", "dp2"),
    )
    verdicts = {(leaf.place.variant, leaf.ruling.verdict) for leaf in door(pair).leaves}
    assert verdicts == {("<lambda>", "proved"), ("good", "proved"), ("last", "proved"), ("other", "different")}


# --- outputs whose tree structure differs from the reference are different, whatever the proofs of the leaves say ----


@pytest.mark.parametrize("change", ["fewer", "more", "moved"])
def test_another_tree_of_outputs_is_a_difference(change: str) -> None:
    """Proofs hold leaves against each other by their place; another number of them once ended in an IndexError."""

    def plain(x: Any) -> Any:
        return {"a": x, "b": {"c": 2 * x, "d": jnp.int32(3)}, "e": x > 0}

    def other(x: Any) -> Any:
        tree = plain(x)
        if change == "more":
            return tree | {"c": x}
        last = tree["b"].pop("d")
        return tree | {"z": last} if change == "moved" else tree

    pair = Pair(
        name="trees",
        reference=plain,
        variants={"other": other},
        args={"x": Arg(shape=(4,))},
        cases=(Case(id="small"),),
        dtypes=("float32",),
        meshes=("data1",),
        modes=("auto",),
        gradients=False,
    )
    points = plan(pair, Request(variants=("other",)), 8).points
    results = list(run_points(pair, Locator(name="trees"), points, Programs()))
    assert [(one.place.leaf, one.ruling.verdict) for one in results] == [("out", "different")], results
    assert "structure" in str(results[0].ruling.evidence)


# --- values that say nothing: without elements, constant, or gradients of zeros --------------------------------------

DTYPES = (np.float32, ml_dtypes.bfloat16, ml_dtypes.float4_e2m1fn, np.complex64, np.complex128)


@pytest.mark.parametrize("dtype", DTYPES)
def test_zeros_and_constants_say_nothing_in_every_dtype(dtype: Any) -> None:
    zeros, ones = np.zeros((4, 2), dtype), np.ones((4, 2), dtype)
    signed = np.array([0.0, -0.0], np.float32).astype(dtype)
    assert says_nothing([zeros, signed], "x", "gradient") is not None
    assert says_nothing([zeros, ones], "x", "gradient") is None
    assert says_nothing([ones, signed], "out", "forward") is not None
    assert says_nothing([ones, np.arange(4).astype(dtype)], "out", "forward") is None
    assert says_nothing([zeros[:0]], "out", "forward") is not None


def test_either_part_of_a_complex_number_counts() -> None:
    imaginary = np.array([0j, 1j], np.complex64)
    assert says_nothing([imaginary], "x", "gradient") is None
    assert says_nothing([imaginary], "out", "forward") is None


@pytest.mark.parametrize("direction", ["forward", "gradient"])
def test_one_number_that_is_nowhere_finite_says_nothing(direction: str) -> None:
    """A loss with the root of a drawn argument: two other formulas would have equal bits."""
    nan, infinite, one = (np.float32(number) for number in (np.nan, np.inf, 1))
    for arrays in ([nan, nan], [infinite, nan]):
        assert "infinite or NaN at every input" in str(says_nothing([np.asarray(a) for a in arrays], "out", direction))
    assert says_nothing([np.asarray(nan), np.asarray(one)], "out", direction) is None


# --- calls for their side effects alone are not compared; where a variant has fewer or more of them, that is said ----

SAYS = "calls `io_callback` at 0 places, '_logged' at 1: side effects are not compared"


def _logged(x: Any, *, factor: float = 2.0) -> Any:
    io_callback(lambda value: None, None, x.sum())
    return x * factor


def _silent(x: Any, *, factor: float = 2.0) -> Any:
    return x * factor


def _logged_too(x: Any, *, factor: float = 2.0) -> Any:
    return _logged(x, factor=factor)


def test_a_side_effect_that_is_gone_is_said() -> None:
    results = run(toy(_logged, silent=_silent, logged=_logged_too), gradients=False)
    (silent,), (logged,) = of(results, variant="silent"), of(results, variant="logged")
    assert SAYS in str(silent.ruling.evidence)
    assert "side effects" not in str(logged.ruling.evidence)


# --- `--repeat N`: a side whose bits change occasionally is found with enough runs, and the probability is printed ---


def flaky_pair() -> Pair:
    """A toy whose variant flips the last bit of one element in every twentieth call."""
    calls = itertools.count(1)

    def produced(x: Any) -> Any:
        found = np.array(x)
        if next(calls) % 20 == 0:
            found.reshape(-1).view(np.uint32)[0] ^= 1
        return found

    def flaky(x: Any, *, factor: float = 2.0) -> Any:
        return jax.pure_callback(produced, jax.ShapeDtypeStruct(x.shape, x.dtype), x * factor)

    return toy(flaky=flaky)


def found(repeats: int) -> Finding:
    rounding = Contract(lowest="rounding", reason="for this test")
    effort = Effort(repeats=repeats)
    (result,) = run(flaky_pair(), alone("flaky"), effort=effort, meshes=("data1",), contracts=(rounding,))
    return result


def test_one_in_twenty_is_found_with_enough_repeats() -> None:
    assert found(2).ruling.verdict != "unstable"
    often = found(24)
    assert (often.ruling.verdict, often.ruling.ok) == ("unstable", False)
    assert often.ruling.evidence == "'flaky' gave other bits when run again on the same input"


def test_every_repeat_is_compared_with_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A difference in the middle is not forgotten where the last run agrees again."""
    assert found(21).ruling.verdict == found(30).ruling.verdict == "unstable"


@pytest.mark.parametrize(("repeats", "percent"), [(3, "14.3%"), (20, "64.2%"), (60, "95.4%")])
def test_the_probability_is_printed(repeats: int, percent: str) -> None:
    (note,) = repeats_note(repeats)
    assert note.startswith(f"--repeat {repeats}: each program ran {repeats} times on its first input; ")
    assert note.endswith(f"in 1 of 20 runs is seen with probability {percent}")


def test_two_runs_are_usual_and_need_no_words() -> None:
    assert repeats_note(2) == []


# --- copies of one output on several devices: all are compared, on every input ---------------------------------------


def test_replicas_that_diverge_are_different() -> None:
    """Each device keeps its own value of what the sharding calls one replicated array."""

    def summed(x: Any, *, factor: float = 2.0) -> Any:
        return jnp.sum(x * 0, axis=0) + jnp.arange(16, dtype=x.dtype)

    def local(x: Any, *, factor: float = 2.0) -> Any:
        def body(x: Any) -> Any:
            return jnp.sum(x * 0, axis=0) + jnp.arange(16, dtype=x.dtype) + jax.lax.axis_index("data")

        return jax.shard_map(body, in_specs=P("data"), out_specs=P(), check_vma=False)(x)

    results = of(run(toy(summed, local=local), gradients=False), variant="local")
    assert [r.ruling.verdict for r in results] == ["bitwise", "different", "different", "different"]
    assert results[1].place.leaf == "out (replica on device 1)"


def test_replicas_that_differ_for_special_values_are_different() -> None:
    """The first record has no infinity; in the second, every device gives another number for it."""

    def largest(x: Any, *, factor: float = 2.0) -> Any:
        return jnp.max(x, axis=0)

    def local(x: Any, *, factor: float = 2.0) -> Any:
        def body(x: Any) -> Any:
            found = jax.lax.pmax(jnp.max(x, axis=0), "data")
            return jnp.where(jnp.isinf(found), jnp.where(jax.lax.axis_index("data") == 0, found, 0), found)

        return jax.shard_map(body, in_specs=P("data"), out_specs=P(), check_vma=False)(x)

    special = {"x": Arg(shape=("rows", "columns"), spec=("data",), special=("inf",))}
    results = of(run(toy(largest, local=local), args=special, gradients=False), variant="local")
    assert {r.place.leaf: r.ruling.verdict for r in results if r.place.leaf != "out"} == {
        f"out (replica on device {device})": "different" for device in (1, 2, 3)
    }

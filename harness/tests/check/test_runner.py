"""The runner: what is compared with what, and every reason why a point gives no result."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from samebits.errors import DeclarationError
from samebits.programs.plan import Request
from samebits.schema.case import Arg, Case, Refusal
from samebits.schema.contract import Contract, Exemption
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


def test_a_side_that_does_not_repeat_is_unstable_not_different() -> None:
    """New random bits at every call."""
    rng = np.random.default_rng(0)

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

"""Sharding constraints: all of them emitted, against skipping those that split nothing, or dropping axes of size one.

Constraints are no arithmetic: the values are proved to be the same, forward and gradient. What skipping changes is the
layout, which no value shows. `LAYOUTS` declares how each side's result lies, measured on CPU (jax 0.10.2, 8 devices),
and a test holds the compiled programs against it; helpers that are wrong in the layout alone are seen by that test.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

from samebits import (
    Arg,
    Case,
    Contract,
    Documented,
    Domain,
    Pair,
    RealSize,
    Refusal,
    assert_same_bits,
    compile_test,
    implementation,
    pair_test,
)

SIZES = {"batch": 8, "embed": 4}
MESH = "fsdp4_tensor2_context1_stage1"
DOMAIN = Domain(no_negative_zero=("cotangents",), no_subnormal=("cotangents",), no_signalling_nan=("cotangents",))

SPECS: dict[str, Any] = {
    "split": (("fsdp",), "tensor"),
    "moved": ("tensor", "fsdp"),
    "trivial": (None, ()),
    "one": ("stage", ("context",)),
    "mixed": (("stage", "fsdp"), None),
    "free": ("*", "tensor"),
    "all_free": ("*", "*"),
    "half_free": ("*", None),
    "second": (None, "tensor"),
    "longer": ("fsdp", None, "stage"),
}

_ALL = ("every_constraint", "no_trivial", "no_size_one", "lean")
_AS_IT_WAS, _GATHERED = (2, 2), (8, 4)
LAYOUTS: dict[str, dict[str, tuple[int, int]]] = {
    "split": dict.fromkeys(_ALL, (2, 2)),
    "moved": dict.fromkeys(_ALL, (4, 1)),
    # FINDING: an array split 4 x 2 is gathered by a trivial constraint, by two all-gathers, and stays split without it.
    "trivial": {"every_constraint": _GATHERED, "no_trivial": _AS_IT_WAS, "no_size_one": _GATHERED, "lean": _AS_IT_WAS},
    # FINDING: the order matters. Axes of size one first, then the question whether anything is left: it is skipped too.
    "one": {"every_constraint": _GATHERED, "no_trivial": _GATHERED, "no_size_one": _GATHERED, "lean": _AS_IT_WAS},
    "mixed": dict.fromkeys(_ALL, (2, 4)),
    "free": dict.fromkeys(_ALL, _AS_IT_WAS),
    "all_free": dict.fromkeys(_ALL, _AS_IT_WAS),
    # A free dimension is not one that is not split: the constraint gathers the other, and is not trivial.
    "half_free": dict.fromkeys(_ALL, (2, 4)),
    "second": dict.fromkeys(_ALL, (8, 2)),
    "longer": dict.fromkeys(_ALL, (2, 4)),
}
"""The shape of one device's piece of an array of 8 x 4 that came split over `fsdp` and `tensor`, by spec and side."""


def _case(name: str, *modes: Any, spec: Any = None, refuses: tuple[Refusal, ...] = (), **sums: Any) -> Case:
    return Case(id=name, sizes=SIZES, statics={"spec": spec or SPECS[name], **sums}, modes=modes, refuses=refuses)


PAIR = Pair(
    name="sharding_constraint",
    reference="every_constraint",
    variants=("no_trivial", "no_size_one", "lean"),
    args={
        "x": Arg(
            shape=("batch", "embed"),
            spec=("fsdp", "tensor"),
            special=("-0.0", "nan", "nan_payload", "inf", "-inf", "subnormal", "largest"),
        )
    },
    cases=(
        _case("moved", "explicit"),
        _case("trivial", "auto", "explicit"),
        _case("one", "explicit"),
        _case("mixed", "auto"),
        _case("free", "auto"),
        _case("longer", "auto"),
        _case("reduced", "explicit", spec=SPECS["trivial"], reduced=("fsdp",)),
        _case("unreduced", "explicit", spec=SPECS["one"], unreduced=("fsdp",)),
        _case(
            "twice",
            "explicit",
            spec=("fsdp", ("tensor", "fsdp")),
            refuses=(Refusal(error="ValueError", match="names the axis 'fsdp' twice; expected each axis once"),),
        ),
    ),
    dtypes=("float32",),
    meshes=(MESH,),
    modes=("auto", "explicit"),
    compiled=(
        *(
            RealSize(
                case=Case(id=f"real_{name}", sizes={"batch": 16384, "embed": 8192}, statics={"spec": SPECS[name]}),
                layout="fsdp*_tensor2_context1_stage1",
                dtype="bfloat16",
                targets=("cpu", "v5p:2x2x1", "tpu7x:2x2x1"),
            )
            for name in ("trivial", "mixed")
        ),
    ),
    documented=(
        Documented(
            id="3922.4a",
            document="MaxText #3922, items 4a, 6 and 10b: utils/sharding.py",
            says="a constraint whose spec is trivial does nothing, and leaving it out saves a copy",
            variants=("no_trivial",),
            saves="temp_bytes",
            finding="a trivial constraint gathers an array that is split; without it the array stays split: values "
            "are the same, the layout is not",
            tests=(
                "test_the_result_lies_as_declared",
                "test_what_skipping_saves_is_the_gathering",
            ),
        ),
        Documented(
            id="3922.4b",
            document="MaxText #3922, item 4b: utils/sharding.py",
            says="mesh axes of size one may be taken out of a spec",
            variants=("no_size_one",),
            saves="temp_bytes",
            finding="in explicit mode a type without an axis of size one is another type, and neighbours must leave "
            "it out too",
            tests=("test_explicit_types_keep_axes_of_size_one",),
        ),
    ),
    contracts=(Contract(lowest="proved"), Contract(direction="gradient", lowest="proved", domain=DOMAIN)),
)

test_sharding_constraint = pair_test(PAIR)
test_compiled = pytest.mark.slow(compile_test(PAIR))

SIDES = pytest.mark.parametrize("side", PAIR.sides)
MODES = pytest.mark.parametrize("mode", ["auto", "explicit"])


def _mesh(mode: str) -> Any:
    import jax
    from jax.sharding import AxisType

    names = ("fsdp", "tensor", "context", "stage")
    kind = AxisType.Auto if mode == "auto" else AxisType.Explicit
    return jax.make_mesh((4, 2, 1, 1), names, axis_types=(kind,) * 4)


def _laid(side: str, spec: Any) -> Any:
    import jax

    return jax.jit(functools.partial(implementation(PAIR, side), spec=spec))


def _array(mesh: Any) -> Any:
    import jax

    return jax.device_put(
        np.arange(32, dtype=np.float32).reshape(8, 4), jax.NamedSharding(mesh, jax.P("fsdp", "tensor"))
    )


@pytest.mark.sampled(16)
@pytest.mark.cpu_only
@SIDES
@MODES
@pytest.mark.parametrize("name", LAYOUTS)
def test_the_result_lies_as_declared(side: str, mode: str, name: str) -> None:
    """In both modes the same, and a piece of the shape that `LAYOUTS` gives is on every device."""
    import jax

    with jax.set_mesh(_mesh(mode)):
        x = _array(jax.sharding.get_mesh())
        found = _laid(side, SPECS[name])(x)
    assert found.sharding.shard_shape(found.shape) == LAYOUTS[name][side]
    assert_same_bits(found, x)


def _first_only(spec: Any, sums: Any) -> bool:
    return spec[0] in (None, ())


def _free_is_none(spec: Any, sums: Any) -> bool:
    return all(entry in (None, (), "*") for entry in spec)


def _collapsed(spec: Any, mesh: Any) -> list[Any]:
    """The first axis of a tuple in place of the tuple."""
    firsts = [entry[0] if isinstance(entry, tuple) and entry else entry for entry in spec]
    return [None if entry in ("stage", "context") else entry for entry in firsts]


def _too_many(spec: Any, mesh: Any) -> list[Any]:
    """Axes of size two left out as well."""
    return [entry if entry is None or mesh.shape.get(entry, 4) > 2 else None for entry in spec]


@pytest.mark.cpu_only
@MODES
@pytest.mark.parametrize(
    ("side", "helper", "wrong", "name"),
    [
        ("no_trivial", "_trivial", _first_only, "second"),
        ("no_trivial", "_trivial", _free_is_none, "half_free"),
        ("no_trivial", "_trivial", lambda spec, sums: False, "trivial"),
        ("lean", "_without_size_one", lambda spec, mesh: list(spec), "one"),
        ("no_size_one", "_without_size_one", _collapsed, "mixed"),
        ("no_size_one", "_without_size_one", _too_many, "second"),
        ("lean", "_trivial", lambda spec, sums: True, "mixed"),
    ],
)
def test_a_wrong_layout_is_found_though_the_values_are_right(
    monkeypatch: pytest.MonkeyPatch, mode: str, side: str, helper: str, wrong: Any, name: str
) -> None:
    import jax

    monkeypatch.setitem(implementation(PAIR, side).__globals__, helper, wrong)
    with jax.set_mesh(_mesh(mode)):
        x = _array(jax.sharding.get_mesh())
        found = _laid(side, SPECS[name])(x)
    assert_same_bits(found, x)
    assert found.sharding.shard_shape(found.shape) != LAYOUTS[name][side]


@pytest.mark.cpu_only
@MODES
def test_what_skipping_saves_is_the_gathering(mode: str) -> None:
    """Two all-gathers of a split array; of one that is whole, nothing: the programs have no copy and no collective."""
    import jax

    with jax.set_mesh(_mesh(mode)):
        split = _array(jax.sharding.get_mesh())
        whole = jax.device_put(split, jax.NamedSharding(jax.sharding.get_mesh(), jax.P()))
        texts = {
            (side, name): _laid(side, SPECS["trivial"]).lower(x).compile().as_text()
            for side in ("every_constraint", "no_trivial")
            for name, x in (("split", split), ("whole", whole))
        }
    gathers = {key: text.count("all-gather(") for key, text in texts.items()}
    assert gathers == {
        ("every_constraint", "split"): 2,
        ("every_constraint", "whole"): 0,
        ("no_trivial", "split"): 0,
        ("no_trivial", "whole"): 0,
    }


@pytest.mark.cpu_only
def test_explicit_types_keep_axes_of_size_one() -> None:
    """FINDING: a type without an axis of size one is another type, although every device holds the same piece."""
    import jax

    with jax.set_mesh(_mesh("explicit")):
        x = _array(jax.sharding.get_mesh())
        specs = {side: _laid(side, SPECS["one"])(x).sharding.spec for side in PAIR.sides}
    assert specs["every_constraint"] == specs["no_trivial"] == jax.P("stage", "context")
    assert specs["no_size_one"] == jax.P(None, None)
    assert specs["lean"] == jax.P("fsdp", "tensor")


SUMS: dict[str, tuple[Any, dict[str, Any], str, str]] = {
    "reduced": (SPECS["trivial"], {"reduced": ("fsdp",)}, "[8,4]{R:fsdp}", "[8,4]{R:fsdp}"),
    "unreduced": (SPECS["trivial"], {"unreduced": ("fsdp",)}, "[8,4]{U:fsdp}", "[8,4]{U:fsdp}"),
    # An axis of size one leaves the entries, and stays where it is reduced: it is no entry.
    "of_size_one": (
        ("stage", "tensor"),
        {"reduced": ("fsdp", "context")},
        "[8@stage,4@tensor]{R:(fsdp,context)}",
        "[8,4@tensor]{R:(fsdp,context)}",
    ),
}
"""Specs with reduced and unreduced axes; the types with axes of size one, and without them."""


@pytest.mark.sampled(3)
@pytest.mark.cpu_only
@SIDES
@pytest.mark.parametrize("name", SUMS)
def test_reduced_and_unreduced_axes_are_kept_and_never_trivial(side: str, name: str) -> None:
    """The type as declared; the parts summed up are the array, and the gradient is split as the array was."""
    import jax
    import jax.numpy as jnp

    spec, sums, emitted, lean = SUMS[name]
    told = functools.partial(implementation(PAIR, side), spec=spec, **sums)

    def settled(x: Any) -> Any:
        return jax.reshard(told(x), jax.P(None, None))

    with jax.set_mesh(_mesh("explicit")):
        x = _array(jax.sharding.get_mesh())
        kept = side in ("every_constraint", "no_trivial")
        assert str(jax.typeof(jax.jit(told)(x))) == "float32" + (emitted if kept else lean)
        assert_same_bits(jax.jit(settled)(x), x)
        slope = jax.jit(jax.grad(lambda x: jnp.sum(3.0 * settled(x))))(x)
        assert slope.sharding.spec == jax.P("fsdp", "tensor")
        assert_same_bits(slope, np.full((8, 4), 3.0, np.float32))


@pytest.mark.sampled(2)
@pytest.mark.cpu_only
@SIDES
def test_the_gradient_of_reduced_weights_is_summed_once(side: str) -> None:
    """FINDING: a trivial spec with reduced axes saves an all-reduce in every turn, so it must not be skipped."""
    assert _where_summed(side, ("fsdp",)) == "ENTRY"
    assert _where_summed(side, ()) == "in the loop"


@pytest.mark.cpu_only
@pytest.mark.parametrize("side", ["no_trivial", "lean"])
def test_a_skip_that_looks_at_entries_alone_sums_in_every_turn(monkeypatch: pytest.MonkeyPatch, side: str) -> None:
    kept = implementation(PAIR, side).__globals__
    monkeypatch.setitem(kept, "_trivial", lambda spec, sums: all(entry in (None, ()) for entry in spec))
    assert _where_summed(side, ("fsdp",)) == "in the loop"


def _where_summed(side: str, reduced: tuple[str, ...]) -> str:
    """Which computation holds the one all-reduce of the gradient of weights that a loop over batches uses."""
    import jax
    import jax.numpy as jnp

    def loss(weights: Any, batches: Any) -> Any:
        told = implementation(PAIR, side)(weights, spec=(None, None), reduced=reduced)
        return jax.lax.scan(lambda sum_, x: (sum_ + jnp.sum(jnp.tanh(x @ told)), None), jnp.float32(0), batches)[0]

    mesh = _mesh("explicit")
    with jax.set_mesh(mesh):
        weights = jax.device_put(np.ones((4, 4), np.float32), jax.NamedSharding(mesh, jax.P()))
        batches = jax.device_put(np.ones((3, 8, 4), np.float32), jax.NamedSharding(mesh, jax.P(None, "fsdp")))
        text = jax.jit(jax.grad(loss)).lower(weights, batches).compile().as_text() or ""
    (home,) = [part for part in text.split("\n\n") if " all-reduce(" in part]
    return "ENTRY" if home.lstrip().startswith("ENTRY") else "in the loop"


@SIDES
def test_without_a_mesh_nothing_is_laid_out(side: str) -> None:
    import jax

    x = np.arange(8, dtype=np.int32).reshape(2, 4)
    assert_same_bits(_laid(side, SPECS["split"])(x), x)
    assert not jax.make_jaxpr(_laid(side, SPECS["split"]))(x).jaxpr.eqns[0].params["jaxpr"].eqns


@pytest.mark.devices(8)
@SIDES
@MODES
@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (("data", None), r"spec \('data', None\) names the axis 'data'; expected axes of the mesh: \('fsdp', "),
        ((None, ("stage", "stage")), r"names the axis 'stage' twice; expected each axis once"),
    ],
)
def test_a_wrong_spec_is_refused_though_it_splits_nothing(side: str, mode: str, spec: Any, said: str) -> None:
    """Before anything is skipped or left out: an axis that is not there is no axis of size one."""
    import jax

    with jax.set_mesh(_mesh(mode)), pytest.raises(ValueError, match=said):
        _laid(side, spec)(_array(jax.sharding.get_mesh()))


@pytest.mark.devices(8)
@SIDES
def test_axes_to_reduce_are_refused_where_they_are_auto(side: str) -> None:
    """Before anything is skipped: of a spec that splits nothing jax would not be asked."""
    import jax

    said = r"axes \('fsdp',\) are to be reduced or unreduced; expected a mesh of explicit axes, got auto"
    for sums in ({"reduced": ("fsdp",)}, {"unreduced": ("fsdp",)}):
        told = functools.partial(implementation(PAIR, side), spec=(None, None), **sums)
        with jax.set_mesh(_mesh("auto")), pytest.raises(ValueError, match=said):
            jax.jit(told)(_array(jax.sharding.get_mesh()))

"""Functions of libraries take the declared arguments, whatever kinds of parameters they have."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec
from jax.sharding import PartitionSpec as P

import samebits
from samebits.compile.devices import target_mesh
from samebits.errors import DeclarationError
from samebits.programs.implementations import bind, order_remark, other_defaults, parameters_of, signature_text
from samebits.programs.like import like
from samebits.programs.side_call import check_bijection, dotted, is_ignored, without_ignored
from samebits.schema.argument_trees import ArgTree
from samebits.schema.meshes import Mode
from samebits.schema.values import Given, Normal
from tests.hlo.programs import V5E, needs_libtpu

VALUES = {"q": 1, "k": 2, "scale": 3}


def _named(q: Any, k: Any, *, scale: Any) -> Any:
    return ("named", q, k, scale)


def _positional_only(q: Any, k: Any, /, scale: Any = 0) -> Any:
    return ("positional", q, k, scale)


def _keyword_only(*, k: Any, q: Any, scale: Any, extra: Any = 7) -> Any:
    return ("keyword", q, k, scale, extra)


def _other_names(query: Any, key: Any, scale: Any = 1) -> Any:
    return ("renamed", query, key, scale)


def _collects(q: Any, **more: Any) -> Any:
    return ("collected", q, more["k"], more["scale"])


class _Module:
    def __call__(self, q: Any, k: Any, scale: Any) -> Any:
        return ("object", q, k, scale)

    def method(self, q: Any, k: Any, scale: Any) -> Any:
        return ("method", q, k, scale)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (_named, ("named", 1, 2, 3)),
        (_positional_only, ("positional", 1, 2, 3)),
        (_keyword_only, ("keyword", 1, 2, 3, 7)),
        (_other_names, ("renamed", 1, 2, 3)),
        (_collects, ("collected", 1, 2, 3)),
        (_Module(), ("object", 1, 2, 3)),
        (_Module().method, ("method", 1, 2, 3)),
        (functools.partial(_keyword_only, extra=9), ("keyword", 1, 2, 3, 9)),
    ],
)
def test_every_kind_of_parameter_takes_its_value(function: Callable[..., Any], expected: Any) -> None:
    binding = bind("here", function, VALUES, {"q": "query", "k": "key"})
    assert binding.call(function, VALUES) == expected


def test_without_a_signature_arguments_go_by_position() -> None:
    assert parameters_of(min) is None
    assert bind("here", min, ["a", "b"], {}).call(min, {"a": 5, "b": 4}) == 4


def test_a_name_that_both_sides_have_is_not_renamed() -> None:
    binding = bind("here", _named, VALUES, {"q": "k"})
    assert binding.call(_named, VALUES) == ("named", 1, 2, 3)


@pytest.mark.parametrize(
    ("function", "names", "rename", "message"),
    [
        (
            _other_names,
            ("q", "k"),
            {},
            "here takes (query, key, scale=1), and no parameter 'q'; declare its own names, or map them: "
            "rename={'q': ...}",
        ),
        (
            _named,
            ("q", "k"),
            {},
            "here takes (q, k, *, scale) and is called with q, k: 'scale' is missing; declare it in args or statics, "
            "or give it a default",
        ),
        (
            lambda x, *, mesh: None,
            ("x",),
            {},
            "'mesh' is missing; declare it in args or statics, as in statics={'mesh': ContextMesh()} for the mesh of "
            "the point, or give it a default",
        ),
        (_other_names, ("q", "k"), {"q": "key", "k": "key"}, "here: 'k' and another argument are both given as 'key'"),
        (
            lambda first=1, second=2, /: None,
            ("second",),
            {},
            "'second' can only be passed by position, so 'first' before it must be declared too",
        ),
    ],
)
def test_what_a_function_does_not_take_is_one_line(
    function: Callable[..., Any], names: tuple[str, ...], rename: dict[str, str], message: str
) -> None:
    with pytest.raises(DeclarationError) as raised:
        bind("here", function, names, rename)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_defaults_that_differ_and_nobody_gives_are_found() -> None:
    def first(x: Any, eps: float = 1e-5, axis: int = -1, table: Any = None) -> None: ...

    def second(x: Any, eps: float = 1e-6, axis: int = -1, other: int = 3, table: Any = None) -> None: ...

    assert other_defaults(first, second, ["x"]) == {"eps": (1e-5, 1e-6)}
    assert other_defaults(first, second, ["x", "eps"]) == {}


def test_a_default_of_another_type_counts_as_different() -> None:
    def first(x: Any, on: Any = 1) -> None: ...

    def second(x: Any, on: Any = True) -> None: ...

    assert other_defaults(first, second, ["x"]) == {"on": (1, True)}


def test_a_signature_is_shown_without_annotations() -> None:
    assert signature_text(_named) == "(q, k, *, scale)"


def _swapped(k: Any, q: Any, *, scale: Any) -> Any:
    return ("swapped", q, k, scale)


def _swapped_names(key: Any, q: Any) -> Any:
    return ("swapped", q, key)


@pytest.mark.parametrize(
    ("variant", "names", "rename", "moved"),
    [
        (_swapped, "qk", {}, "q and k"),
        (_swapped, "q", {}, None),
        (_swapped_names, "qk", {"k": "key"}, "q and k"),
        (_positional_only, "qk", {}, None),
        (_keyword_only, "qk", {}, None),
        (max, "qk", {}, None),
    ],
)
def test_another_order_of_parameters_is_remarked(
    variant: Callable[..., Any], names: str, rename: dict[str, str], moved: str | None
) -> None:
    remark = order_remark(_named, variant, (*names, "scale"), rename, "fast")
    assert remark == (
        moved
        and f"fast takes {moved} in another order: they are matched by name here, and a call by position would "
        "exchange them"
    )


# --- A map between two trees of parameters must lose nothing; each planted loss is one line that names the leaf ------

LEAVES = {
    "q": jax.ShapeDtypeStruct((4, 6), jnp.float32),
    "k": jax.ShapeDtypeStruct((4, 6), jnp.bfloat16),
    "b": jax.ShapeDtypeStruct((3,), jnp.float32),
}

HONEST: dict[str, Callable[[dict[str, Any]], Any]] = {
    "as it is": lambda t: t,
    "fused": lambda t: {"qk": jnp.concatenate([t["q"], t["k"]], axis=1), "b": t["b"]},
    "stacked": lambda t: (jnp.stack([t["q"], t["k"]]), t["b"]),
    "transposed": lambda t: [t["q"].T, t["k"].reshape(2, 12), t["b"][::-1]],
    "split": lambda t: [*jnp.split(t["q"], 3, axis=1), t["k"], t["b"], "a word", None],
}

WRONG: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "a leaf is lost": (lambda t: [t["q"], t["k"]], "3 of 3 elements of leaf 'b' are lost"),
    "a row is lost": (lambda t: [t["q"][1:], t["k"], t["b"]], "6 of 24 elements of leaf 'q' are lost"),
    "one leaf for another": (lambda t: [t["q"], t["q"], t["b"]], "24 of 24 elements of leaf 'q' arrive 2 times"),
    "scaled": (lambda t: [2 * t["q"], t["k"], t["b"]], "leaf '[0]' holds a value that no leaf brought"),
    "rounded": (lambda t: [t["q"].astype(jnp.bfloat16), t["k"], t["b"]], "convert_element_type"),
    "zeros added": (lambda t: [t["q"], t["k"], t["b"], jnp.zeros(2)], "leaf '[3]' holds a value that no leaf brought"),
    "summed": (lambda t: [t["q"] + t["k"], t["b"]], "leaf '[0]' holds a value that no leaf brought"),
}


@pytest.mark.parametrize("name", HONEST)
def test_a_map_that_moves_everything_passes(name: str) -> None:
    check_bijection("here", LEAVES, HONEST[name])


@pytest.mark.parametrize("name", WRONG)
def test_a_map_that_loses_something_is_named(name: str) -> None:
    mapped, message = WRONG[name]
    with pytest.raises(DeclarationError) as raised:
        check_bijection("pair 'p': adapt of 'v', arguments", LEAVES, mapped)
    assert str(raised.value).startswith("pair 'p': adapt of 'v', arguments: ")
    assert message in str(raised.value)


def test_an_empty_leaf_brings_nothing() -> None:
    empty = {"x": jax.ShapeDtypeStruct((0, 3), jnp.float32)}
    check_bijection("here", empty, lambda t: t["x"].T)
    with pytest.raises(DeclarationError, match="holds a value that no leaf brought"):
        check_bijection("here", empty, lambda t: jnp.ones(2, jnp.int32))


def test_random_keys_are_moved_too() -> None:
    leaves = {"key": jax.eval_shape(lambda: jax.random.split(jax.random.key(0), 3))}
    check_bijection("here", leaves, lambda t: [t["key"][2], t["key"][:2]])
    with pytest.raises(DeclarationError, match="of leaf 'key' are lost"):
        check_bijection("here", leaves, lambda t: t["key"][1:])


def test_it_works_while_a_function_is_traced() -> None:
    def traced(x: Any) -> Any:
        check_bijection("here", {"x": x}, lambda t: t["x"].T)
        return x

    jax.jit(traced).trace(jax.ShapeDtypeStruct((2, 3), jnp.float32))


@needs_libtpu
@pytest.mark.parametrize("mode", ["auto", "explicit"])
def test_under_the_mesh_of_a_slice_that_runs_nothing(mode: Mode) -> None:
    built = target_mesh(V5E, "data*", mode)

    def traced(mapped: Callable[[dict[str, Any]], Any]) -> None:
        def side(x: Any) -> Any:
            check_bijection("here", LEAVES, mapped)
            return x

        with jax.set_mesh(built):
            jax.jit(side).trace(jax.ShapeDtypeStruct((8,), jnp.float32))

    def constrained(tree: dict[str, Any]) -> Any:
        return jax.tree.map(lambda leaf: jax.lax.with_sharding_constraint(leaf, PartitionSpec()), tree)

    for mapped in (HONEST["fused"], constrained) if mode == "auto" else (HONEST["fused"],):
        traced(mapped)
    with pytest.raises(DeclarationError, match="3 of 3 elements of leaf 'b' are lost"):
        traced(WRONG["a leaf is lost"][0])


# --- pytrees of arrays as declarations: their leaves by path, built again with everything in them that is not an array


class Weights(NamedTuple):
    kernel: Any
    bias: Any


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Block:
    inner: Weights
    act: Any = dataclasses.field(metadata={"static": True})


def _built(tree: ArgTree) -> Any:
    return tree.build([jnp.zeros(arg.shape, arg.dtype) for arg in tree.args])


def test_leaves_are_named_as_jax_prints_them() -> None:
    block = Block(inner=Weights(kernel=jnp.ones((2, 3)), bias=jax.ShapeDtypeStruct((3,), jnp.bfloat16)), act=jnp.tanh)
    tree = like({"layers": [block, None], "rate": 0.5})
    assert tree.paths == ("['layers'][0].inner.kernel", "['layers'][0].inner.bias")
    assert [(arg.shape, arg.dtype) for arg in tree.args] == [((2, 3), "float32"), ((3,), "bfloat16")]
    assert isinstance(tree.args[0].values, Given)
    assert isinstance(tree.args[1].values, Normal)


def test_what_is_no_array_is_passed_on_as_it_is() -> None:
    tree = like({"w": np.ones(2, np.float32), "rate": 0.5, "act": jnp.tanh, "none": None, "name": "gelu"})
    built = _built(tree)
    assert (built["rate"], built["act"], built["none"], built["name"]) == (0.5, jnp.tanh, None, "gelu")


def test_a_random_key_is_its_words() -> None:
    for impl, words in (("threefry2x32", 2), ("rbg", 4)):
        (arg,) = like(jax.random.key(3, impl=impl)).args
        assert arg.shape == ()
        assert str(arg.dtype).startswith("key<")
        assert np.asarray(arg.values.array).shape == (words,)  # type: ignore[union-attr]


@pytest.mark.slow
def test_a_weak_type_stays_weak() -> None:
    weak = jnp.asarray(2.0)
    assert weak.weak_type
    assert [arg.weak_type for arg in like([weak, jnp.float32(2)]).args] == [True, False]
    # A strong float32 would make the product float32, and the comparison of the two sides another one.
    compared = samebits.check(lambda x, s: x * s, lambda x, s: s * x, jnp.ones((2, 3), jnp.bfloat16), weak)
    assert compared.ok
    assert samebits.check(lambda x, s: x * s, lambda x, s: x * s.astype(x.dtype), jnp.ones(3, jnp.bfloat16), weak).ok


def test_specs_may_be_a_prefix_of_the_tree() -> None:
    tree = {"a": {"x": jnp.ones((4, 2)), "y": jnp.ones(4)}, "b": jnp.ones(2)}
    assert [arg.spec for arg in like(tree, specs=P("dp")).args] == [("dp",)] * 3
    assert [arg.spec for arg in like(tree, specs={"a": P("dp"), "b": None}).args] == [("dp",), ("dp",), ()]


def test_specs_of_another_tree_are_one_line() -> None:
    tree = {"a": jnp.ones(4), "b": jnp.ones(4)}
    with pytest.raises(DeclarationError, match=r"do not fit the arguments.*prefix of the argument") as raised:
        like(tree, specs={"a": P("dp")})
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("wrong", ["dp", 3, NamedSharding(AbstractMesh((2,), ("dp",)), P("dp"))])
def test_what_is_not_a_spec_is_named(wrong: object) -> None:
    with pytest.raises(DeclarationError, match=rf"a {type(wrong).__name__}; expected a PartitionSpec$"):
        like({"a": jnp.ones(4)}, specs={"a": wrong})


def test_a_tree_without_arrays_is_one_line() -> None:
    with pytest.raises(
        DeclarationError, match=r"like\(\{'rate': 0.5\}\): no array in it; expected a pytree with arrays"
    ):
        like({"rate": 0.5})


def test_a_reference_to_an_array_is_one_line() -> None:
    with pytest.raises(DeclarationError, match=r"the argument\['cache'\] is a jax\.Ref.*ref\[\.\.\.\]") as raised:
        like({"cache": jax.new_ref(jnp.zeros(3)), "x": jnp.zeros(3)})
    assert "\n" not in str(raised.value)


# --- which leaves a pattern matches, and what is left of the containers around them ----------------------------------


def test_paths_with_dots() -> None:
    assert dotted("out['cache'][0].k") == "cache.0.k" and dotted("cache['k'] after the call") == "cache.k"
    assert is_ignored("out['cache']", ("cache.*",)) and not is_ignored("out['cached']", ("cache.*",))
    assert is_ignored("model.norm.mean.value after the call", ("model.*.mean.*",))


def test_what_is_left_of_containers() -> None:
    """Entries of dicts and ends of sequences go; in the middle nothing moves up, and `has_aux` keeps its pair."""
    assert without_ignored({"a": 1, "b": {"c": 2}}, ("b.*",)) == {"a": 1}
    assert without_ignored((1, 2, 3), ("1",)) == (1, None, 3)
    assert without_ignored((1, {"k": 2}), ("1.*",)) == 1
    assert without_ignored((1, {"k": 2}), ("1.*",), pair=True) == (1, None)

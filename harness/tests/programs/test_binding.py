"""Functions of libraries take the declared arguments, whatever kinds of parameters they have."""

import functools
from collections.abc import Callable
from typing import Any

import pytest

from samebits.errors import DeclarationError
from samebits.programs.implementations import bind, order_remark, other_defaults, parameters_of, signature_text

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

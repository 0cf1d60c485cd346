"""The arguments that two functions take, inferred from their signatures: shapes with which both can be traced.

Nothing is executed: a guess is accepted where `jax.eval_shape` accepts it.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from samebits.errors import DeclarationError, RequestError
from samebits.programs.implementations import bind, class_remark, parameters_of, signature_text
from samebits.programs.inputs import dtype_of, is_key, key_implementation
from samebits.schema.argument_text import argument_word, parse_argument
from samebits.schema.case import Arg
from samebits.schema.values import Integers
from samebits.user_errors import one_line

GUESSES = tuple(
    parse_argument(f"x={text}")[1]
    for text in ("f32[8,16]", "f32[16,16]", "f32[2,8,4,16]", "f32[16]", "f32[]", "i32[8]:0..7", "i32[2,8]:0..7")
)
"""What a parameter may be, in the order in which it is tried; integers are indices into any of the other arrays."""

MOST = 3
"""For up to so many parameters every combination is tried; for more, one guess for all of them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class InferredArguments:
    """The arguments of two functions.

    Args:
        args: by the first function's names, in the order of its parameters.
        guessed: the names of those that are not declared.
        rename: by these names, what the second function calls them.
        gradients: whether there are gradients: a float among the arguments, and one among the outputs.
    """

    args: Mapping[str, Arg]
    guessed: tuple[str, ...] = ()
    rename: Mapping[str, str] = field(default_factory=dict)
    gradients: bool = True


def infer_arguments(
    reference: Callable[..., Any], variant: Callable[..., Any], declared: Mapping[str, Arg], statics: Mapping[str, Any]
) -> InferredArguments:
    """Return the arguments of two functions, for a declaration; those that are `declared` have the reference's names.

    Raises:
        RequestError: no guess fits both functions, a name is not a parameter, or there is no array at all.
    """
    if reference is variant:
        raise RequestError(f"both functions are {_text(reference)}; nothing would be compared")
    needed = _needed(reference)
    _require_parameters(reference, (*declared, *statics))
    missing = tuple(name for name in needed if name not in declared and name not in statics)
    names = (*(name for name in needed if name not in statics), *(name for name in declared if name not in needed))
    if not names:
        _require_named(reference, "x")
        raise RequestError(
            f"the first function takes {_text(reference)}, and no parameter without a default; declare its arrays, as "
            "in --arg x=f32[8,16]"
        )
    rename = _renamed(names, variant, statics)
    calls = [_bound(side, (*names, *statics), rename, place) for place, side in _sides(reference, variant)]
    known = {name: declared[name] for name in names if name in declared}
    if not missing:
        gradients = _has_gradients(known, _outputs(calls, known, statics))
        return InferredArguments(args=known, rename=rename, gradients=gradients)
    first: tuple[Mapping[str, Arg], Any] | None = None
    for guess in _guesses(missing):
        args = {name: known[name] if name in known else guess[name] for name in names}
        outputs = _outputs(calls, args, statics)
        if not isinstance(outputs, Exception):
            gradients = _has_gradients(args, outputs)
            return InferredArguments(args=args, guessed=missing, rename=rename, gradients=gradients)
        first = first or (args, outputs)
    assert first is not None
    words = [argument_word(name, arg) for name, arg in first[0].items()]
    raise RequestError(
        f"the arguments of {_text(reference)} cannot be inferred: with {', '.join(words)} it {one_line(first[1])}; "
        f"declare them with the shapes that fit, as in {' '.join(f'--arg {word}' for word in words)}"
    )


def _require_parameters(reference: Callable[..., Any], given_names: Sequence[str]) -> None:
    """Reject names that the first function has no parameter for, and a method without its object."""
    if "self" in _needed(reference) and "self" not in given_names and class_remark(reference):
        raise RequestError(f"the first function takes {_text(reference)}{class_remark(reference)}")
    parameters = parameters_of(reference)
    if not parameters or any(p.kind is p.VAR_KEYWORD for p in parameters):
        return
    for name in given_names:
        if name not in {p.name for p in parameters if p.kind is not p.VAR_POSITIONAL}:
            _require_named(reference, name)
            raise RequestError(f"'{name}' is not a parameter of the first function, which takes {_text(reference)}")


def _require_named(reference: Callable[..., Any], name: str) -> None:
    """Reject a function whose arguments have no names, as those of `*args`."""
    if any(p.kind is p.VAR_POSITIONAL for p in parameters_of(reference) or ()):
        _bound(reference, (name,), {}, "the first function")


Call = Callable[[Mapping[str, Any]], Any]


def _sides(reference: Callable[..., Any], variant: Callable[..., Any]) -> tuple[tuple[str, Callable[..., Any]], ...]:
    return (("the first function", reference), ("the second function", variant))


def _bound(side: Callable[..., Any], names: tuple[str, ...], rename: Mapping[str, str], place: str) -> Call:
    """Return a function of the named arguments."""
    try:
        binding = bind(place, side, names, rename)
    except DeclarationError as error:
        raise RequestError(str(error)) from None
    return lambda values: binding.call(side, values)


def _outputs(calls: list[Call], args: Mapping[str, Arg], statics: Mapping[str, Any]) -> Any:
    """Return the shapes of the first side's outputs; the exception of a side that does not take such arguments."""
    import jax

    shapes = {name: jax.ShapeDtypeStruct(arg.shape, _dtype(arg)) for name, arg in args.items()}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what a guess leads to, such as a cast of NaN, says nothing about the code
            outputs = [jax.eval_shape(lambda arrays, call=call: call({**arrays, **statics}), shapes) for call in calls]
    except Exception as error:  # of the user's function, whatever it raises: the guess does not fit
        return error
    return outputs[0]


def _dtype(arg: Arg) -> Any:
    """Return the dtype of an argument as jax has it."""
    import jax

    if not is_key(arg):
        return dtype_of(str(arg.dtype))
    name = key_implementation(str(arg.dtype))
    return jax.eval_shape(lambda: jax.random.key(0, impl=name)).dtype


def _has_gradients(args: Mapping[str, Arg], outputs: Any) -> bool:
    """Return whether there is a float on both ends; also where the outputs are not known."""
    import jax

    if not any("float" in str(arg.dtype) for arg in args.values()):
        return False
    leaves = [] if isinstance(outputs, Exception) else jax.tree.leaves(outputs)
    return not leaves or any("float" in str(leaf.dtype) for leaf in leaves)


def _needed(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the parameters that a call must give, in their order."""
    parameters = parameters_of(function) or ()
    return tuple(p.name for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD))


def _renamed(names: tuple[str, ...], variant: Callable[..., Any], statics: Mapping[str, Any]) -> dict[str, str]:
    """Return what the variant calls the arguments that it has no parameter for: its remaining ones, in their order."""
    parameters = parameters_of(variant)
    if parameters is None:
        return {}
    own = [p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    unknown = [name for name in names if name not in own]
    left = [name for name in _needed(variant) if name not in names and name not in statics]
    return dict(zip(unknown, left, strict=True)) if len(unknown) == len(left) else {}


def _guesses(missing: tuple[str, ...]) -> Iterator[dict[str, Arg]]:
    """Yield assignments of guesses to names: the same float array for all, then combinations, few integers first."""
    floats = [arg for arg in GUESSES if not isinstance(arg.values, Integers)]
    yield from (dict.fromkeys(missing, arg) for arg in floats)
    if len(missing) > MOST:
        yield from (dict.fromkeys(missing, arg) for arg in GUESSES if arg not in floats)
        return
    combinations = itertools.product(GUESSES, repeat=len(missing))
    for args in sorted(combinations, key=lambda args: sum(isinstance(arg.values, Integers) for arg in args)):
        yield dict(zip(missing, args, strict=True))


def _text(function: Callable[..., Any]) -> str:
    name = getattr(function, "__name__", type(function).__name__)
    return f"{name}{signature_text(function)}"

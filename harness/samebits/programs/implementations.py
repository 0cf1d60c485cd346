"""From the names in a declaration to the functions that run, and how each takes the declared arguments."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from samebits.errors import DeclarationError
from samebits.host.isolation import note
from samebits.host.loading import load_file, load_module, load_standalone_file
from samebits.schema.case import Case
from samebits.schema.pair import Pair, Side
from samebits.schema.validate import kind_words

# How a side is called: the declared arguments by name, whatever kinds of parameters it has.
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True, slots=True)
class Binding:
    """Which declared argument goes to which parameter.

    Args:
        positional: the declared names that are passed by position, in order.
        keywords: the declared names that are passed by keyword, with the parameter of each.
    """

    positional: tuple[str, ...]
    keywords: Mapping[str, str]

    def call(self, function: Callable[..., Any], values: Mapping[str, Any]) -> Any:
        """Call a side with the declared arguments."""
        positional = [values[name] for name in self.positional]
        return function(*positional, **{parameter: values[name] for name, parameter in self.keywords.items()})


def bind(where: str, function: Callable[..., Any], names: Iterable[str], rename: Mapping[str, str]) -> Binding:
    """Return which parameter of a function takes which declared argument.

    A function without a readable signature, such as one that is built in, takes them by position, in their order.
    """
    names = tuple(names)
    parameters = parameters_of(function)
    if parameters is None:
        return Binding(names, {})
    known = {p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
    positional_only = {p.name for p in parameters if p.kind is p.POSITIONAL_ONLY}
    collects = any(p.kind is p.VAR_KEYWORD for p in parameters)
    target: dict[str, str] = {}
    for name in names:
        other = rename.get(name, name)
        called = other if name not in known and (other in known or not collects) else name
        if called not in known and not collects:
            unnamed = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), None)
            if unnamed is not None:
                raise DeclarationError(
                    f"{where} takes {signature_text(function)}, and what *{unnamed} takes has no names, so that "
                    f"'{called}' cannot be passed; wrap it in a function that names its arguments, as in "
                    f"`def named(a, b): return {getattr(function, '__name__', 'function')}(a, b)`"
                )
            raise DeclarationError(
                f"{where} takes {signature_text(function)}, and no parameter '{called}'; declare its own names, or map "
                f"them: rename={{'{name}': ...}}{class_remark(function)}"
            )
        if called in target.values():
            raise DeclarationError(f"{where}: '{name}' and another argument are both given as '{called}'; see rename")
        target[name] = called
    _require_all(where, function, parameters, set(target.values()), names)
    # A positional-only parameter needs all before it by position too, where they are declared.
    last = max((i for i, p in enumerate(parameters) if p.name in positional_only & set(target.values())), default=-1)
    declared = {called: name for name, called in target.items()}
    first = [p for p in parameters[: last + 1] if p.kind in _POSITIONAL]
    gap = next((p.name for p in first if p.name not in declared), None)
    if gap is not None:
        raise DeclarationError(
            f"{where} takes {signature_text(function)}: '{first[-1].name}' can only be passed by position, so "
            f"'{gap}' before it must be declared too"
        )
    positional = tuple(declared[p.name] for p in first)
    return Binding(positional, {name: called for name, called in target.items() if name not in positional})


def without_unknown(
    function: Callable[..., Any], names: Iterable[str], optional: Iterable[str], rename: Mapping[str, str]
) -> tuple[str, ...]:
    """Leave out optional names that a function has no parameter for; all stay where it has no readable signature."""
    names, optional, parameters = tuple(names), tuple(optional), parameters_of(function)
    if not optional or parameters is None or any(p.kind is p.VAR_KEYWORD for p in parameters):
        return names
    known = {p.name for p in parameters}
    return tuple(name for name in names if name not in optional or known & {name, rename.get(name, name)})


def parameters_of(function: Callable[..., Any]) -> tuple[inspect.Parameter, ...] | None:
    """Return the parameters of a callable; None where it has no readable signature."""
    try:
        return _parameters(function)
    except TypeError:  # an object without a hash, which cannot be cached
        return _parameters.__wrapped__(function)


@functools.lru_cache(maxsize=4096)
def _parameters(function: Callable[..., Any]) -> tuple[inspect.Parameter, ...] | None:
    try:
        return tuple(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # Python has none of functions that are built in
        return None


def signature_text(function: Callable[..., Any]) -> str:
    """Return the parameters of a function in parentheses, without annotations."""
    parameters = parameters_of(function)
    if parameters is None:
        return "(...)"
    bare = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in parameters]
    return str(inspect.Signature(bare))


def class_remark(function: Callable[..., Any]) -> str:
    """Return what to do about a class, or a method taken from one, to follow a message; empty for other functions."""
    if isinstance(function, type):
        return f"; {function.__name__} is a class: give a function, or an object of the class that can be called"
    *_, owner, name = ("", *str(getattr(function, "__qualname__", "")).split("."))
    parameters = parameters_of(function)
    if owner in ("", "<locals>") or not parameters or parameters[0].name != "self":
        return ""
    return f"; {owner}.{name} is a method: take it from an object, as in obj.{name} where obj = {owner}(...)"


def in_other_order(
    reference: Callable[..., Any], variant: Callable[..., Any], names: Iterable[str], rename: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the arguments that both sides take by position too, in the reference's order where that differs."""
    first, second = (
        [p.name for p in parameters_of(side) or () if p.kind in _POSITIONAL] for side in (reference, variant)
    )
    called = {name: rename.get(name, name) for name in first if name in {*names} and rename.get(name, name) in second}
    own = sorted(called, key=lambda name: second.index(called[name]))
    return tuple(name for name, other in zip(called, own, strict=True) if name != other)


def order_remark(
    reference: Callable[..., Any],
    variant: Callable[..., Any],
    names: Iterable[str],
    rename: Mapping[str, str],
    called: str,
) -> str | None:
    """Say that calls by position would give the variant other arguments than calls by name; None where not."""
    moved = in_other_order(reference, variant, names, rename)
    if not moved:
        return None
    listed = f"{', '.join(moved[:-1])} and {moved[-1]}"
    return (
        f"{called} takes {listed} in another order: they are matched by name here, and a call by position would "
        "exchange them"
    )


def other_defaults(
    function: Callable[..., Any], other: Callable[..., Any], names: Iterable[str]
) -> dict[str, tuple[Any, Any]]:
    """Return the defaults of both functions by shared parameter, where no declaration gives it and they differ."""
    defaults = [
        {p.name: p.default for p in parameters_of(side) or () if p.default is not inspect.Parameter.empty}
        for side in (function, other)
    ]
    shared = [name for name in defaults[0] if name in defaults[1] and name not in tuple(names)]
    pairs = {name: (defaults[0][name], defaults[1][name]) for name in shared}
    return {name: pair for name, pair in pairs.items() if not _alike(*pair)}


def _alike(first: Any, second: Any) -> bool:
    """Return whether two defaults are equal; arrays are, as far as this is asked, only where they are one."""
    if first is second:
        return True
    try:
        return type(first) is type(second) and bool(first == second)
    except Exception:  # an array has no truth value, and an object may raise what it likes
        return False


def _require_all(
    where: str,
    function: Callable[..., Any],
    parameters: tuple[inspect.Parameter, ...],
    called: set[str],
    names: tuple[str, ...],
) -> None:
    needed = [
        p.name
        for p in parameters
        if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) and p.name not in called
    ]
    if needed:
        if needed[0] == "self" and class_remark(function):
            raise DeclarationError(
                f"{where} takes {signature_text(function)} and is called with {', '.join(names)}"
                f"{class_remark(function)}"
            )
        mesh = ", as in statics={'mesh': ContextMesh()} for the mesh of the point" if needed[0] == "mesh" else ""
        raise DeclarationError(
            f"{where} takes {signature_text(function)} and is called with {', '.join(names)}: '{needed[0]}' is "
            f"missing; declare it in args or statics{mesh}, or give it a default"
        )


FOLDERS = ("reference_impls", "optimized_impls")


def root_of(pair: Pair) -> Path:
    """Return the tree in which a pair was declared: the folder above `suites/`, or else that of the declaring file."""
    folder = Path(pair.origin).resolve().parent
    return folder.parent if folder.name == "suites" else folder


def implementation(pair: Pair, side: str) -> Callable[..., Any]:
    """Return the function of one side of a pair.

    Equivalent to importing it from `reference_impls/NAME.py` or `optimized_impls/NAME.py`.

    Args:
        pair: the declaration.
        side: the reference's name or a variant's.

    Returns:
        The function as it is written, not jitted.

    Raises:
        DeclarationError: no such side, no such file or function.
    """
    if side not in pair.sides:
        raise DeclarationError(f"pair '{pair.name}' has no side '{side}'; it has {', '.join(pair.sides)}")
    if side == pair.reference_name:
        return _resolve(pair, pair.reference, FOLDERS[0])
    declared: Side = pair.variants[side] if isinstance(pair.variants, Mapping) else side
    return _resolve(pair, declared, FOLDERS[1])


def bound(
    pair: Pair, side: str, function: Callable[..., Any], names: Iterable[str], optional: Iterable[str] = ()
) -> Binding:
    """Return how a side is called with the arguments of a case; optional ones it need not take."""
    taken = without_unknown(function, names, optional, pair.rename)
    return bind(f"pair '{pair.name}': '{side}'", function, taken, pair.rename)


def check_call(pair: Pair, case: Case, names: tuple[str, ...]) -> None:
    """Reject a case whose arguments a side does not take, and note defaults that differ between the sides."""
    reference = implementation(pair, pair.reference_name)
    functions = [implementation(pair, side) for side in pair.sides if side not in pair.adapt]
    for name in case.context_meshes:
        if functions and not any(name in without_unknown(side, (name,), (name,), pair.rename) for side in functions):
            raise DeclarationError(
                f"pair '{pair.name}', case '{case.id}': no side takes '{name}', which is a ContextMesh; leave it out"
            )
    for side in pair.sides:
        if side in pair.adapt:  # its own arguments are known once the map has been traced
            continue
        function = implementation(pair, side)
        try:
            bound(pair, side, function, names, case.context_meshes)
        except DeclarationError as error:
            raise DeclarationError(f"{error} (case '{case.id}')") from None
        for name, (first, second) in other_defaults(reference, function, names).items():
            note(
                f"pair '{pair.name}': '{name}' is {first!r} by default in '{pair.reference_name}' and {second!r} in "
                f"'{side}', and case '{case.id}' gives none: each side takes its own"
            )


def function_named(text: str, root: Path | None = None) -> Callable[..., Any]:
    """Return a function by `module:function`, `module:Class.method` or `FILE.py:function`.

    Modules are looked up in the tree `root` first.
    """
    module_name, colon, function = text.rpartition(":")
    if not colon or not module_name:
        expected = "expected module:function, or FILE.py:function"
        raise DeclarationError(f"'{text}' names no function; {expected}{'' if colon else _with_a_colon(text, root)}")
    is_file = module_name.endswith(".py")
    if is_file and not Path(module_name).is_file():
        raise DeclarationError(f"'{text}': there is no file {module_name} in {Path.cwd()}")
    module = load_standalone_file(Path(module_name)) if is_file else load_module(module_name, root)
    return _attribute(module, function, f"'{text}'", f"file {module_name}" if is_file else f"module '{module_name}'")


def _resolve(pair: Pair, side: Side, folder: str) -> Callable[..., Any]:
    if not isinstance(side, str):
        return side
    if ":" in side:
        try:
            return function_named(side, root_of(pair))
        except DeclarationError as error:
            raise DeclarationError(f"pair '{pair.name}': {error}") from None
    path = root_of(pair) / folder / f"{pair.name}.py"
    if not path.is_file():
        raise DeclarationError(
            f"pair '{pair.name}': '{side}' is looked up in {path}, which does not exist; "
            f"write that file with a function '{side}', or declare 'module:{side}'"
        )
    return _attribute(load_file(path), side, f"pair '{pair.name}'", str(path))


def _attribute(module: Any, function: str, where: str, place: str) -> Callable[..., Any]:
    """Return the function of a module, or the method of one of its classes."""
    known = _functions_of(module)
    if not function:
        raise DeclarationError(f"{where} names no function after the colon; {place}: {suggest_name('', known)}")
    missing = value = object()
    value = module
    for name in function.split("."):
        value = getattr(value, name, missing)
    if callable(value):
        return value
    what = "" if value is missing else f": it is {kind_words(value)}, which cannot be called"
    if isinstance(value, ModuleType):
        what += f" (write {value.__name__}:NAME for a function of it)"
    raise DeclarationError(f"{where}: {place} has no function '{function}'{what}; {suggest_name(function, known)}")


def _functions_of(module: Any) -> list[str]:
    return sorted(name for name, value in vars(module).items() if callable(value) and not name.startswith("_"))


def _with_a_colon(text: str, root: Path | None) -> str:
    """Say what was meant by a name without a colon: a module, a file, a function after a dot; empty where unclear."""
    if text.endswith(".py"):
        return f"; write {text}:NAME" if Path(text).is_file() else ""
    module_name, _, function = text.rpartition(".")
    for name in (text, module_name):
        if not all(part.isidentifier() for part in name.split(".")):
            continue
        try:
            module = load_module(name, root)
        except DeclarationError:  # noqa: S112  it is not a module
            continue
        if name == text:
            return f"; {text} is a module: write {text}:NAME; {suggest_name('', _functions_of(module))}"
        return f"; did you mean {name}:{function}?" if callable(getattr(module, function, None)) else ""
    return ""


def suggest_name(name: str, known: list[str]) -> str:
    """Return the nearest names, or all that there are."""
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
    if near:
        return f"did you mean {' or '.join(near)}?"
    return f"it has {', '.join(known[:20]) or 'none'}{' ...' if len(known) > 20 else ''}"

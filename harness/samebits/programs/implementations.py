"""From the names in a declaration to the functions that run, and how each takes the declared arguments."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from samebits.errors import DeclarationError
from samebits.host.isolation import note
from samebits.host.loading import load_file, load_module, load_standalone_file
from samebits.programs.binding import Binding, bind, other_defaults, without_unknown
from samebits.schema.case import Case
from samebits.schema.kind_words import kind_words
from samebits.schema.pair import Pair, Side

FOLDERS = ("reference_impls", "optimized_impls")


def root_of(pair: Pair) -> Path:
    """The tree in which a pair was declared: the folder above `suites/`, or else that of the declaring file."""
    folder = Path(pair.origin).resolve().parent
    return folder.parent if folder.name == "suites" else folder


def implementation(pair: Pair, side: str) -> Callable[..., Any]:
    """The function of one side of a pair.

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
    """How a side is called with the arguments of a case.

    Args:
        pair: the declaration.
        side: the name of the side.
        function: what it is.
        names: the declared arguments and static arguments; for a variant with `adapt`, those that its map gives.
        optional: those of them that a side need not take.

    Raises:
        DeclarationError: the side has no parameter for one of them, or one without a default is not declared.
    """
    taken = without_unknown(function, names, optional, pair.rename)
    return bind(f"pair '{pair.name}': '{side}'", function, taken, pair.rename)


def check_call(pair: Pair, case: Case, names: tuple[str, ...]) -> None:
    """Reject a case whose arguments a side does not take, and note defaults that differ between the sides.

    Raises:
        DeclarationError: an argument is missing or not known.
    """
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
    """A function by `module:function`, `module:Class.method` or `FILE.py:function`.

    Args:
        text: names it.
        root: the tree in which modules are looked up first; only the current folder and the environment by default.

    Raises:
        DeclarationError: it is not of this form, the module does not import, or it has no such function.
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
    """The function of a module, or the method of one of its classes."""
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
    """What was meant by a name without a colon: a module, a file, or a function after a dot; empty where none is."""
    if text.endswith(".py"):
        return f"; write {text}:NAME" if Path(text).is_file() else ""
    module_name, _, function = text.rpartition(".")
    for name in (text, module_name):
        if not all(part.isidentifier() for part in name.split(".")):
            continue
        try:
            module = load_module(name, root)
        except DeclarationError:  # it is not a module
            continue
        if name == text:
            return f"; {text} is a module: write {text}:NAME; {suggest_name('', _functions_of(module))}"
        return f"; did you mean {name}:{function}?" if callable(getattr(module, function, None)) else ""
    return ""


def suggest_name(name: str, known: list[str]) -> str:
    """The nearest names, or all that there are."""
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
    if near:
        return f"did you mean {' or '.join(near)}?"
    return f"it has {', '.join(known[:20]) or 'none'}{' ...' if len(known) > 20 else ''}"

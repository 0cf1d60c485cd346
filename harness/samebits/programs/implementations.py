"""From the names in a declaration to the functions that run, and how each takes the declared arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from samebits.errors import DeclarationError
from samebits.host.isolation import note
from samebits.host.loading import load_file, load_module
from samebits.programs.binding import Binding, bind, other_defaults
from samebits.schema.case import Case
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


def bound(pair: Pair, side: str, function: Callable[..., Any], names: Iterable[str]) -> Binding:
    """How a side is called with the arguments of a case.

    Args:
        pair: the declaration.
        side: the name of the side.
        function: what it is.
        names: the declared arguments and static arguments; for a variant with `adapt`, those that its map gives.

    Raises:
        DeclarationError: the side has no parameter for one of them, or one without a default is not declared.
    """
    return bind(f"pair '{pair.name}': '{side}'", function, names, pair.rename)


def check_call(pair: Pair, case: Case, names: tuple[str, ...]) -> None:
    """Reject a case whose arguments a side does not take, and note defaults that differ between the sides.

    Raises:
        DeclarationError: an argument is missing or not known.
    """
    reference = implementation(pair, pair.reference_name)
    for side in pair.sides:
        if side in pair.adapt:  # its own arguments are known once the map has been traced
            continue
        function = implementation(pair, side)
        try:
            bound(pair, side, function, names)
        except DeclarationError as error:
            raise DeclarationError(f"{error} (case '{case.id}')") from None
        for name, (first, second) in other_defaults(reference, function, names).items():
            note(
                f"pair '{pair.name}': '{name}' is {first!r} by default in '{pair.reference_name}' and {second!r} in "
                f"'{side}', and case '{case.id}' gives none: each side takes its own"
            )


def _resolve(pair: Pair, side: Side, folder: str) -> Callable[..., Any]:
    if not isinstance(side, str):
        return side
    module_name, colon, function = side.rpartition(":")
    path = root_of(pair) / folder / f"{pair.name}.py"
    if colon:
        module, place = load_module(module_name), f"module '{module_name}'"
    elif path.is_file():
        module, place = load_file(path), str(path)
    else:
        raise DeclarationError(
            f"pair '{pair.name}': '{side}' is looked up in {path}, which does not exist; "
            f"write that file with a function '{side}', or declare 'module:{side}'"
        )
    implementation = getattr(module, function, None)
    if not callable(implementation):
        known = sorted(n for n, v in vars(module).items() if callable(v) and not n.startswith("_"))
        raise DeclarationError(
            f"pair '{pair.name}': {place} has no function '{function}'; it has {', '.join(known) or 'none'}"
        )
    return implementation  # type: ignore[no-any-return]

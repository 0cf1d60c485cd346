"""From the names in a declaration to the functions that run, and the check that their signatures match."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from samebits.errors import DeclarationError
from samebits.host.loading import load_file, load_module
from samebits.schema.case import Case
from samebits.schema.pair import Pair, Side

FOLDERS = ("reference_impls", "optimized_impls")


def root_of(pair: Pair) -> Path:
    """The tree in which a pair was declared: the folder above `suites/`, or else that of the declaring file."""
    folder = Path(pair.origin).resolve().parent
    return folder.parent if folder.name == "suites" else folder


def implementation(pair: Pair, side: str) -> Callable[..., Any]:
    """The function of one side of a pair, checked against the reference's signature.

    Equivalent to importing it from `reference_impls/NAME.py` or `optimized_impls/NAME.py`.

    Args:
        pair: the declaration.
        side: the reference's name or a variant's.

    Returns:
        The function as it is written, not jitted.

    Raises:
        DeclarationError: no such side, no such file or function, or a signature unlike the reference's.
    """
    if side not in pair.sides:
        raise DeclarationError(f"pair '{pair.name}' has no side '{side}'; it has {', '.join(pair.sides)}")
    reference = _resolve(pair, pair.reference, FOLDERS[0])
    if side == pair.reference_name:
        return reference
    declared: Side = pair.variants[side] if isinstance(pair.variants, Mapping) else side
    function = _resolve(pair, declared, FOLDERS[1])
    _check_signatures(pair, side, reference, function)
    return function


def check_call(pair: Pair, case: Case, names: tuple[str, ...]) -> None:
    """Reject a case whose arguments the sides do not take.

    Raises:
        DeclarationError: an argument is missing or not known.
    """
    function = implementation(pair, pair.reference_name)
    try:
        inspect.signature(function).bind(**dict.fromkeys(names))
    except TypeError as error:
        raise DeclarationError(
            f"pair '{pair.name}', case '{case.id}': {pair.reference_name}{_signature(function)} "
            f"cannot be called with {', '.join(names)}: {error}"
        ) from None


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


@functools.cache
def _parameters(function: Callable[..., Any]) -> tuple[tuple[Any, ...], ...]:
    return tuple((p.name, p.kind, p.default) for p in inspect.signature(function).parameters.values())


def _signature(function: Callable[..., Any]) -> str:
    signature = inspect.signature(function)
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
    return str(signature.replace(parameters=bare, return_annotation=inspect.Signature.empty))


def _check_signatures(pair: Pair, side: str, reference: Callable[..., Any], function: Callable[..., Any]) -> None:
    if _parameters(reference) != _parameters(function):
        raise DeclarationError(
            f"pair '{pair.name}': variant '{side}' takes {_signature(function)} and the reference "
            f"'{pair.reference_name}' takes {_signature(reference)}; both sides must take the same arguments"
        )

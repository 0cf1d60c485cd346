"""The checks of a whole `Pair`: every name that one part of a declaration uses must exist in another.

In: a pair that is being declared. Out: nothing, or a `DeclarationError` that says what was got and what was expected.
The checks of single fields are in `validate`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from samebits.errors import DeclarationError
from samebits.schema.case import TRANSFORMS, Case
from samebits.schema.contract import DIRECTIONS, PLATFORMS
from samebits.schema.mesh_ids import MODES
from samebits.schema.pair_meshes import check_meshes
from samebits.schema.target import GENERATIONS, can_match
from samebits.schema.validate import check_accuracy, check_id, check_pattern, check_tuple, check_unique, expected

Declaration = Any
"""A `Pair`, whose module imports this one."""

_REQUIRED = ("variants", "cases", "dtypes", "meshes", "modes")
_TUPLES = (*_REQUIRED, "wide_meshes", "compiled", "contracts", "exemptions", "documented", "transforms")


def check_fields(pair: Declaration) -> None:
    """Reject a name that is not an id, fields that are not tuples, and empty fields.

    Raises:
        DeclarationError: there is one.
    """
    check_id("pair", pair.name)
    where = f"pair '{pair.name}'"
    for what in _TUPLES:
        value = getattr(pair, what)
        if what != "variants" or not isinstance(value, Mapping):
            check_tuple(where, what, value)
        if not value and what in _REQUIRED and not (what == "meshes" and pair.wide_meshes):
            raise DeclarationError(f"{where} declares no {what}; it would check nothing. Write {what}=(...)")
    if not isinstance(pair.variants, Mapping):
        check_unique(where, "variant", pair.variants)


def check_pair(pair: Declaration) -> None:
    """Reject repeated names, and names that the pair does not declare.

    Raises:
        DeclarationError: there is one.
    """
    where = f"pair '{pair.name}'"
    check_unique(where, "case", tuple(case.id for case in pair.cases))
    check_unique(where, "dtype", pair.dtypes)
    check_unique(where, "mesh", pair.meshes + pair.wide_meshes)
    if pair.reference_name in pair.variant_names:
        raise DeclarationError(f"{where}: '{pair.reference_name}' names the reference and a variant; names must differ")
    for variant in pair.variant_names:
        check_id(f"{where}: variant", variant)
    for mode in pair.modes:
        if mode not in MODES:
            raise DeclarationError(f"{where}: mode '{mode}' is unknown; expected some of {', '.join(MODES)}")
    check_accuracy(f"{where}: accuracy", pair.accuracy)
    for contract in pair.contracts:
        check_accuracy(f"{where}, contract ({contract}): error_ratio", contract.error_ratio)
    for variant in pair.adapt:
        if variant not in pair.variant_names:
            raise DeclarationError(f"{where}: adapt of '{variant}'; {expected(variant, pair.variant_names)}")
    check_meshes(pair)
    _check_cases(pair)
    _check_scopes(pair)
    _check_compiled(pair)
    _check_documented(pair)


def transformed_cases(pair: Declaration) -> list[Case]:
    """The cases that `transforms` requests, except those that a copy of the declaration has already.

    Raises:
        DeclarationError: a transform is repeated, unknown, or not possible for this pair.
    """
    check_unique(f"pair '{pair.name}'", "transform", pair.transforms)
    for transform in pair.transforms:
        if transform not in TRANSFORMS:
            raise DeclarationError(
                f"pair '{pair.name}': transform '{transform}' is unknown; {expected(transform, TRANSFORMS)}"
            )
        if transform == "second_derivative" and pair.has_aux:
            raise DeclarationError(
                f"pair '{pair.name}': transform '{transform}' does not support has_aux=True; leave it out"
            )
        if transform != "vmap" and not pair.gradients:
            raise DeclarationError(
                f"pair '{pair.name}': transform '{transform}' compares gradients, and gradients=False declares none"
            )
    known = {(case.declared, case.transform) for case in pair.cases}
    return [
        case.under(transform)
        for transform in pair.transforms
        for case in pair.cases
        if case.transform is None and not case.refuses and (case.id, transform) not in known
    ]


def _check_scopes(pair: Declaration) -> None:
    known = {
        "variant": pair.sides,
        "case": tuple(case.id for case in pair.cases),
        "dtype": pair.dtypes,
        "mesh": pair.meshes + pair.wide_meshes,
        "mode": pair.all_modes,
        "direction": DIRECTIONS if pair.gradients else ("forward",),
        "platform": PLATFORMS,
    }
    for what, scopes in (("contract", pair.contracts), ("exemption", pair.exemptions)):
        for scope in scopes:
            for name, names in known.items():
                check_pattern(f"pair '{pair.name}', {what} ({scope})", name, getattr(scope, name), names)


def _check_compiled(pair: Declaration) -> None:
    check_unique(f"pair '{pair.name}'", "real size", tuple(real.case.id for real in pair.compiled))
    for real in pair.compiled:
        where = f"pair '{pair.name}', real size '{real.case.id}'"
        for variant in real.case.variants or ():
            if variant not in pair.variant_names:
                raise DeclarationError(f"{where}: variant '{variant}' is unknown; {expected(variant, pair.sides)}")
        for side in (*real.options, *sum((refusal.variants for refusal in real.case.refuses), ())):
            if side not in pair.sides:
                raise DeclarationError(f"{where}: side '{side}' is unknown; {expected(side, pair.sides)}")
        for claim in real.claims:
            check_pattern(f"{where}, claim '{claim.shows}'", "variant", claim.variant, pair.sides)
            check_pattern(f"{where}, claim '{claim.shows}'", "direction", claim.direction, DIRECTIONS)
            # A command may name other targets than the declared ones: claims may speak of those too.
            if not can_match(claim.target):
                slices = tuple(f"{name}:{claim.target.partition(':')[2] or '*'}" for name in GENERATIONS)
                known = tuple(dict.fromkeys(("cpu", "tpu", *real.targets, *slices)))
                check_pattern(f"{where}, claim '{claim.shows}'", "target", claim.target, real.targets, known)
            other = claim.shows.side
            if other not in (None, "reference", *pair.sides):
                raise DeclarationError(f"{where}, claim '{claim.shows}': {expected(str(other), pair.sides)}")


def _check_documented(pair: Declaration) -> None:
    check_unique(f"pair '{pair.name}'", "claim", tuple(claim.id for claim in pair.documented))
    real = tuple(size.case.id for size in pair.compiled)
    for claim in pair.documented:
        where = f"pair '{pair.name}', claim '{claim.id}'"
        if claim.command:
            raise DeclarationError(f"{where}: a command stands for claims of the model; leave it out here")
        if (claim.saves or claim.real) and not real:
            raise DeclarationError(f"{where}: nothing is compiled for it; write compiled=(RealSize(...),)")
        for what, chosen, known in (
            ("variant", claim.variants, pair.variant_names),
            ("case", claim.cases, tuple(case.id for case in pair.cases)),
            ("real size", claim.real, real),
        ):
            for name in chosen:
                if name not in known:
                    raise DeclarationError(f"{where}: {what} '{name}' is unknown; {expected(name, known)}")


def _check_cases(pair: Declaration) -> None:
    for case in pair.cases:
        where = f"pair '{pair.name}', case '{case.id}'"
        lists = (
            ("dtype", case.dtypes, pair.dtypes),
            ("mesh", case.meshes, pair.meshes + pair.wide_meshes),
            ("mode", case.modes, pair.all_modes),
            ("variant", case.variants, pair.variant_names),
            (
                "refusing side",
                sum((r.variants for r in case.refuses), ()),
                (pair.reference_name, *pair.variant_names),
            ),
        )
        for what, chosen, known in lists:
            for item in chosen or ():
                if item not in known:
                    raise DeclarationError(f"{where}: {what} '{item}' is not one of the pair's: {', '.join(known)}")
        case.size_symbols(where, pair.axes)
        for what in ("dtypes", "meshes", "modes", "variants"):
            if getattr(case, what) == ():
                raise DeclarationError(f"{where}: {what}=() leaves nothing to check; give some or leave it out")

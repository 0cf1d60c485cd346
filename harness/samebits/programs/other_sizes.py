"""A declaration at other sizes than its own: `--sizes length=64,cp=16` for every case that has them all."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from samebits.errors import DeclarationError, RequestError
from samebits.schema.case import Case
from samebits.schema.meshes import MeshSpec
from samebits.schema.pair import Pair

_ENTRY = re.compile(r"\s*([A-Za-z_]\w*)\s*=\s*(\d+)\s*")


def read_sizes(texts: Sequence[str]) -> dict[str, int]:
    """Return the sizes that texts such as `length=64,cp=16` give."""
    sizes: dict[str, int] = {}
    for entry in (entry for text in texts for entry in text.split(",")):
        read = _ENTRY.fullmatch(entry)
        if read is None:
            raise RequestError(
                f"--sizes {','.join(texts)}: '{entry}' is not a size; expected NAME=NUMBER, as in length=64"
            )
        if sizes.setdefault(read[1], int(read[2])) != int(read[2]):
            raise RequestError(f"--sizes {','.join(texts)}: '{read[1]}' is given twice")
    return sizes


def sizes_text(sizes: Mapping[str, int]) -> str:
    """Write sizes as `read_sizes` reads them."""
    return ",".join(f"{name}={number}" for name, number in sizes.items())


def at_sizes(pair: Pair, sizes: Mapping[str, int]) -> Pair:
    """Return a pair at other sizes; cases without these, and those whose symbols they do not fit, are as declared."""
    if not sizes:
        return pair
    if not any(_has(case, sizes) for case in pair.cases):
        known = dict.fromkeys(name for case in pair.cases for name in case.numbers)
        unknown = next((name for name in sizes if name not in known), None)
        if unknown is not None:
            hint = f"; '{unknown}' is an axis of its meshes: --mesh {unknown}N" if unknown in pair.axes else ""
            raise RequestError(
                f"pair '{pair.name}' has no size '{unknown}'; its sizes are {', '.join(known) or 'none'}{hint}"
            )
        raise RequestError(f"pair '{pair.name}' has no case with all of the sizes {', '.join(sizes)}")
    where = f"pair '{pair.name}', case"
    cases, misfit = [], None
    for case in pair.cases:
        try:
            moved = case.at_sizes(sizes) if _has(case, sizes) else case
            moved.size_symbols(f"{where} '{case.id}'", pair.axes)
            cases.append(moved)
        except DeclarationError as error:
            misfit = misfit or error
            cases.append(case)
    if misfit is not None and not any(is_at(case, sizes) for case in cases):
        raise misfit
    return replace(pair, cases=tuple(cases))


def is_at(case: Case, sizes: Mapping[str, int]) -> bool:
    """Return whether a case has all of these sizes, with these numbers."""
    return all(case.numbers.get(name) == number for name, number in sizes.items())


def no_sizes(pair: Pair, case: Case, mesh: MeshSpec) -> str:
    """Say that a case has no sizes to prove for all values of, and how to declare its first array with some."""
    shapes = ((path, arg.shape) for path, arg in pair.arguments(case, mesh).items() if arg.shape)
    path, shape = next(((path, shape) for path, shape in shapes if all(type(size) is int for size in shape)), ("", ()))
    text = "the case has no sizes"
    if not shape:
        return text
    named = {f"{re.sub(r'[^0-9A-Za-z]+', '_', path).strip('_')}{number}": size for number, size in enumerate(shape)}
    return f"{text}: its shapes are numbers; for '{path}' write shape={(*named,)!r}, and sizes={named!r} in the Case"


def sizeless_note(pair: Pair, mesh: MeshSpec) -> str | None:
    """Say that a pair has no sizes, where proofs for all sizes are asked for; None for one that has some."""
    if any(case.numbers for case in pair.cases):
        return None
    return f"pair '{pair.name}': --all-sizes proves nothing of it: {no_sizes(pair, pair.cases[0], mesh)}"


def _has(case: Case, sizes: Mapping[str, int]) -> bool:
    return set(sizes) <= set(case.numbers)

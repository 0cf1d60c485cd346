"""The work of `samebits prove MODULE:FUNCTION --property P`. To be imported after `prepare`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from samebits.cli.compare import CompareFunctionsOptions, FunctionsOptions, TwoFunctions, in_options
from samebits.cli.compare_run import anything_drawn, functions_as_pair
from samebits.cli.declared import words_of
from samebits.cli.options import Filters
from samebits.cli.pipeline import CommandRun
from samebits.cli.prove import ProveOptions
from samebits.cli.prove_run import INTERRUPTED
from samebits.errors import DeclarationError
from samebits.host.isolation import take_notes
from samebits.properties.findings import side_findings
from samebits.report.prove import ProofDocument, pair_block
from samebits.schema.case import Arg
from samebits.schema.meshes import MeshSpec
from samebits.schema.pair import Pair
from samebits.schema.point import Point
from samebits.schema.property_asked import Property, parse_property
from samebits.schema.values import Normal


def prove_properties(chosen: ProveOptions, functions: CompareFunctionsOptions, run: CommandRun) -> ProofDocument:
    """Decide properties of one function, in this process."""
    wanted = [parse_property(text) for text in chosen.property_]
    pair, notes = with_places(functions_as_pair(functions), wanted)
    run.notes += notes
    here = run.start_backend()
    (mesh,) = pair.meshes + pair.wide_meshes
    point = Point(
        variant=pair.reference_name,
        case=pair.cases[0].id,
        dtype=pair.dtypes[0],
        mesh=mesh,
        mode="auto",
        direction="forward",
    )
    rows = []
    with run.partial(INTERRUPTED):
        built = MeshSpec.parse(mesh).abstract("auto")
        try:
            rows = side_findings(pair, point, pair.reference, wanted, built)  # type: ignore[arg-type]
        except DeclarationError as error:
            raise DeclarationError(in_options(str(error).partition(", case 'call', ")[2] or str(error))) from error
    again = shlex.join(["samebits", "prove", *words_of(chosen, ProveOptions, TwoFunctions, FunctionsOptions, Filters)])
    name = pair.reference_name
    rows = [replace(row, place=replace(row.place, pair=name), replay=again) for row in rows]
    if not all(row.ruling.ok for row in rows):
        run.notes += anything_drawn([word for word in functions.arg if not any(word.split("=")[0] in n for n in notes)])
    run.notes += take_notes()
    if chosen.verbose:
        run.show([pair_block(name, rows)])
    return ProofDocument(
        environment=here,
        results=tuple(rows),
        problems=tuple(run.problems),
        notes=tuple(run.notes),
        seconds=round(run.seconds, 3),
        interrupted=run.interrupted,
    )


def with_places(pair: Pair, wanted: Sequence[Property]) -> tuple[Pair, list[str]]:
    """Return the arguments with segment ids and masks that a property needs, where no values are given, and a note."""
    assert isinstance(pair.args, dict)
    args: dict[str, Arg] = dict(pair.args)
    notes = []
    for each in wanted:
        name, draw, words = {
            "packed": (each.segment_ids or "segment_ids", _segments, "ends after the first and before the last place"),
            "padding": (each.mask or "mask", _valid, "padding at both ends"),
        }.get(each.name, ("", _valid, ""))
        if name in args and isinstance(args[name].values, Normal):
            args[name] = replace(args[name], values=draw)
            notes.append(f"no values are given for {name}, so it was drawn with {words}")
    return replace(pair, args=args), notes


def _segments(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Return segment ids: in each row one document of a single place at either end, and two between them."""
    place, row = np.arange(shape[-1]), np.arange(shape[0])[:, None]
    middle = np.clip(shape[-1] // 2 + row % 2, 1, shape[-1] - 1)
    return np.broadcast_to(1 + (place > 0) + (place >= middle) + (place == shape[-1] - 1), shape)


def _valid(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Return a mask that leaves out the first and the last place, in every other row the last two."""
    place, row = np.arange(shape[-1]), np.arange(shape[0])[:, None]
    return np.broadcast_to((place > 0) & (place < shape[-1] - 1 - row % 2), shape)

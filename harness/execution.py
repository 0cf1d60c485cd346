"""Runs compiled programs on the inputs of a case, the first one twice; what they gave is kept for the next variant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from harness.bits import same_bits
from harness.contract import Direction
from harness.inputs import COTANGENTS, Array, Record, cotangent, differentiable, records
from harness.outcome import Seen
from harness.placement import check_mesh_used, describe, diverging_replicas, place, put
from harness.point import Point
from harness.programs import Program
from harness.sides import Sides, Site, named_leaves, to_host, widen_array

Inputs = dict[str, tuple[Record, dict[str, Array]]]
"""By label: a record, and for a gradient the cotangents by output leaf."""


@dataclass(slots=True)
class Job:
    """A point whose programs are being compiled: `alone` (the reference), `reference` and `variant` on the mesh."""

    point: Point
    alone: Site
    on_mesh: Site
    programs: dict[str, Program] = field(default_factory=dict)


class Execution:
    """Executes the programs of one pair."""

    def __init__(self, sides: Sides) -> None:
        self.sides = sides
        self.pair = sides.pair
        self._records: dict[tuple[str, str, str], dict[str, Record]] = {}
        self._seen: dict[tuple[int, str, str], Seen] = {}

    def inputs(self, site: Site, side: str, direction: Direction) -> Inputs:
        """Every input of a program by label: the records, for a gradient times the cotangents."""
        key = (site.case.id, site.dtype, site.mesh.id)
        if key not in self._records:
            if len(self._records) > 64:
                self._records.clear()
            self._records[key] = records(self.pair, site.case, site.dtype, site.mesh)
        found = self._records[key]
        if direction == "forward":
            return {name: (record, {}) for name, record in found.items()}
        types = self.sides.cotangent_types(side, site)
        # Cotangents are drawn in the narrow dtype and widened, so that float64 sees the very same numbers.
        narrow = types if not site.x64 else self.sides.cotangent_types(side, replace(site, x64=False))
        pulled = {
            kind: {
                path: cotangent(kind, t.shape, narrow[path].dtype, self.pair.name, site.case.id, site.dtype, path)
                for path, t in types.items()
            }
            for kind in COTANGENTS
        }
        return {
            f"{name}, {kind} cotangent": (record, cotangents)
            for name, record in found.items()
            for kind, cotangents in pulled.items()
        }

    def program(self, side: str, site: Site, direction: Direction) -> Program:
        """The traced program of a side."""
        return self.sides.forward(side, site) if direction == "forward" else self.sides.gradient(side, site)

    def run(
        self, program: Program, side: str, site: Site, direction: Direction, labels: Sequence[str] | None = None
    ) -> Seen:
        """Run a program on its inputs, or on those of some labels; the first one runs twice.

        Raises:
            CouldNotRun: it does not compile, or the mesh was not used.
        """
        program.result()
        key = (id(program), site.case.id, site.dtype)  # cases and dtypes with other values share programs
        if len(self._seen) > 256:
            self._seen.clear()
        seen = self._seen.setdefault(key, Seen(trees={}, repeats=True, layout={}, replicas=[]))
        if labels is not None and all(label in seen.trees for label in labels):
            return seen
        for label, (record, cotangents) in self.inputs(site, side, direction).items():
            if label not in seen.trees and (labels is None or label in labels):
                self._run_on(program, side, site, direction, seen, label, record, cotangents)
        return seen

    def placed(
        self, side: str, site: Site, direction: Direction, record: Record, cotangents: dict[str, Array]
    ) -> tuple[dict[str, Any], tuple[Any, ...]]:
        """The arguments of a record on the devices of a site, and what a program is called with."""
        args = self.sides.args(site)
        with site.setup.active():
            wide = {name: widen_array(array, site) for name, array in record.items()}
            placed = place(wide, args, site.mesh, site.built)
            if direction == "forward":
                return placed, (placed,)
            names = differentiable(args, site.dtype)
            types = self.sides.cotangent_types(side, site)
            pulled = [
                put(widen_array(c, site).astype(types[p].dtype), types[p].sharding) for p, c in cotangents.items()
            ]
            rest = {n: placed[n] for n in placed if n not in names}
            return placed, ({n: placed[n] for n in names}, rest, pulled)

    def _run_on(
        self,
        program: Program,
        side: str,
        site: Site,
        direction: Direction,
        seen: Seen,
        label: str,
        record: Record,
        cotangents: dict[str, Array],
    ) -> None:
        compiled = program.result()
        placed, call = self.placed(side, site, direction, record, cotangents)
        with program.setup.active():
            outputs = compiled(*call)
        tree = to_host(outputs, program, direction)
        if not seen.trees:
            with program.setup.active():
                again = to_host(compiled(*call), program, direction)
            seen.repeats = all(same_bits(leaf.array, again.leaves[path].array) for path, leaf in tree.leaves.items())
            leaves = named_leaves(outputs, direction)
            named = leaves if direction == "forward" else {f"gradient of {name}": v for name, v in leaves.items()}
            seen.layout = {name: describe(value) for name, value in {**placed, **named}.items()}
            if site.built is not None:
                cotangents_placed = {f"cotangent {n}": c for n, c in enumerate(call[2] if len(call) > 2 else ())}
                check_mesh_used({**placed, **cotangents_placed}, leaves, site.mesh, site.built)
        if site.built is not None:
            # On every input: devices may hold the same copies of ordinary numbers and others of special values.
            known = {replica.path for replica in seen.replicas}
            seen.replicas += [
                one for one in diverging_replicas(named_leaves(outputs, direction)) if one.path not in known
            ]
        seen.trees[label] = tree

"""The document of `samebits list`, and its page: the pairs of a tree, and how much a check of each runs."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from typing import Literal

from samebits.programs.plan import Plan
from samebits.report.causes import usual_page
from samebits.report.document import CommandDocument
from samebits.report.page import Fold, Page, ValueList
from samebits.report.words import plural, short_meshes
from samebits.schema.pair import Pair
from samebits.schema.result import Problem


@dataclass(frozen=True, kw_only=True, slots=True)
class PairRow:
    """One pair.

    Args:
        reference: its name.
        variants: their names.
        cases: their ids, those under a transform included.
        dtypes: of the sweep.
        meshes: of the sweep.
        wide_meshes: meshes that are swept only where enough devices are available.
        modes: the sharding modes of the sweep.
        points: what a check would run: settings times sides and directions.
        selected, product: settings (case, mesh, dtype, mode) of the covering selection and of the whole product.
        unfit: wide meshes that need more devices than a run would have.
        compiled: the production shapes of `samebits compile`, with their targets.
    """

    pair: str
    reference: str
    variants: tuple[str, ...]
    cases: tuple[str, ...]
    dtypes: tuple[str, ...]
    meshes: tuple[str, ...]
    wide_meshes: tuple[str, ...]
    modes: tuple[str, ...]
    points: int
    selected: int
    product: int
    unfit: tuple[str, ...]
    compiled: tuple[str, ...] = ()

    @classmethod
    def of(cls, pair: Pair, plan: Plan) -> PairRow:
        """Return a pair with its plan."""
        return cls(
            pair=pair.name,
            reference=pair.reference_name,
            variants=pair.variant_names,
            cases=tuple(case.id for case in pair.cases),
            dtypes=pair.dtypes,
            meshes=pair.meshes,
            wide_meshes=pair.wide_meshes,
            modes=pair.modes,
            points=len(plan.points),
            selected=plan.selected,
            product=plan.product,
            unfit=plan.unfit,
            compiled=tuple(f"{real.case.id} on {' '.join(real.targets)}" for real in pair.compiled),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Listing(CommandDocument):
    """The document of `samebits list --json`."""

    command: Literal["list"] = "list"
    results: tuple[PairRow, ...]
    problems: tuple[Problem, ...]

    def page(self) -> Page:
        """Return a paragraph for each pair."""
        variants = plural(sum(len(row.variants) for row in self.results), "variant")
        points = plural(sum(row.points for row in self.results), "point")
        problems = f"; {plural(len(self.problems), 'problem')}" if self.problems else ""
        return replace(
            usual_page(self),
            closing=f"{plural(len(self.results), 'pair')} with {variants}; a check of all runs {points}{problems}",
            blocks=[Fold(title=row.pair, blocks=[_facts(row)], open=True) for row in self.results],
            command_next=shlex.join(["samebits", "check", self.results[0].pair]) if self.results else None,
        )


def _facts(row: PairRow) -> ValueList:
    wide = f"; on more devices {short_meshes(row.wide_meshes)}" if row.wide_meshes else ""
    return ValueList(
        rows=[
            ("reference", row.reference),
            ("variants", " ".join(row.variants)),
            ("cases", " ".join(row.cases)),
            ("dtypes", " ".join(row.dtypes)),
            ("meshes", short_meshes(row.meshes) + wide),
            ("too wide here", short_meshes(row.unfit)),
            ("modes", " ".join(row.modes)),
            ("check runs", f"{row.selected} of {row.product} settings, {row.points} points"),
            ("compiles", ", ".join(row.compiled) or "nothing"),
        ]
    )

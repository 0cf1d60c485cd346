"""The report of `samebits list`: the declarations of a tree, and how much a check would run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rich.console import Console
from rich.text import Text

from samebits.host.written import Written
from samebits.programs.plan import Plan
from samebits.report.document import SCHEMA
from samebits.report.words import short_meshes
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
        """A pair with its plan."""
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
class Listing:
    """The document of `samebits list --json`."""

    schema: Literal["samebits/1"] = SCHEMA
    command: Literal["list"] = "list"
    results: tuple[PairRow, ...]
    problems: tuple[Problem, ...]
    written: Written | None = None


def show_listing(to: Console, listing: Listing) -> None:
    """The listing as one paragraph per pair."""
    for item in listing.results:
        to.print(Text(item.pair, "bold"), soft_wrap=True)
        meshes = short_meshes(item.meshes)
        if item.wide_meshes:
            meshes += f"; on more devices {short_meshes(item.wide_meshes)}"
        for name, value in (
            ("reference", item.reference),
            ("variants", " ".join(item.variants)),
            ("cases", " ".join(item.cases)),
            ("dtypes", " ".join(item.dtypes)),
            ("meshes", meshes),
            ("modes", " ".join(item.modes)),
            ("check runs", f"{item.selected} of {item.product} settings, {item.points} points"),
            ("compiles", ", ".join(item.compiled) or "nothing"),
        ):
            to.print(Text(f"  {name:<11}{value}"), soft_wrap=True)
    if listing.results:
        to.print()
        to.print(Text(f"next: samebits check {listing.results[0].pair}"), soft_wrap=True)

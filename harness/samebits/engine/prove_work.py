"""The points of `samebits prove` as work: any process can prove any of them."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING

from samebits.engine.work import (
    Event,
    Item,
    ProcessExit,
    Reached,
    Started,
    Work,
    finished,
    lost_words,
    remarks,
    trouble,
)
from samebits.programs.catalogue import Locator, load
from samebits.programs.plan import LoadedPair
from samebits.programs.replay import replay
from samebits.schema.finding import Finding, Ruling, at
from samebits.schema.point import Point

if TYPE_CHECKING:
    from samebits.check.prove_points import PointProver


FEW = 6
"""Roughly how many points a process gets at a time where they are proved for all sizes, which takes seconds each."""


def prove_items(loaded: Sequence[LoadedPair], *, all_sizes: bool = False) -> list[Item]:
    """Return the points of pairs, in the order of their plans; those of one case and dtype share inputs and programs.

    For all sizes, those of a variant in a case share proofs, in all dtypes and on all meshes; these come together.
    """
    items = _items(loaded, all_sizes=all_sizes)
    if not all_sizes:
        return items
    groups: dict[Hashable, list[Item]] = {}
    for item in items:
        groups.setdefault(item.group, []).append(item)
    return [item for group in groups.values() for item in group]


def _items(loaded: Sequence[LoadedPair], *, all_sizes: bool) -> list[Item]:
    return [
        Item(
            key=f"{pair.pair.name}/{point}",
            pair=pair.locator.name,
            words=f"{pair.pair.name}: {point}",
            replay=replay(pair.locator, point, "prove"),
            group=(pair.pair.name, point.case, point.variant if all_sizes else point.dtype),
            payload=(pair.locator, pair.pair.name, point),
        )
        for pair in loaded
        for point in pair.plan.points
    ]


class ProveWork(Work[Finding]):
    """Proves points of pairs.

    Args:
        platform: the target: whose branches of `lax.platform_dependent` are taken.
        assuming: whether a proof may rest on assumptions beyond shapes and rounding.
        all_sizes: whether points are proved for all sizes of their cases.
    """

    kind = "prove"
    row = Finding

    def __init__(self, platform: str, *, assuming: bool = True, all_sizes: bool = False) -> None:
        self.platform, self.assuming, self.all_sizes = platform, assuming, all_sizes
        self.chunk = FEW if all_sizes else super().chunk
        # Each process that had a part of them would prove them on every number of devices again.
        self.divides = not all_sizes
        self._prover: PointProver | None = None

    def run(self, items: Sequence[Item], ahead: int) -> Iterator[Event]:
        """Prove points one by one; nothing is traced ahead."""
        leave_accelerators()
        if self._prover is not None:
            self._prover.begin_chunk()
        for item in items:
            locator, _, point = item.payload
            try:
                prover = self._prover_of(locator)  # imports jax and the declaration: not part of the point's time
                yield Started(key=item.key)
                yield Reached(key=item.key, stage=f"interpreting '{point.variant}' on {point.mesh}")
                results = self.results(prover, point)
            except Exception as error:
                yield trouble(item.pair, error)
                yield from remarks()
                return
            yield finished(item.key, results)
            yield from remarks()

    def results(self, prover: PointProver, point: Point) -> list[Finding]:
        """Return what is found of a point."""
        return prover.results(point)

    def lost(self, item: Item, loss: ProcessExit, stage: str) -> Finding:
        """Return an error at the point."""
        _, name, point = item.payload
        ruling = Ruling(verdict="error", required="bitwise", ok=False, reason=lost_words(loss, stage))
        return Finding(tool="prove", place=at(name, point), ruling=ruling, replay=item.replay)

    def close(self) -> None:
        """Drop the programs of the latest pair."""
        if self._prover is not None:
            self._prover.close()
            self._prover = None

    def _prover_of(self, locator: Locator) -> PointProver:
        """Return the prover of a pair; that of the latest one is cached."""
        from samebits.check.prove_points import PointProver

        if self._prover is None or self._prover.locator != locator:
            self.close()
            if self.all_sizes:
                from samebits.sizes.points import SizePointProver

                self._prover = SizePointProver(load(locator).on(self.platform), locator, self.platform)
            else:
                self._prover = PointProver(
                    load(locator).on(self.platform), locator, self.platform, assuming=self.assuming
                )
        return self._prover


def leave_accelerators() -> None:
    """Have jax start on the CPU where it has not started: nothing runs, and a TPU serves one process at a time."""
    from samebits.host import environment

    if not environment.backend_started():
        environment.prepare(platform="cpu")

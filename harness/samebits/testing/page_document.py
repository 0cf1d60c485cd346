"""The results of pair tests as text that travels with their reports, and as the document of one check."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from samebits.host import environment
from samebits.host.environment import Environment
from samebits.programs.catalogue import Locator
from samebits.programs.plan import LoadedPair, Request, plan
from samebits.report.any_document import join_heads
from samebits.report.document import Document, PairHead
from samebits.report.html.sections import page_of, section_of
from samebits.report.pair_heads import pair_head
from samebits.schema.finding import Finding, summarise
from samebits.schema.pair import Pair


@dataclass(frozen=True, kw_only=True)
class PointOfTest:
    """What one test contributes to the page.

    Args:
        head: of its pair.
        environment: where it ran; None where jax did not start.
        results: of its leaves.
    """

    head: PairHead
    environment: Environment | None
    results: tuple[Finding, ...]


def tested_text(pair: Pair, results: Sequence[Finding], *, devices: int, full: bool) -> str:
    """The results of a test as JSON.

    Args:
        pair: what it checks.
        results: of its point.
        devices: how many there are.
        full: whether the whole product runs.
    """
    ran = plan(pair, Request(full=full), devices)
    point = PointOfTest(
        head=pair_head(LoadedPair(locator=Locator(name=pair.name), pair=pair, plan=ran), results),
        environment=environment.capture() if environment.backend_started() else None,
        results=tuple(results),
    )
    return msgspec.json.encode(point).decode()


def tested_page(texts: Sequence[str], seconds: float) -> str:
    """The page of the results of all tests.

    Args:
        texts: as `tested_text` gives them.
        seconds: that the tests took.

    Raises:
        RequestError: no test started jax, and it does not start here either.
    """
    points = [msgspec.json.decode(text, type=PointOfTest) for text in texts]
    heads = join_heads(point.head for point in points)
    results = [result for point in points for result in point.results]
    here = next((point.environment for point in points if point.environment is not None), None)
    document = Document(
        environment=here or environment.capture(),
        pairs=tuple(heads),
        results=tuple(results),
        problems=(),
        summary=summarise(
            results,
            selected=sum(head.selected for head in heads),
            product=sum(head.product for head in heads),
            seconds=seconds,
        ),
    )
    return page_of([section_of(document, "pytest")])

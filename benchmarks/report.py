"""How long a page of many results takes to write, to open, and to filter, in the system's Chromium.

    python benchmarks/report.py [--results 10000] [--chromium /usr/bin/chromium] [--keep page.html]

The document is synthetic: results of 60 pairs on 40 meshes, of which one in a hundred fails with a witness. Opening
is the time from the navigation until the list of results is drawn, filtering the time from an input until the next
frame; beside each stands the processor time of the page's main thread, which other work on the machine does not move.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from samebits.host.environment import Environment
from samebits.report.check import Document, PairHead
from samebits.report.html.sections import page_of, section_of
from samebits.schema.difference import Difference, Witness
from samebits.schema.finding import Compared, Executed, Finding, Place, Ruling, summarise

PAIRS, MESHES = 60, 40

ENVIRONMENT = Environment(
    versions={"samebits": "0", "python": "3.11", "jax": "0.10.2", "jaxlib": "0.10.2", "libtpu": None, "numpy": "2.4"},
    platform="cpu",
    device_kind="cpu",
    devices=8,
    machine="x86_64",
    instruction_sets=("avx2",),
    cpus=2,
    flags={"XLA_FLAGS": ""},
    settings={"jax_enable_x64": "False"},
)

FILTERS = ("pair_07", "pair_0", "mesh_1 bfloat16", "different", "")


def points() -> Iterator[tuple[str, ...]]:
    """Places of results, without end: pair, variant, mesh, dtype, direction, case."""
    for case in itertools.count():
        for pair, mesh, dtype, direction in itertools.product(
            range(PAIRS), range(MESHES), ("float32", "bfloat16"), ("forward", "gradient")
        ):
            yield (
                f"pair_{pair:02}",
                f"variant_{(pair + case) % 3}",
                f"mesh_{mesh}",
                dtype,
                direction,
                f"case_{case}",
            )


def synthetic(count: int) -> Document:
    """A document of so many results."""
    results = tuple(_result(number, place) for number, place in enumerate(itertools.islice(points(), count)))
    heads = [
        PairHead(pair=f"pair_{pair:02}", reference="plain", variants=("variant_0",), selected=1, product=1)
        for pair in range(PAIRS)
    ]
    return Document(
        environment=ENVIRONMENT,
        pairs=tuple(heads),
        results=results,
        problems=(),
        summary=summarise(results, selected=1, product=1, seconds=1.0),
    )


def _result(number: int, place: tuple[str, ...]) -> Finding:
    pair, variant, mesh, dtype, direction, case = place
    ruling = Ruling(verdict=("proved", "bitwise", "rounding")[number % 3], required="bitwise", ok=True)
    compared = Compared(elements=8192, bits=f"{number * 2654435761 % 2**64:016x}")
    if number % 100 == 0:
        witness = Witness(
            leaf="out",
            index=(number % 64, 3),
            reference=f"{number}.5",
            optimized=f"{number}.25",
            reference_hex=f"0x{number:08x}",
            optimized_hex=f"0x{number + 1:08x}",
            input="special",
        )
        ruling = replace(ruling, verdict="different", ok=False)
        differences = (Difference(kind="value", elements=number + 1, max_ulp=number),)
        compared = replace(compared, witness=witness, mismatches=number + 1, differences=differences)
    return Finding(
        place=Place(
            pair=pair, variant=variant, case=case, dtype=dtype, mesh=mesh, mode="auto", direction=direction, leaf="out"
        ),
        ruling=replace(ruling, evidence=f"equal bits on {number % 17} inputs"),
        comparison=compared,
        run=Executed(devices=8),
        seconds=number / 1000,
        replay=f"samebits check {pair} --variant {variant} --case {case} --mesh {mesh} --dtype {dtype}",
    )


class Clock:
    """Wall and processor time of a page's main thread, in milliseconds."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.session = page.context.new_cdp_session(page)
        self.session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def processor(self) -> float:
        """Since the page's process began."""
        metrics = self.session.send("Performance.getMetrics")["metrics"]
        seconds: float = next(row["value"] for row in metrics if row["name"] == "TaskDuration")
        return 1000.0 * seconds

    def opened(self, file: Path) -> tuple[float, float]:
        """Until the list of results is drawn, in a new page."""
        self.page.goto(file.as_uri())
        self.page.wait_for_selector("details.row")
        wall: float = self.page.evaluate("new Promise((done) => requestAnimationFrame(() => done(performance.now())))")
        return wall, self.processor()

    def filtered(self, words: str) -> tuple[float, float]:
        """From an input to the frame after it."""
        script = """async (words) => {
          const search = document.querySelector('input[type=search]');
          const begin = performance.now();
          search.value = words;
          search.dispatchEvent(new Event('input', { bubbles: true }));
          await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
          return performance.now() - begin;
        }"""
        begin = self.processor()
        wall: float = self.page.evaluate(script, words)
        return wall, self.processor() - begin


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--results", type=int, default=10_000)
    options.add_argument("--chromium", default=shutil.which("chromium") or shutil.which("google-chrome"))
    options.add_argument("--keep", type=Path)
    chosen = options.parse_args()
    document = synthetic(chosen.results)
    begin = time.process_time()
    text = page_of([section_of(document)])
    print(
        f"{chosen.results} results: written in {time.process_time() - begin:.2f} s, {len(text.encode()) / 1e6:.1f} MB"
    )
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        file = chosen.keep or Path(folder) / "page.html"
        file.write_text(text, encoding="utf-8")
        browser = playwright.chromium.launch(executable_path=chosen.chromium, args=["--no-sandbox"])
        for _ in range(3):
            clock = Clock(browser.new_page())
            print("opened in {:.0f} ms, {:.0f} ms of processor time".format(*clock.opened(file.resolve())))
        for words in FILTERS:
            wall, processor = clock.filtered(words)
            print(f"search {words!r}: {wall:.0f} ms, {processor:.0f} ms of processor time")
        browser.close()


if __name__ == "__main__":
    main()

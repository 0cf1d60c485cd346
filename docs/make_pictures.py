"""Writes the pictures of README and docs: `make pictures`.

In: `samebits check` of one small pair, as it is and with one of its planted faults, and `samebits compile --run` of
`examples/microbatches`, run here, and the first block of the guide "What may it read?". Out, in docs/pictures/: the
terminal and a dependence matrix as SVG, the HTML reports as PNG, and pictures.json, which says what each shows. A test
holds all of them against what samebits prints and writes today.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from samebits.audit.faults.fault import all_faults
from samebits.properties.outcome import picture
from samebits.report.check import Document, read_document
from samebits.report.html.sections import html_page, section_of
from samebits.report.terminal import show_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "pictures"
LEAK = ROOT / "docs" / "guides" / "what_it_reads.md"
PAIR, SIDE, FAULT = "sequence_reorder", "structured", "early and late chunk swapped"
COMMAND = f"samebits check {PAIR} --case tokens --case bshd --dtype float32 --dtype int32 --mesh context4 --mode auto"
COMPILED = "samebits compile microbatches --run --target v5p:2x2x1 --root examples/microbatches"
TERMINALS = {"check_holds": False, "check_fails": True}
"""Pictures of a terminal, and whether the fault is planted."""

THEMES = ("light", "dark")
COLUMNS = 118
WINDOW = {"width": 1280, "height": 720}


class Recorder(Console):
    """A console that wraps long lines, as terminals do; otherwise the picture would cut them."""

    def print(self, *objects: Any, **options: Any) -> None:
        """Print, and wrap where the caller leaves that to the terminal."""
        super().print(*objects, **{**options, "soft_wrap": False, "overflow": "fold"})


@dataclass(frozen=True, slots=True)
class Shown:
    """What a report shows without scrolling.

    Args:
        headline, command: what broke, and what to run next.
        texts: the other texts that lie in the window, in the order of the page.
    """

    headline: str
    command: str
    texts: tuple[str, ...]


@contextmanager
def tree(*, faulty: bool) -> Iterator[Path]:
    """A copy of this repository's pairs, with or without the fault.

    Args:
        faulty: whether it is planted.
    """
    with tempfile.TemporaryDirectory(prefix="samebits-pictures-") as folder:
        root = Path(folder)
        for name in ("suites", "reference_impls", "optimized_impls"):
            shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
        if faulty:
            (fault,) = (each for each in all_faults(ROOT) if (each.pair, each.side, each.name) == (PAIR, SIDE, FAULT))
            source = root / "optimized_impls" / f"{PAIR}.py"
            text = source.read_text(encoding="utf-8")
            assert isinstance(fault.old, str) and isinstance(fault.new, str) and text.count(fault.old) == 1
            source.write_text(text.replace(fault.old, fault.new), encoding="utf-8")
        yield root


def check(root: Path) -> tuple[str, Document]:
    """What `COMMAND` prints below the environment in a tree, and its document.

    Args:
        root: of the tree.
    """
    printed, document = ran(f"{COMMAND} --in-process --fresh", root)
    _, _, printed = printed.partition(f"\n{PAIR}\n")
    return f"{PAIR}\n{printed}", document


def compiled() -> Document:
    """The document of `COMPILED`."""
    return ran(COMPILED, ROOT)[1]


def ran(command: str, folder: Path) -> tuple[str, Document]:
    """What a command prints in a folder, and its document."""
    file = Path(tempfile.mkdtemp(prefix="samebits-pictures-")) / "document.json"
    words = [*command.split()[1:], "--json", str(file)]
    # As wide as the picture: some lines are shortened to the width.
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "harness"), "COLUMNS": str(COLUMNS)}
    done = subprocess.run(
        [sys.executable, "-m", "samebits", *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in (0, 1):
        raise SystemExit(f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    document = read_document(file)
    shutil.rmtree(file.parent)
    return done.stdout, document


def terminal(document: Document) -> str:
    """The picture of a terminal with the report of a check.

    Args:
        document: of the check.

    Returns:
        SVG, which asks no network for a font.
    """
    to = Recorder(
        file=io.StringIO(), record=True, width=COLUMNS, force_terminal=True, color_system="truecolor", markup=False,
        highlight=False, emoji=False,
    )  # fmt: skip
    to.print(Text(f"$ {COMMAND}", "bold"))
    show_page(to, document.page())
    svg = to.export_svg(title="samebits", theme=MONOKAI, unique_id="samebits")
    return re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL).replace("Fira Code, monospace", "monospace")


def dependence() -> str:
    """The dependence matrix of the leak with which its guide begins, as SVG."""
    code = re.search(r"^```python\n(.*?)^```$", LEAK.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert code is not None
    names: dict[str, Any] = {"__name__": "page"}
    exec(compile(code[1], "leak.py", "exec"), names)
    return f"{picture(names['outcome'].readings[0])}\n"


def report(document: Document) -> str:
    """The HTML report of a command."""
    return html_page([section_of(document)], "samebits check")


def shown(page: Page) -> Shown:
    """What a report shows in the browser's window.

    Args:
        page: with the report, not scrolled.
    """
    texts = page.evaluate(_TEXTS)
    headline, command = (page.locator(f"{name}:visible").first.inner_text() for name in (".headline", ".banner code"))
    return Shown(masked(headline), masked(command), tuple(masked(text) for text in texts))


def masked(text: str) -> str:
    """A text without what differs from run to run: seconds; and with single spaces."""
    return re.sub(r"(\d+(\.\d+)? ?(s|ms|min|h)\b ?)+", "N s ", " ".join(text.split()))


def screenshots(browser: Browser, document: Document) -> tuple[dict[str, bytes], Shown]:
    """The report in both themes, and what it shows.

    Args:
        browser: that opens it.
        document: of the check.
    """
    pictures = {}
    for theme in THEMES:
        context = browser.new_context(viewport=WINDOW, color_scheme=theme, offline=True, reduced_motion="reduce")
        page = context.new_page()
        page.set_content(report(document))
        page.wait_for_timeout(500)
        pictures[theme] = page.screenshot()
        words = shown(page)
        context.close()
    return pictures, words


def main() -> None:
    """Write all pictures, and what they show."""
    from playwright.sync_api import sync_playwright

    PICTURES.mkdir(exist_ok=True)
    documents = {}
    for name, faulty in TERMINALS.items():
        with tree(faulty=faulty) as root:
            _, documents[name] = check(root)
        (PICTURES / f"{name}.svg").write_text(terminal(documents[name]), encoding="utf-8")
    (PICTURES / "dependence.svg").write_text(dependence(), encoding="utf-8")
    with sync_playwright() as playwright:
        executable = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        pictures, words = screenshots(browser, documents["check_fails"])
        of_target, words_of_target = screenshots(browser, compiled())
        browser.close()
    for theme, png in pictures.items():
        (PICTURES / f"report_{theme}.png").write_bytes(png)
    (PICTURES / "compiled_dark.png").write_bytes(of_target["dark"])
    sidecar = {
        "command": COMMAND,
        "fault": FAULT,
        "jax": documents["check_fails"].environment.versions["jax"],
        "report": asdict(words),
        "compiled": asdict(words_of_target),
    }
    (PICTURES / "pictures.json").write_text(json.dumps(sidecar, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


_TEXTS = """() => {
  const walker = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  const texts = [];
  while (walker.nextNode()) {
    const range = document.createRange();
    range.selectNodeContents(walker.currentNode);
    const box = range.getBoundingClientRect();
    const text = walker.currentNode.textContent.trim();
    if (text !== "" && box.width > 0 && box.bottom < innerHeight && box.right <= innerWidth) texts.push(text);
  }
  return texts;
}"""

if __name__ == "__main__":
    main()

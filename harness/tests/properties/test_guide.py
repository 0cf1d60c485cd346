"""The guides `what_it_reads.md` and `two_functions.md`: blocks print what the pages show, but for numbers."""

import contextlib
import io
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bisect.test_walkthrough import unlike
from tests.project.pages import DOCS, Block, blocks

GUIDES = [DOCS / "guides" / name for name in ("what_it_reads.md", "two_functions.md")]
HERE = f"harness/tests/properties/{Path(__file__).name}"


def shown() -> Iterator[tuple[Block, Block]]:
    """Yield the outputs of the pages with the code before each."""
    code = None
    for block in (block for page in GUIDES for block in blocks(page.read_text(encoding="utf-8"), page.name)):
        if block.language == "python":
            code = block
        elif block.mark("run by") == HERE:
            assert code is not None
            yield code, block


def printed(code: Block, output: Block) -> str:
    """Return what the code of a page prints."""
    text = code.text
    if change := output.mark("replaced"):
        old, new = change.split(" by ")
        assert text.count(old) == 1
        text = text.replace(old, new)
    to = io.StringIO()
    with contextlib.redirect_stdout(to):
        exec(compile(text, "guide.py", "exec"), {"__name__": "page"})
    return to.getvalue()


def masked(text: str) -> str:
    """Return a text without numbers and places in files."""
    text = re.sub(r"\S+\.(py|md):\d+", "FILE", text)
    return re.sub(r"(?<![a-z])-?\d+(\.\d+)?(e[+-]?\d+)?(?![\dx])|0x[0-9a-f]+", "N", text)


SHOWN = [*shown()]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("code", "output"), SHOWN, ids=[str(output) for _, output in SHOWN])
def test_a_block_prints_what_is_shown(code: Block, output: Block) -> None:
    assert unlike(masked(output.text).splitlines(), masked(printed(code, output))) is None


def test_another_verdict_is_found() -> None:
    code, output = SHOWN[0]
    honest = Block(code.page, code.line, code.language, code.text.replace("k=1", "k=0"))
    assert (
        unlike(masked(output.text).splitlines(), masked(printed(honest, output))) == "causal(attention): refuted (N s)"
    )

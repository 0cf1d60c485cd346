"""The pictures of README and docs show what samebits prints and writes today; `make pictures` writes them anew."""

from __future__ import annotations

import functools
import importlib.util
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import jax
import pytest

from samebits.report.check import Document
from tests.hlo.programs import needs_libtpu
from tests.report.html.browser.conftest import Opener
from tests.support.invoke import REPOSITORY

if TYPE_CHECKING:
    from playwright.sync_api import Browser

LARGEST = 150_000
"""Bytes of one picture, as it is in the history of the repository for ever."""


@pytest.fixture(scope="module")
def maker() -> Iterator[ModuleType]:
    """The script that writes the pictures."""
    spec = importlib.util.spec_from_file_location("make_pictures", REPOSITORY / "docs" / "make_pictures.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.fixture(scope="module")
def sidecar(maker: ModuleType) -> dict[str, Any]:
    """What the pictures show, as written beside them."""
    written: dict[str, Any] = json.loads((maker.PICTURES / "pictures.json").read_text(encoding="utf-8"))
    if written["jax"] != jax.__version__:
        pytest.skip(f"the pictures were made with jax {written['jax']}; this is {jax.__version__}")
    return written


@pytest.fixture(scope="module")
def checked(maker: ModuleType, sidecar: dict[str, Any]) -> Callable[[str], tuple[str, Document]]:
    """What the command prints and writes today, by the picture of a terminal."""

    @functools.cache
    def ran(name: str) -> tuple[str, Document]:
        with maker.tree(faulty=maker.TERMINALS[name]) as root:
            found: tuple[str, Document] = maker.check(root)
            return found

    return ran


def text_of(svg: Path) -> str:
    """The text of a terminal's picture without spaces, as where a line is wrapped depends on its width."""
    cells = [each for each in ElementTree.parse(svg).iter() if each.tag.endswith("}text")]
    text = "".join(each.text or "" for each in cells if "-title" not in each.get("class", ""))
    return "".join(text.split())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["check_holds", "check_fails"])
def test_a_terminal_shows_what_is_printed(
    name: str, maker: ModuleType, checked: Callable[[str], tuple[str, Document]]
) -> None:
    printed = "".join(f"$ {maker.COMMAND} {checked(name)[0]}".split())
    assert maker.masked(text_of(maker.PICTURES / f"{name}.svg")) == maker.masked(printed), "run `make pictures`"


def test_a_matrix_shows_what_a_leak_reads(maker: ModuleType) -> None:
    written = (maker.PICTURES / "dependence.svg").read_text(encoding="utf-8")
    assert written == maker.dependence(), "run `make pictures`"
    cells = [
        (colour, int(width) // 16) for width, colour in re.findall(r'width="(\d+)" height="16" fill="(#\w+)"', written)
    ]
    assert sum(count for colour, count in cells if colour == "#1565c0") == 16 * 17 / 2
    assert [count for colour, count in cells if colour == "#c62828"] == [1] * 15


def test_one_picture_fails_and_the_other_holds(maker: ModuleType) -> None:
    assert "allcontractshold" in text_of(maker.PICTURES / "check_holds.svg")
    assert "allcontractshold" not in text_of(maker.PICTURES / "check_fails.svg")


@pytest.mark.slow
@pytest.mark.parametrize("picture", ["report", pytest.param("compiled", marks=needs_libtpu)])
def test_the_report_shows_what_its_picture_shows(
    picture: str,
    maker: ModuleType,
    sidecar: dict[str, Any],
    checked: Callable[[str], tuple[str, Document]],
    opened: Opener,
) -> None:
    document = maker.compiled() if picture == "compiled" else checked("check_fails")[1]
    page = opened(maker.report(document), **maker.WINDOW).page
    page.wait_for_timeout(500)
    words = maker.shown(page)
    written = sidecar[picture]
    assert (words.headline, words.command) == (written["headline"], written["command"]), "run `make pictures`"
    # Which texts lie in the window depends on the fonts of the machine, that they are on the page does not.
    on_page = maker.masked(page.evaluate("document.querySelector('main').innerText"))
    assert [text for text in written["texts"] if "".join(text.split()) not in "".join(on_page.split())] == []


def test_pictures_are_small_and_of_both_themes(maker: ModuleType, chromium: Browser) -> None:
    page = chromium.new_page()
    page.goto((maker.PICTURES / "pictures.json").as_uri())
    brightness = {}
    for theme in maker.THEMES:
        path = maker.PICTURES / f"report_{theme}.png"
        assert path.stat().st_size < LARGEST
        page.goto(path.as_uri())
        width, height, brightness[theme] = page.evaluate(_PIXELS)
        assert [width, height] == [maker.WINDOW["width"], maker.WINDOW["height"]]
    page.close()
    assert brightness["light"] > 200 and brightness["dark"] < 60


_PIXELS = """() => {
  const image = document.querySelector("img");
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [image.naturalWidth, image.naturalHeight];
  const context = canvas.getContext("2d");
  context.drawImage(image, 0, 0);
  const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
  let sum = 0;
  for (let at = 0; at < data.length; at += 4) sum += data[at] + data[at + 1] + data[at + 2];
  return [canvas.width, canvas.height, (4 * sum) / (3 * data.length)];
}"""


def test_a_picture_asks_no_network(maker: ModuleType) -> None:
    for name in maker.TERMINALS:
        text = (maker.PICTURES / f"{name}.svg").read_text(encoding="utf-8")
        assert "url(http" not in text and "@font-face" not in text

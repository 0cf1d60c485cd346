"""`pytest --report-html FILE`: the page of all pair tests, with xdist and without."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.foreign import PLANTED, write_pair
from tests.testing.test_plugin import run_pytest


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tree with a pair that holds, and one that does not."""
    folder = tmp_path_factory.mktemp("broken")
    write_pair(folder, "twice")
    write_pair(folder, "thrice", optimized=PLANTED)
    return folder


def data(page: Path, name: str) -> Any:
    """What the page embeds for its scripts."""
    text = re.search(rf'data-name="data:{name}">(.*?)</script>', page.read_text(), flags=re.S)
    assert text is not None
    return json.loads(text[1])


@pytest.mark.slow
@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["one process", "xdist"])
def test_the_page_has_the_results_of_all_tests(broken: Path, tmp_path: Path, workers: tuple[str, ...]) -> None:
    page = tmp_path / "page.html"
    done = run_pytest(broken, *workers, f"--report-html={page}")
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"samebits: --report-html: wrote {page}" in done.stdout
    fields = data(page, "results")["fields"]
    assert sorted(fields["pair"]["values"]) == ["thrice", "twice"]
    assert "different" in fields["verdict"]["values"]
    assert 'class="banner is-failed"' in page.read_text()
    assert "samebits check thrice" in page.read_text()


@pytest.mark.slow
def test_an_error_is_on_the_page(tmp_path: Path) -> None:
    write_pair(tmp_path, "twice", optimized="def fast(x):\n    raise ValueError('<b>broken')\n")
    page = tmp_path / "page.html"
    assert run_pytest(tmp_path, f"--report-html={page}").returncode == 1
    assert "error" in data(page, "results")["fields"]["verdict"]["values"]
    assert "<b>broken" not in page.read_text()


@pytest.mark.slow
def test_without_a_pair_test_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / "test_plain.py").write_text("def test_plain():\n    pass\n")
    done = run_pytest(tmp_path, "--report-html=page.html")
    assert done.returncode == 0
    assert "samebits: --report-html page.html: no pair test ran; nothing was written" in done.stdout
    assert not (tmp_path / "page.html").exists()


def test_a_page_that_cannot_be_written_ends_pytest(broken: Path) -> None:
    done = run_pytest(broken, "--report-html=missing/page.html")
    assert done.returncode == 4
    assert "--report-html missing/page.html: the folder 'missing' does not exist; create it first" in done.stderr

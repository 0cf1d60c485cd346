"""The documentation site: it builds without a warning, has every command, key and export, and a wrong page fails it."""

import inspect
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import samebits
from samebits.cli import main
from samebits.report.json_schema import SCHEMA_FILE, described, schema
from samebits.testing import strategies
from tests.project.pages import DOCS
from tests.support.invoke import REPOSITORY, clean_environment

pytestmark = pytest.mark.xdist_group("site")  # one worker builds the site for all

SOURCES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "mkdocs.yml")


def copied(root: Path) -> Path:
    """A copy of what the site is made from, to plant faults in."""
    for name in SOURCES:
        shutil.copy(REPOSITORY / name, root / name)
    shutil.copytree(DOCS, root / "docs", ignore=shutil.ignore_patterns("__pycache__"))
    (root / "harness").symlink_to(REPOSITORY / "harness")
    return root


def build(root: Path) -> str:
    """Build the site of a tree; what it warns of, empty where it builds. With `--quiet` it would warn of nothing."""
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(root / "mkdocs.yml")],
        env=clean_environment(NO_MKDOCS_2_WARNING="1"),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    warnings = "".join(re.findall(r"^(?:WARNING|ERROR) .*\n(?:  .*\n)*", done.stderr, re.MULTILINE))
    assert (done.returncode == 0) is (warnings == ""), done.stderr
    return warnings


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site."""
    root = copied(tmp_path_factory.mktemp("site"))
    assert build(root) == ""
    return root / "build" / "site"


@pytest.mark.slow
def test_tables_inside_of_a_fold_are_tables(site: Path) -> None:
    page = (site / "findings" / "compiled_jax_0.10.2.html").read_text(encoding="utf-8")
    fold = page[page.index("<details>") :]
    assert "<td>log_softmax</td>" in fold[: fold.index("</details>")]


@pytest.mark.slow
def test_every_command_has_its_reference(site: Path) -> None:
    page = (site / "reference" / "commands.html").read_text(encoding="utf-8")
    shown = {name for name, command in main.commands.items() if not command.hidden}
    assert {name for name in shown if f'id="samebits-{name}"' not in page} == set()
    assert "--shake" in page and str(REPOSITORY) not in page
    assert "Sentinel" not in page  # what the style `table` of mkdocs-click 0.9 prints of an option without a default


@pytest.mark.slow
def test_the_schema_is_published(site: Path) -> None:
    published = json.loads((site / "reference" / SCHEMA_FILE).read_text(encoding="utf-8"))
    assert published["$defs"].keys() == schema()["$defs"].keys()


@pytest.mark.slow
def test_the_home_page_is_the_readme(site: Path) -> None:
    page = (site / "index.html").read_text(encoding="utf-8")
    assert 'href="guides/first_pair.html"' in page
    assert "docs/guides" not in page


@pytest.mark.slow
def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    """Links to other sites are for readers; fonts, styles and scripts come with the site."""
    loaded = re.compile(r'<(?:script|link|img)[^>]*(?:src|href)="(https?:)?//', re.IGNORECASE)
    assert [page.name for page in site.rglob("*.html") if loaded.search(page.read_text(encoding="utf-8"))] == []


WARNED = (
    ("docs/limits.md", "(guides/many_hosts.md)", "(guides/hosts.md)", "hosts.md"),
    ("docs/guides/ci.md", "(../reference/json.md)", "(training.md#nowhere)", "#nowhere"),
    ("README.md", "(docs/guides/training.md)", "(docs/guides/trainings.md)", "trainings.md"),
    ("mkdocs.yml", "  - Performance: performance.md\n", "", "- performance.md"),
)
FATAL = (("docs/reference/python.md", "schema.pair.Pair", "schema.pair.Peer", "Peer"),)


@pytest.mark.slow
@pytest.mark.parametrize("faults", [WARNED, FATAL], ids=["warnings", "an unknown export"])
def test_a_wrong_page_fails_the_build(faults: tuple[tuple[str, str, str, str], ...], tmp_path: Path) -> None:
    """Planted together, since a build takes seconds; each has its own warning."""
    root = copied(tmp_path)
    for file, old, new, _ in faults:
        text = (root / file).read_text(encoding="utf-8")
        assert old in text
        (root / file).write_text(text.replace(old, new), encoding="utf-8")
    warnings = build(root)
    assert [message for *_, message in faults if message not in warnings] == []


# --- the Python API --------------------------------------------------------------------------------------------------


def unexplained(thing: Callable[..., Any]) -> list[str]:
    """The arguments of a function or class that its docstring does not name."""
    _, meanings = described(thing.__doc__ or "")
    return [name for name in inspect.signature(thing).parameters if name not in meanings]


def public() -> dict[str, Callable[..., Any]]:
    """Every function and class that users import, by its path."""
    things = {f"samebits.{name}": getattr(samebits, name) for name in samebits.__all__}
    own = {
        f"{strategies.__name__}.{name}": thing
        for name, thing in vars(strategies).items()
        if inspect.isfunction(thing) and thing.__module__ == strategies.__name__
    }
    callables = {
        name: thing for name, thing in (things | own).items() if inspect.isclass(thing) or inspect.isfunction(thing)
    }
    return {
        name: thing
        for name, thing in callables.items()
        if not (inspect.isclass(thing) and issubclass(thing, Exception))
    }


@pytest.mark.parametrize("name", sorted(public()))
def test_every_argument_is_explained(name: str) -> None:
    assert unexplained(public()[name]) == []


def test_an_argument_without_a_word_is_found() -> None:
    def planted(shape: tuple[int, ...], dtype: str) -> None:
        """Do nothing.

        Args:
            shape: of the array; its dtype is not explained.
        """

    assert unexplained(planted) == ["dtype"]
    assert {"samebits.Pair", "samebits.compile_for", "samebits.testing.strategies.arrays"} <= public().keys()


@pytest.mark.slow
def test_the_page_has_every_export(site: Path) -> None:
    page = (site / "reference" / "python.html").read_text(encoding="utf-8")
    homes = re.findall(r"^::: (\S+)$", (DOCS / "reference" / "python.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert {home.rpartition(".")[2] for home in homes if "strategies" not in home} == set(samebits.__all__)
    assert [home for home in homes if f'id="{home}"' not in page] == []

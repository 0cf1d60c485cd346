"""Every block of README and docs: Python runs, console blocks give what they show, anything else says why it cannot."""

import importlib.util
import shlex
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from samebits.host import environment
from tests.bisect.test_walkthrough import unlike
from tests.project.pages import DOCS, PAGES, Block, all_blocks, blocks, name_of
from tests.support.invoke import REPOSITORY, samebits, samebits_process

environment.prepare()

BLOCKS = all_blocks()
FIRST_PAIR = DOCS / "guides" / "first_pair.md"
DATA = ("dockerfile", "sh", "yaml", "json", "toml")
"""Blocks that are no Python and show no output; commands in `sh` are parsed by `test_pages`."""


def unjustified(block: Block) -> str | None:
    """Why a block is neither run nor says why not; None where it is in order."""
    if block.language == "python":
        reason = block.mark("not run")
        return f"{block}: 'not run' without a reason" if reason == "" else None
    if block.language in DATA:
        return None
    if block.mark("run") is not None or block.mark("tree") is not None:
        return None
    by = block.mark("run by")
    if by is not None:
        file = REPOSITORY / by
        known = file.is_file() and Path(block.page).name in file.read_text(encoding="utf-8")
        return None if known else f"{block}: '{by}' is not a test of this page"
    if block.mark("output of"):
        return None
    # A command to copy, as it stands in the Markdown of commands.
    begin = {"console": ("$ ",), "": ("samebits ", "pytest ")}.get(block.language, ())
    only_commands = all(line.startswith(begin) for line in block.text.splitlines())
    return None if only_commands else f"{block}: output that nothing regenerates"


def test_every_block_runs_or_says_why_not() -> None:
    assert [said for block in BLOCKS if (said := unjustified(block))] == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("```\nall contracts hold\n```\n", "page.md:1: output that nothing regenerates"),
        ("```console\n$ samebits list\nrope\n```\n", "page.md:1: output that nothing regenerates"),
        ("\n<!-- not run -->\n```python\n1 / 0\n```\n", "page.md:3: 'not run' without a reason"),
        ("<!-- run by: harness/tests/gone.py -->\n```console\n$ ls\n```\n", "'harness/tests/gone.py' is not a test"),
    ],
)
def test_a_block_without_a_reason_is_found(text: str, message: str) -> None:
    (block,) = blocks(text, "page.md")
    assert message in (unjustified(block) or "")


# --- Python ----------------------------------------------------------------------------------------------------------


def execute(block: Block) -> None:
    """Run a block in a namespace of its own; what it raises points at the page."""
    code = compile("\n" * block.line + block.text, block.page, "exec")
    exec(code, {"__name__": "page"})


def skip_without(block: Block) -> None:
    """Skip where a module that a block needs is not installed."""
    needs = block.mark("needs")
    if needs and importlib.util.find_spec(needs) is None:
        pytest.skip(f"{needs} is not installed")


def runs(block: Block) -> bool:
    return block.language == "python" and block.file is None and block.mark("not run") is None


@pytest.mark.sampled(2)
@pytest.mark.parametrize("block", [block for block in BLOCKS if runs(block)], ids=str)
def test_python_runs(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    skip_without(block)
    monkeypatch.chdir(tmp_path)
    execute(block)


def undefined(python: Iterable[Block], folder: Path) -> list[str]:
    """The names that blocks use and nothing defines, as the linter says it."""
    for number, block in enumerate(python):
        (folder / f"block{number}.py").write_text(f"# {block}\n{block.text}", encoding="utf-8")
    words = ("check", "--isolated", "--select", "F821", "--output-format", "concise", str(folder))
    ended = subprocess.run([sys.executable, "-m", "ruff", *words], capture_output=True, text=True, check=False)
    assert ended.returncode in (0, 1) and not ended.stderr, ended.stderr  # 1 without ruff, too, and then names nothing
    found = [line for line in ended.stdout.splitlines() if "F821" in line]
    files = [Path(line.partition(":")[0]).read_text(encoding="utf-8") for line in found]
    return [
        f"{text.splitlines()[0].removeprefix('# ')}: {line.rpartition('F821 ')[2]}"
        for text, line in zip(files, found, strict=True)
    ]


def test_no_block_uses_a_name_that_nothing_defines(tmp_path: Path) -> None:
    """Those that `make test` does not run too."""
    assert undefined(filter(runs, BLOCKS), tmp_path) == []


def test_a_name_that_nothing_defines_is_found(tmp_path: Path) -> None:
    (block,) = blocks("# page\n\n```python\ncontracts = (Contract(),)\n```\n", "page.md")
    assert undefined([block], tmp_path) == ["page.md:3: Undefined name `Contract`"]


def test_a_block_that_raises_is_found() -> None:
    (block,) = blocks("# page\n\n```python\nfrom samebits import Pair\n\nPair(name='rope')\n```\n", "page.md")
    assert runs(block)
    with pytest.raises(TypeError, match="missing") as raised:
        execute(block)
    assert raised.traceback[-1].lineno + 1 == 6


# --- files and console blocks ----------------------------------------------------------------------------------------


def write_files(page: list[Block], root: Path) -> list[str]:
    """The Python blocks of a page that begin with a path, as files under `root`."""
    for block in page:
        if block.file is not None:
            path = root / block.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text.partition("\n")[2], encoding="utf-8")
    return [block.file for block in page if block.file is not None]


def wrong_output(block: Block, root: Path) -> str | None:
    """What a console block shows and its command does not give; None where it gives all of it."""
    first, *lines = block.text.splitlines()
    mark = block.mark("run") or ""
    code = next((code for code in (1, 2, 3) if f"exit {code}" in mark), 0)
    words = shlex.split(first.removeprefix("$ samebits "))
    if "the CPU in place" in mark:
        words = ["cpu" if before == "--platform" else word for before, word in zip(["", *words], words, strict=False)]
    ended = samebits_process(*words, cwd=REPOSITORY if "in the repository" in mark else root)
    if ended.code != code:
        return f"{block}: exit code {ended.code}, expected {code}: {ended.out}{ended.err}"
    missing = unlike(lines, ended.err if code == 2 else ended.out)
    return None if missing is None else f"{block}: not in the output: {missing}\n{ended.out}"


SHOWN = [block for block in BLOCKS if block.mark("run") is not None]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("block", SHOWN, ids=str)
def test_console_blocks_give_what_they_show(block: Block, tmp_path: Path) -> None:
    skip_without(block)
    write_files([other for other in BLOCKS if other.page == block.page], tmp_path)
    assert wrong_output(block, tmp_path) is None


def test_another_output_and_another_code_are_found(tmp_path: Path) -> None:
    shown = "<!-- run -->\n```console\n$ samebits --version\nsamebits, release ...\n```\n"
    (block,) = blocks(shown, "page.md")
    assert "not in the output: samebits, release ..." in (wrong_output(block, tmp_path) or "")
    (block,) = blocks(shown.replace("--version", "check gone"), "page.md")
    assert "exit code 2, expected 0" in (wrong_output(block, tmp_path) or "")


def test_files_of_a_page_are_run() -> None:
    """A page that shows files also shows a command that runs them; the first guide has its own test."""
    own = {name_of(FIRST_PAIR)}
    with_files = {block.page for block in BLOCKS if block.file is not None}
    assert with_files - own == {block.page for block in SHOWN} & with_files - own
    assert own <= with_files


def test_the_first_pair_holds(tmp_path: Path) -> None:
    files = write_files(blocks(FIRST_PAIR.read_text(encoding="utf-8"), FIRST_PAIR.name), tmp_path)
    in_folders = [file for file in files if "/" in file]
    assert in_folders == ["reference_impls/rope.py", "optimized_impls/rope.py", "suites/test_rope.py"]
    ended = samebits("check", "rope", "--root", tmp_path)
    assert ended.code == 0, ended.out + ended.err
    assert "rope" in ended.out and "all contracts hold" in ended.out


def test_a_fault_in_the_first_pair_is_found(tmp_path: Path) -> None:
    write_files(blocks(FIRST_PAIR.read_text(encoding="utf-8"), FIRST_PAIR.name), tmp_path)
    file = tmp_path / "optimized_impls" / "rope.py"
    honest = file.read_text(encoding="utf-8")
    file.write_text(honest.replace("first * sin + second * cos", "first * sin - second * cos"), encoding="utf-8")
    assert file.read_text(encoding="utf-8") != honest
    ended = samebits("check", "rope", "--root", tmp_path)
    assert ended.code == 1
    assert "different" in ended.out


# --- the tree of the architecture page -------------------------------------------------------------------------------


def missing_paths(block: Block, root: Path) -> list[str]:
    """The paths of a drawn tree that do not exist; indented ones lie in the folder above them."""
    missing, parent = [], ""
    for line in block.text.splitlines():
        path = line.split()[0]
        if not line.startswith(" "):
            parent = path if path.endswith("/") else ""
        full = (parent + path) if line.startswith(" ") else path
        if not (root / full).exists():
            missing.append(full)
    return missing


def test_the_drawn_tree_exists() -> None:
    (tree,) = [block for block in BLOCKS if block.mark("tree") is not None]
    assert missing_paths(tree, REPOSITORY) == []
    (planted,) = blocks("```text\nharness/samebits/  x\n  gone/  y\n  cli/   z\nmissing.py  w\n```\n", "page.md")
    assert missing_paths(planted, REPOSITORY) == ["harness/samebits/gone/", "missing.py"]


def test_no_page_is_forgotten() -> None:
    assert {"README.md", "docs/guides/ci.md", "docs/reference/commands.md"} <= {name_of(page) for page in PAGES}

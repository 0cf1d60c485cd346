"""Sources that an implementation imports from the repository, beside the tree: each commit runs with its own."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from samebits.bisect.commits.run import CommitsRequest, bisect_commits
from samebits.bisect.search.trials import NothingFails
from samebits.bisect.session import Session
from samebits.host.subprocesses import ProcessResult
from tests.bisect.histories import CHECK, GOOD, History, document


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAMEBITS_CACHE_DIR", str(tmp_path / "cache"))


def imports(words: Sequence[str], cwd: Path, environment: Mapping[str, str], timeout: float | None) -> ProcessResult:
    """A check that fails where the first `kernels.py` on PYTHONPATH is wrong."""
    folders = [Path(entry) for entry in environment["PYTHONPATH"].split(os.pathsep)]
    text = next(path.read_text() for folder in folders if (path := folder / "kernels.py").is_file())
    file = Path(words[words.index("--json") + 1])
    file.write_text(document(ok="wrong" not in text))
    return ProcessResult(code=int("wrong" in text))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("src", ["src", "."])
def test_sources_beside_the_tree_are_those_of_the_commit(tmp_path: Path, src: str, whole: bool) -> None:
    """The tree is a folder of its repository; its implementations import what PYTHONPATH has beside it."""
    (tmp_path / "top/src").mkdir(parents=True)
    kernels = f"{src}/kernels.py"
    history = History(tmp_path / "top", {kernels: "right\n"}, inside="checks")
    history.commit("refactor", GOOD + "# innocent\n")
    history.commit("docs", **{"notes.md": "1\n"})
    culprit = history.commit("perf", **{kernels: "wrong\n"})
    history.commit("more", GOOD + "# more\n")
    (history.root / kernels).write_text("wrong, and not committed\n")
    environment = {"PYTHONPATH": str(history.root / src)}
    check = ("samebits", *CHECK) if whole else CHECK
    request = CommitsRequest(
        good="trunk~4", bad="trunk", check=check, root=history.tree, whole=whole, environment=environment, run=imports
    )
    result = bisect_commits(request, Session())
    assert (result.found, result.culprits) == (True, ((culprit,),))
    assert "+wrong" in result.detail["diff"]
    if (src, whole) == ("src", False):
        assert "4 commits between, of which 3 change reference_impls/, optimized_impls/ or src/" in result.notes
    history.commit("healed", **{kernels: "right\n"})
    with pytest.raises(NothingFails):
        bisect_commits(replace(request, bad="trunk"), Session())

"""Bisection over pinned packages: simulated packages, and real environments of small wheels without a network."""

import base64
import hashlib
import json
import math
import os
import shlex
import subprocess
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from samebits.bisect.commits.toolchain import (
    Pins,
    ToolchainRequest,
    bisect_toolchain,
    build,
    pinned_versions,
    pins_text,
    read_pins,
    required_pins,
)
from samebits.bisect.search.trials import NothingFails, SearchFinding
from samebits.bisect.session import Session
from samebits.errors import CouldNotRun, RequestError
from samebits.host.subprocesses import ProcessResult
from tests.bisect.histories import CHECK, GOOD, PLACE, PLAIN, document
from tests.support.foreign import write_pair
from tests.support.invoke import samebits

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    write_pair(tmp_path / "tree", "rev", reference=PLAIN, optimized=GOOD)
    return tmp_path / "tree"


def locks(folder: Path, good: Mapping[str, str], bad: Mapping[str, str]) -> tuple[Path, Path]:
    found = folder / "good.txt", folder / "bad.txt"
    for path, pins in zip(found, (good, bad), strict=True):
        path.write_text("# pins\n\n" + "".join(f"{name}=={version}  # why\n" for name, version in pins.items()))
    return found


@dataclass(slots=True)
class Pretended:
    """Environments that are only their pins, and a check that fails with some of them.

    Args:
        fails: sets of pins; the check fails with all of one.
        refused: sets of pins that pip would reject.
        built: what was built.
        ran: what the check ran with, as its document says.
    """

    fails: Sequence[set[str]]
    refused: Sequence[set[str]] = ()
    built: list[Pins] = field(default_factory=list)
    ran: Mapping[str, str] = field(default_factory=dict)

    def build(self, pins: Pins, environment: Mapping[str, str]) -> Path:
        self.built.append(pins)
        if any(one <= self._lines() for one in self.refused):
            raise CouldNotRun("Cannot install these package versions because they have conflicting dependencies.")
        return Path("python")

    def run(
        self, words: Sequence[str], cwd: Path, environment: Mapping[str, str], timeout: float | None
    ) -> ProcessResult:
        folder = Path(environment["PYTHONPATH"])
        assert [path.name for path in folder.iterdir()] == ["samebits"], "no other package comes from outside"
        assert words[:4] == ["python", "-P", "-m", "samebits"]
        assert (Path(words[words.index("--root") + 1]) / "suites" / "test_rev.py").is_file()
        wrong = any(one <= self._lines() for one in self.fails)
        text = json.loads(document(ok=not wrong)) | {"environment": {"versions": self.ran}}
        Path(words[words.index("--json") + 1]).write_text(json.dumps(text))
        return ProcessResult(code=int(wrong))

    def _lines(self) -> set[str]:
        return {line for lines in self.built[-1].values() for line in lines}


def search(tree: Path, files: tuple[Path, Path], world: Pretended, extra: Pins | None = None) -> SearchFinding:
    request = ToolchainRequest(
        good=files[0], bad=files[1], check=CHECK, root=tree, extra=extra or {}, build=world.build, run=world.run
    )
    return bisect_toolchain(request, Session())


def test_one_package_among_eight(tree: Path) -> None:
    names = [f"p{number}" for number in range(8)]
    files = locks(tree.parent, dict.fromkeys(names, "1"), dict.fromkeys(names, "2"))
    world = Pretended([{"p5==2"}])
    found = search(tree, files, world)
    assert (found.found, found.culprits) == (True, (("p5",),))
    assert found.sentence == f"p5 1 -> 2 introduced it: PASS before, FAIL ({PLACE}: different) with it"
    assert found.witness.startswith("before: proved, 0 of 20 elements differ; with it: different, 7 of 20")
    assert found.runs <= math.ceil(math.log2(8)) + 4, "the last one shows that nothing else fails"
    assert found.detail["diff"] == "-p5==1\n+p5==2"
    assert found.candidates == tuple(names)
    assert [trial.outcome for trial in found.trials if trial.taken == (5,)] == ["fail"]


def test_packages_that_only_go_together(tree: Path) -> None:
    """Pip rejects the one without the other: no smaller set is known to fail."""
    old, new = {"jax": "1", "jaxlib": "1", "rich": "1"}, {"jax": "2", "jaxlib": "2", "rich": "2"}
    world = Pretended([{"jaxlib==2"}], refused=[{"jax==1", "jaxlib==2"}, {"jax==2", "jaxlib==1"}])
    found = search(tree, locks(tree.parent, old, new), world)
    assert found.culprits == (("jax", "jaxlib"),)
    assert "jax 1 -> 2 with jaxlib 1 -> 2 introduced it" in found.sentence
    assert "no smaller set is known to fail; some could not be judged" in found.notes
    assert any("conflicting dependencies" in text for text in found.skipped)


def test_each_of_two_packages(tree: Path) -> None:
    old, new = {"a": "1", "b": "1", "c": "1", "same": "5"}, {"a": "2", "b": "2", "c": "2", "same": "5"}
    found = search(tree, locks(tree.parent, old, new), Pretended([{"a==2"}, {"b==2"}]))
    assert set(found.culprits) == {("a",), ("b",)}
    assert found.sentence.startswith("any of: a 1 -> 2; b 1 -> 2; introduced it")
    assert found.notes[0] == "3 packages differ: a 1 -> 2, b 1 -> 2, c 1 -> 2"


def test_a_package_that_only_one_file_has(tree: Path) -> None:
    world = Pretended([{"extra==1"}])
    found = search(tree, locks(tree.parent, {"a": "1"}, {"a": "1", "extra": "1"}), world)
    assert found.culprits == (("extra",),)
    assert "extra none -> 1 introduced it" in found.sentence


def test_the_dependencies_are_installed_and_a_pin_overrides_them(tree: Path) -> None:
    world = Pretended([{"numpy==2"}])
    search(tree, locks(tree.parent, {"numpy": "1"}, {"numpy": "2"}), world, {"numpy": ("numpy==9",), "a": ("a==3",)})
    assert {pins_text(pins) for pins in world.built} == {"a==3\nnumpy==1\n", "a==3\nnumpy==2\n"}
    assert {"jax", "ml-dtypes", "pytest"} <= set(required_pins(False))
    assert "flax" not in required_pins(False)


def test_another_version_than_the_pinned_one_is_no_verdict(tree: Path) -> None:
    """A folder on the path may hide the packages of the environment; then nothing is judged."""
    world = Pretended([{"numpy==2"}], ran={"numpy": "1", "jax": "0"})
    with pytest.raises(RequestError, match="cannot be judged: ran with numpy 1, and numpy==2 is pinned; give one"):
        search(tree, locks(tree.parent, {"numpy": "1"}, {"numpy": "2"}), world)


def test_ends_that_are_not_as_they_were_said_to_be(tree: Path) -> None:
    files = locks(tree.parent, {"a": "1"}, {"a": "2"})
    with pytest.raises(NothingFails, match="the bad end, all as in the second file, passes"):
        search(tree, files, Pretended([]))
    with pytest.raises(RequestError, match="the good end, all as in the first file, fails already"):
        search(tree, locks(tree.parent, {"a": "1"}, {"a": "3"}), Pretended([set()]))


def test_lines_for_several_pythons_stay_together(tmp_path: Path) -> None:
    path = tmp_path / "pins.txt"
    path.write_text('jax==1 ; python_version < "3.12"\njax==2 ; python_version >= "3.12"\nML_dtypes==0.5 # why\n')
    pins = read_pins(path)
    assert list(pins) == ["jax", "ml-dtypes"] and len(pins["jax"]) == 2
    assert pinned_versions(pins, "ml-dtypes") == "0.5" and pinned_versions(pins, "rich") == "none"
    path.write_text(pins_text(pins))
    assert read_pins(path) == pins


@pytest.mark.parametrize(
    ("good", "bad", "message"),
    [
        ("a==1", "a>=2", r"bad.txt:1: expected NAME==VERSION, got 'a>=2'"),
        ("-r other", "a==2", r"good.txt:1: expected NAME==VERSION, got '-r other'"),
        ("a==1.*", "a==2", r"good.txt:1: expected NAME==VERSION, got 'a==1.*'"),
        ("# nothing", "a==2", r"good.txt: pins nothing; expected lines NAME==VERSION"),
        ("a==1", "A == 1", r"both pin the same versions; nothing to search"),
        (None, "a==1", r"good.txt: cannot be read: No such file or directory"),
    ],
)
def test_wrong_files_get_one_line(tree: Path, good: str | None, bad: str, message: str) -> None:
    files = tree.parent / "good.txt", tree.parent / "bad.txt"
    for path, text in zip(files, (good, bad), strict=True):
        if text is not None:
            path.write_text(text + "\n")
    done = samebits("bisect", "commits", "--root", tree, "--toolchain", *files, "--", *CHECK)
    assert (done.code, len(done.lines)) == (2, 1), done.out + done.err
    assert message in done.err


@pytest.mark.parametrize("words", [("--good", "x"), ("--bad", "x"), ("--whole",), ("--setup", "x")])
def test_a_toolchain_is_no_search_among_commits(tree: Path, words: tuple[str, ...]) -> None:
    done = samebits("bisect", "commits", *words, "--toolchain", "a", "b", "--", *CHECK)
    assert (done.code, len(done.lines)) == (2, 1)
    assert f"{words[0]} is of a search among commits; it does not go with --toolchain" in done.err


# --- real environments -----------------------------------------------------------------------------------------------


def wheel(folder: Path, name: str, version: str, requires: str = "") -> None:
    """A package of one file that says its version."""
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": f"VERSION = '{version}'\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        + (f"Requires-Dist: {requires}\n" if requires else ""),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = ""
    for path, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        record += f"{path},sha256={digest},{len(text)}\n"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        for path, text in {**files, f"{info}/RECORD": f"{record}{info}/RECORD,,\n"}.items():
            archive.writestr(path, text)


@pytest.fixture
def offline(tmp_path: Path) -> dict[str, str]:
    """The environment of a pip that knows four wheels and no index."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    for version in ("1", "2"):
        wheel(folder, "samebits_one", version)
        wheel(folder, "samebits_two", version, f"samebits_one=={version}" if version == "2" else "")
    clean = {name: text for name, text in os.environ.items() if not name.startswith("PIP_")}
    return {**clean, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder), "PIP_CONFIG_FILE": os.devnull}


@pytest.mark.slow
def test_real_environments_are_built_kept_and_refused(tree: Path, offline: dict[str, str]) -> None:
    """`two` 2 wants `one` 2, and pip rejects it beside `one` 1; the check fails with `one` 2."""
    old, new = {"samebits_one": "1", "samebits_two": "1"}, {"samebits_one": "2", "samebits_two": "2"}
    files = locks(tree.parent, old, new)

    def run(words: Sequence[str], cwd: Path, environment: Mapping[str, str], timeout: float | None) -> ProcessResult:
        text = "import samebits_one; print(samebits_one.VERSION)"
        ended = subprocess.run([words[0], "-c", text], capture_output=True, text=True, check=True)
        Path(words[words.index("--json") + 1]).write_text(document(ok=ended.stdout == "1\n"))
        return ProcessResult(code=int(ended.stdout != "1\n"))

    request = ToolchainRequest(
        good=files[0], bad=files[1], check=CHECK, root=tree, extra={}, environment=offline, build=build, run=run
    )
    found = bisect_toolchain(request, Session())
    assert found.culprits == (("samebits-one",),)
    refused = [trial for trial in found.trials if trial.outcome == "untestable"]
    assert [trial.point for trial in refused] == ["samebits-two 2"]
    assert refused[0].detail.startswith("Cannot install ") and "conflicting dependencies" in refused[0].detail
    python = build(read_pins(files[0]), offline)
    before = python.lstat().st_mtime_ns
    assert build(read_pins(files[0]), offline) == python and python.lstat().st_mtime_ns == before, "kept"
    words = shlex.split(found.replay)
    again = words[words.index("--toolchain") + 1 : words.index("--toolchain") + 3]
    assert [Path(path).read_text() for path in again] == [
        "samebits-one==1\nsamebits-two==1\n",
        "samebits-one==2\nsamebits-two==1\n",
    ]
    with pytest.raises(CouldNotRun, match="No matching distribution found for samebits-three==1"):
        build({"samebits-three": ("samebits-three==1",)}, offline)

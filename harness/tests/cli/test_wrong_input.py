"""Wrong input: one clear line on stderr, the right exit code, no traceback."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from samebits.schema.meshes import SPELLING
from tests.support.child import run_python
from tests.support.foreign import write_pair
from tests.support.invoke import clean_environment, command, samebits


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tree")
    write_pair(root, "good")
    write_pair(root, "goose")
    return root


MESSAGES = {
    "a pattern of pairs": (("bad*",), "no pair matches 'bad*'; expected some of good, goose"),
    "unknown case": (
        ("good", "--case", "smal"),
        "pair 'good' has no case 'smal'; did you mean small?",
    ),
    "unknown case of several pairs": (
        ("--case", "smal"),
        "no pair has the case 'smal'; did you mean small?",
    ),
    "unknown variant": (
        ("good", "--variant", "structured"),
        "pair 'good' has no variant 'structured'; expected one of plain, fast",
    ),
    "unknown dtype": (
        ("good", "--dtype", "float64"),
        "pair 'good' has no dtype 'float64'; did you mean float32?",
    ),
    "unknown mode": (
        ("good", "--mode", "explict"),
        "pair 'good' has no mode 'explict'; expected one of auto",
    ),
    "unknown direction": (
        ("good", "--direction", "backward"),
        "pair 'good' has no direction 'backward'; did you mean forward?",
    ),
    "mesh larger than the devices": (
        ("good", "--mesh", "data16"),
        "mesh 'data16' needs 16 devices and 8 are there; on CPU ask for them: --devices 16, "
        "or JAX_NUM_CPU_DEVICES=16 where the command has no --devices",
    ),
    "mesh axis that the pair does not have": (
        ("good", "--mesh", "context2"),
        "mesh 'context2': pair 'good' has no axis 'context'; it has data",
    ),
    "mesh axis that no pair knows": (
        ("--mesh", "context2"),
        "mesh 'context2': no pair knows all of its axes; the axes known are data",
    ),
    "mesh axis that does not exist": (
        ("good", "--mesh", "dta2"),
        "mesh 'dta2': pair 'good' has no axis 'dta'; it has data; did you mean 'data'?",
    ),
    "malformed mesh": (
        ("good", "--mesh", "data-2"),
        f"mesh 'data-2' is malformed; {SPELLING}",
    ),
    "pattern that no mesh fits": (
        ("good", "--mesh", "expert*"),
        "pair 'good' has no mesh 'expert*'; expected one of data2",
    ),
    "axis of size 0": (
        ("good", "--mesh", "data0"),
        "mesh axis 'data' has size 0; expected at least 1",
    ),
    "no devices": (
        ("good", "--devices", "0"),
        "--devices 0: expected at least 1",
    ),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_wrong_request(tree: Path, name: str) -> None:
    words, message = MESSAGES[name]
    ended = samebits("check", "--root", tree, *words)
    assert (ended.code, ended.out, ended.lines) == (2, "", [f"samebits: {message}"])


def test_an_unknown_pair_suggests_the_nearest_name(tree: Path) -> None:
    ended = samebits("check", "god", "good", "--root", tree)
    assert (ended.code, ended.lines) == (2, ["samebits: pair 'god' is unknown; did you mean good or goose?"])
    assert "proved 2, bitwise 2" in ended.out
    assert "what ran holds, but 1 problem must be fixed" in ended.out.splitlines()[-1]


def test_unknown_pair_alone(tree: Path) -> None:
    ended = samebits("check", "god", "--root", tree)
    assert (ended.code, ended.out) == (2, "")


def test_tree_without_pairs(tmp_path: Path) -> None:
    ended = samebits("check", "--root", tmp_path)
    text = f"'{tmp_path}' has no pairs: expected the folders reference_impls/, optimized_impls/ and suites/ in it"
    assert (ended.code, ended.lines) == (2, [f"samebits: {text}"])


def test_unknown_module(tree: Path) -> None:
    ended = samebits("check", "nowhere.checks:PAIR")
    assert ended.code == 2
    assert ended.lines[0].startswith("samebits: pair 'nowhere.checks:PAIR': module 'nowhere.checks' does not import: ")


@pytest.mark.parametrize("command", ["check", "compile"])
@pytest.mark.parametrize("option", ["--json", "--markdown", "--junitxml"])
def test_unwritable_report_is_refused_before_anything_runs(
    tree: Path, tmp_path: Path, option: str, command: str
) -> None:
    missing = tmp_path / "missing" / "r"
    cases = {
        tmp_path: f"{option} {tmp_path}: is a directory; give the name of a file",
        missing: f"{option} {missing}: the folder '{missing.parent}' does not exist; create it first",
        Path("/proc/r"): f"{option} /proc/r: cannot be written: No such file or directory",
    }
    for path, message in cases.items():
        ended = samebits(command, "good", "--root", tree, option, path)
        assert (ended.code, ended.out, ended.lines) == (2, "", [f"samebits: {message}"])


@pytest.mark.parametrize("command", ["check", "compile"])
@pytest.mark.parametrize("options", [("--json", "--markdown"), ("--json", "--junitxml"), ("--markdown", "--junitxml")])
def test_one_file_for_two_reports(tree: Path, tmp_path: Path, options: tuple[str, str], command: str) -> None:
    file = tmp_path / "r"
    ended = samebits(command, "--root", tree, options[0], file, options[1], file)
    assert (ended.code, ended.lines) == (2, [f"samebits: {' and '.join(options)} both name {file}; give two files"])
    assert not file.exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--nonsense",), "Error: No such option '--nonsense'. Did you mean '--no-skips'?"),
        (("--workers", "0"), "Error: Invalid value for '--workers': 0 is not in the range x>=1."),
        (("--platform", "npu"), "Error: Invalid value for '--platform': 'npu' is not one of 'cpu', 'tpu', 'gpu'."),
    ],
)
def test_usage_errors_are_clicks_own(words: tuple[str, ...], message: str) -> None:
    ended = samebits("check", *words)
    assert (ended.code, ended.lines[-1]) == (2, message)


def test_a_number_of_devices_that_is_none(tree: Path) -> None:
    ended = run_python("-m", "samebits", "check", "good", "--root", str(tree), JAX_NUM_CPU_DEVICES="many")
    text = "the environment says JAX_NUM_CPU_DEVICES=many; expected a number of devices, at least 1"
    assert (ended.returncode, ended.stderr) == (2, f"samebits: {text}\n")


def test_a_declaration_whose_function_raises(tmp_path: Path) -> None:
    write_pair(tmp_path, "good")
    text = (tmp_path / "suites" / "test_good.py").read_text()
    text = text.replace(
        'args={"x": Arg(shape=("rows", 5), spec=("data",))},', 'args=lambda case, mesh: case.sizes["cols"],'
    )
    suite = tmp_path / "suites" / "test_good.py"
    suite.write_text(text)
    ended = samebits("check", "--root", tmp_path)
    text = f"pair 'good', case 'small', mesh 'data2': args(case, mesh) raised KeyError: 'cols' ({suite}:8)"
    assert (ended.code, ended.lines) == (2, [f"samebits: {text}"])


def test_a_suite_that_exits_or_skips(tmp_path: Path) -> None:
    write_pair(tmp_path, "good")
    write_pair(tmp_path, "leaving", suite="import sys\nsys.exit(0)\n")
    write_pair(tmp_path, "skipping", suite="import pytest\npytest.skip('no GPU', allow_module_level=True)\n")
    ended = samebits("check", "--root", tmp_path)
    assert ended.code == 2 and "proved 2, bitwise 2" in ended.out
    suites = tmp_path / "suites"
    assert ended.lines[0].startswith(
        f"samebits: pair 'leaving': {suites / 'test_leaving.py'} does not import: SystemExit"
    )
    assert "does not import: Skipped: no GPU" in ended.lines[1]


def test_two_pairs_of_one_name(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one_checks", "two_checks"):
        (tmp_path / f"{name}.py").write_text((tree / "suites" / "test_good.py").read_text())
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    ended = samebits("check", "one_checks:PAIR", "two_checks:PAIR")
    text = "pair 'two_checks:PAIR': 'one_checks:PAIR' declares a pair of the same name 'good'; check them in two runs"
    assert f"samebits: {text}" in ended.lines and ended.code == 2


def test_a_pattern_names_every_pair_that_it_matches(tree: Path) -> None:
    ended = samebits("check", "goo*", "--root", tree, "--direction", "forward")
    assert ended.code == 0, ended.err
    assert "of 2 pairs:" in ended.out


def test_a_report_in_the_journal_is_rejected(tree: Path, tmp_path: Path) -> None:
    """It would replace the journal, and `--resume` would find a document."""
    ended = samebits("check", "--root", tree, "--journal", tmp_path / "one", "--json", tmp_path / "one")
    file = tmp_path / "one"
    assert (ended.code, ended.lines) == (2, [f"samebits: --json and --journal both name {file}; give two files"])


def test_an_argument_that_is_no_text(tree: Path) -> None:
    words = [sys.executable.encode(), b"-m", b"samebits", b"check", b"good\xff", b"--root", bytes(tree)]
    ended = subprocess.run(words, env=clean_environment(), capture_output=True)
    assert ended.returncode == 2 and ended.stderr.decode() == (
        "samebits: argument 'good\\udcff' is not UTF-8; give it in UTF-8, or rename the file\n"
    )


def test_a_report_that_cannot_be_printed(tree: Path) -> None:
    """As on a full disk."""
    with open("/dev/full", "w") as full:
        ended = subprocess.run(
            command("list", "--root", tree),
            env=clean_environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert ended.returncode == 3 and ended.stderr == (
        "samebits: standard output could not be written: No space left on device; the report is incomplete\n"
    )


@pytest.mark.parametrize("closed", [">&-", pytest.param("2>&-", marks=pytest.mark.slow)])
def test_streams_that_are_closed_discard(tree: Path, closed: str) -> None:
    line = f"exec {shlex.join(command('list', '--root', tree))} {closed}"
    ended = subprocess.run(["sh", "-c", line], env=clean_environment(), capture_output=True, text=True)
    assert ended.returncode == 0 and "Traceback" not in ended.stdout + ended.stderr, ended.stderr


@pytest.mark.parametrize(
    ("enter", "said"),
    [
        ("mkdir gone; cd gone; rmdir ../gone", "the current folder was removed; change to another one"),
        (r"cd $(printf 'bad\377')", r"bad\udcff' has a name that is not UTF-8; rename it"),
    ],
)
def test_a_current_folder_that_cannot_be_named(tree: Path, tmp_path: Path, enter: str, said: str) -> None:
    os.mkdir(bytes(tmp_path) + b"/bad\xff")
    line = f"{enter}; exec {shlex.join(command('list', '--root', tree))}"
    ended = subprocess.run(["sh", "-c", line], env=clean_environment(), cwd=tmp_path, capture_output=True, text=True)
    (told,) = ended.stderr.splitlines()
    assert ended.returncode == 2 and told.startswith("samebits: ") and told.endswith(said)

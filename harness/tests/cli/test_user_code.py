"""The user's code raises, exits, prints or parses `sys.argv`: one line each, and other pairs go on."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.findings import flat_rows
from tests.support.foreign import AXES, FORWARD, SUITE, write_pair
from tests.support.invoke import Ended, samebits, samebits_process

RAISING = """
    def helper(x):
        raise ValueError("no kernel\\nfor this shape")


    def fast(x):
        return helper(x)
    """
EXITING = """
    import sys


    def fast(x):
        sys.exit(0)
    """
SKIPPING = """
    import pytest


    def fast(x):
        pytest.skip("no GPU")
    """
LAZY = """
    def fast(x):
        import nothing_of_this_name

        return 2 * x
    """
CALLING_BACK = """
    import jax


    def host(x):
        raise ValueError("in the callback")


    def fast(x):
        return jax.pure_callback(host, jax.ShapeDtypeStruct(x.shape, x.dtype), x)
    """
WRONG_JAX = """
    import jax.numpy as jnp


    def fast(x):
        return jnp.dot(x, x)
    """
PRINTING = """
    import os
    import sys

    import jax

    print("PRINTED at import")
    os.system("echo PRINTED by a child")


    def fast(x):
        print("PRINTED while traced")
        jax.debug.print("PRINTED by jax {}", x[0, 0])
        return 2 * x
    """
REPLACING = """
    import os
    import sys

    sys.stdout = sys.stderr = open(os.devnull, "w")


    def fast(x):
        sys.stdout = sys.stderr = None
        return 2 * x
    """
PARSING = """
    import sys

    import argparse

    argparse.ArgumentParser().parse_args()


    def fast(x):
        argparse.ArgumentParser().parse_args()
        return 2 * x
    """
DECLARED = """
from samebits import Arg, Case, Pair
import sys


def values(rng, shape):
    {body}


PAIR = Pair(
    name="{name}",
    reference="plain",
    variants=("fast",),
    args={{"x": Arg(shape=("rows", 5), spec=("data",), values=values)}},
    {axes}
)
"""

ERRORS = {
    "calling_back": ("ValueError: in the callback", "optimized_impls/calling_back.py:6"),
    "exiting": ("raised SystemExit: 0", "optimized_impls/exiting.py:6"),
    "lazy": ("raised ModuleNotFoundError: No module named 'nothing_of_this_name'", "optimized_impls/lazy.py:3"),
    "raising": ("raised ValueError: no kernel", "optimized_impls/raising.py:3"),
    "skipping": ("raised Skipped: no GPU", "optimized_impls/skipping.py:6"),
    "wrong_jax": ("raised TypeError: dot_general requires contracting", "optimized_impls/wrong_jax.py:6"),
}
"""By pair, what its variant raises and where."""

PROBLEMS = {
    "exiting_values": ("its values function raised SystemExit: 0", "suites/test_exiting_values.py:7"),
    "raising_values": (
        "its values function raised ZeroDivisionError: division by zero",
        "suites/test_raising_values.py:7",
    ),
}
"""By pair, what its declaration raises and where."""

FINE = ("parsing", "printing", "replacing", "then")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("misbehaving")
    for name, source in (
        ("calling_back", CALLING_BACK),
        ("replacing", REPLACING),
        ("exiting", EXITING),
        ("lazy", LAZY),
        ("parsing", PARSING),
        ("printing", PRINTING),
        ("raising", RAISING),
        ("skipping", SKIPPING),
        ("wrong_jax", WRONG_JAX),
    ):
        write_pair(root, name, optimized=source, extra=FORWARD)
    for name, body in (("exiting_values", "sys.exit(0)"), ("raising_values", "return 1 / 0")):
        write_pair(root, name, suite=DECLARED.format(name=name, body=body, axes=AXES))
    write_pair(root, "then", extra=FORWARD)
    return root


def _checked(ended: Ended) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(ended.out)
    return document


@pytest.fixture(scope="module")
def whole(tree: Path) -> Ended:
    return samebits_process("check", "--variant", "fast", "--workers", "1", "--json", "/dev/stdout", cwd=tree)


@pytest.mark.slow
def test_only_the_document_is_on_standard_output(whole: Ended) -> None:
    """It parses, though modules print when they are imported, traced and called, and one replaces the stream."""
    assert _checked(whole)["schema"] == "samebits/2"
    for printed in ("at import", "by a child", "while traced", "by jax 0.0"):
        assert f"PRINTED {printed}" in whole.err
    assert "all contracts hold" not in whole.out and "fail" in whole.err  # the tables give way to the document


@pytest.mark.sampled(2)
@pytest.mark.parametrize("pair", ERRORS)
def test_an_exception_is_one_line_with_their_place(whole: Ended, tree: Path, pair: str) -> None:
    (result,) = [result for result in flat_rows(_checked(whole)) if result["pair"] == pair]
    text, place = ERRORS[pair]
    assert (result["verdict"], result["ok"]) == ("error", False)
    assert text in result["reason"] and f"({tree / place})" in result["reason"] and "\n" not in result["reason"]


def test_what_a_declaration_raises_is_a_problem_of_its_pair(whole: Ended, tree: Path) -> None:
    problems = {problem["pair"]: problem["message"] for problem in _checked(whole)["problems"]}
    assert set(problems) == set(PROBLEMS)
    for pair, (text, place) in PROBLEMS.items():
        assert text in problems[pair] and f"({tree / place})" in problems[pair]


def test_the_other_pairs_are_checked_and_the_code_tells(whole: Ended) -> None:
    """`sys.exit(0)` in a function or a declaration must not look like a check that holds."""
    verdicts = {result["pair"]: result["verdict"] for result in flat_rows(_checked(whole))}
    assert {pair: verdicts[pair] for pair in FINE} == dict.fromkeys(FINE, "bitwise")
    assert whole.code == 2
    assert "bug of samebits" not in whole.err


def test_an_interrupt_that_their_code_raises_is_an_error(tmp_path: Path) -> None:
    """Nobody pressed Ctrl-C; the pair after it runs."""
    write_pair(tmp_path, "interrupting", optimized="def fast(x):\n    raise KeyboardInterrupt\n", extra=FORWARD)
    write_pair(tmp_path, "then", extra=FORWARD)
    ended = samebits("check", "--root", tmp_path, "--variant", "fast", "--json", tmp_path / "r.json")
    rows = {row["pair"]: row for row in flat_rows(json.loads((tmp_path / "r.json").read_text()))}
    assert ended.code == 3 and rows["then"]["ok"]
    assert rows["interrupting"]["verdict"] == "error" and "raised KeyboardInterrupt" in rows["interrupting"]["reason"]


def test_an_interrupt_of_a_declaration_is_a_problem(tmp_path: Path) -> None:
    """Its `args` function raises what Ctrl-C raises, as a polite way out of a script; the pair after it runs."""
    suite = SUITE.format(name="interrupting", variants=("fast",), axes=AXES, extra=FORWARD)
    suite = suite.replace('args={"x": Arg(shape=("rows", 5), spec=("data",))}', "args=_stop")
    write_pair(tmp_path, "interrupting", suite="def _stop(case, mesh):\n    raise KeyboardInterrupt\n" + suite)
    write_pair(tmp_path, "then", extra=FORWARD)
    ended = samebits("check", "--root", tmp_path, "--variant", "fast", "--json", tmp_path / "r.json")
    document = json.loads((tmp_path / "r.json").read_text())
    assert [row["pair"] for row in flat_rows(document)] == ["then"] and flat_rows(document)[0]["ok"]
    ((pair, message),) = [(problem["pair"], problem["message"]) for problem in document["problems"]]
    assert (ended.code, pair) == (2, "interrupting")
    assert message.startswith("pair 'interrupting': its declaration raised KeyboardInterrupt (") and ".py:2" in message


def test_what_they_changed_is_noted(whole: Ended) -> None:
    notes = _checked(whole)["summary"]["notes"]
    assert any("replacing" in note and "changed sys.stdin, sys.stdout or sys.stderr" in note for note in notes)
    assert not any("parsing" in note for note in notes)


@pytest.mark.slow
@pytest.mark.parametrize("command", ["check", "prove"])
def test_no_traceback_unless_it_is_asked_for(tree: Path, command: str) -> None:
    words = (command, "raising", "--root", tree, "--variant", "fast")
    plain, shown = samebits_process(*words), samebits_process(*words, "--traceback")
    assert plain.code == shown.code != 0
    assert "Traceback" not in plain.err + plain.out + shown.out
    source = tree / "optimized_impls" / "raising.py"
    text = shown.err[shown.err.index("Traceback (most recent call last):") :]
    frames = [line.strip() for line in text.splitlines() if line.strip().startswith("File ")]
    assert frames == [f'File "{source}", line 7, in fast', f'File "{source}", line 3, in helper']
    assert "ValueError: no kernel\nfor this shape" in text and text.count("most recent call last") == 1


@pytest.mark.slow
def test_tracebacks_and_prints_of_worker_processes(tree: Path) -> None:
    ended = samebits_process(
        "check", "raising", "printing", "exiting", "--root", tree, "--workers", "2", "--variant", "fast", "--traceback"
    )
    assert ended.code == 3
    assert "PRINTED" not in ended.out and "PRINTED while traced" in ended.err
    assert ended.err.count("Traceback (most recent call last):") == 2
    assert "in helper" in ended.err and "SystemExit: 0" in ended.err


def test_the_traceback_of_a_file_that_does_not_import(tree: Path, tmp_path: Path) -> None:
    write_pair(tmp_path, "broken", suite="def f():\n    return 1 / 0\n\n\nf()\n")
    suite = tmp_path / "suites" / "test_broken.py"
    plain, shown = (samebits_process("check", "--root", tmp_path, *more) for more in ((), ("--traceback",)))
    line = f"samebits: pair 'broken': {suite} does not import: ZeroDivisionError: division by zero ({suite}:2)"
    assert (plain.code, plain.lines, plain.out) == (2, [line], "")
    assert shown.lines[:3] == [line, "Traceback (most recent call last):", f'  File "{suite}", line 5, in <module>']


def test_list_imports_as_check_does(tmp_path: Path) -> None:
    write_pair(tmp_path, "talking")
    suite = tmp_path / "suites" / "test_talking.py"
    suite.write_text(suite.read_text() + "\nimport sys\nassert len(sys.argv) == 1\nprint('PRINTED')\n")
    ended = samebits_process("list", "--root", tmp_path, "--json", "/dev/stdout")
    assert ended.code == 0 and json.loads(ended.out)["results"][0]["pair"] == "talking"
    assert "PRINTED" in ended.err

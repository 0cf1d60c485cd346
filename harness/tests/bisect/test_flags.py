"""`samebits bisect flags`: simulated compilers with a known culprit, and a pair whose sides differ by rounding."""

import json
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samebits.bisect.flags import PASSES, IsolatedSides, merged_options, ulps_from_oracle
from samebits.bisect.search.minimal_sets import healing_sets
from samebits.bisect.search.trials import Outcome
from samebits.errors import CouldNotRun
from samebits.host import environment
from samebits.programs.catalogue import Locator
from samebits.schema.point import Point
from tests.bisect import planted_tree
from tests.support.invoke import samebits

environment.prepare()
ROOT = Path(__file__).resolve().parents[3]
SAME = settings(derandomize=True, deadline=None, max_examples=80)
NAMES = tuple(f"pass{i}" for i in range(8))


# --- invented: which passes heal --------------------------------------------------------------------------------------


def compiler(
    *cures: set[str], essential: frozenset[str] = frozenset(), broken: frozenset[str] = frozenset()
) -> Callable[[frozenset[str]], Outcome]:
    """Disabling all of a cure heals; without an essential pass, or without all of `broken`, nothing compiles."""

    def outcome(chosen: frozenset[str]) -> Outcome:
        if chosen & essential or (broken and broken <= chosen):
            return "untestable"
        return "pass" if any(cure <= chosen for cure in cures) else "fail"

    return outcome


@given(st.sampled_from(NAMES))
@SAME
def test_one_pass_that_heals_is_found(culprit: str) -> None:
    found = healing_sets(NAMES, compiler({culprit}))
    assert found.minimal == (frozenset({culprit}),)


def test_every_single_pass_that_heals_is_named() -> None:
    found = healing_sets(NAMES, compiler({"pass5"}, {"pass2"}))
    assert found.minimal == (frozenset({"pass2"}), frozenset({"pass5"}))


@given(st.sets(st.sampled_from(NAMES), min_size=2, max_size=3))
@SAME
def test_passes_that_heal_only_together_are_found(cure: set[str]) -> None:
    found = healing_sets(NAMES, compiler(cure))
    assert (found.minimal, found.whole) == ((frozenset(cure),), True)


@given(st.sets(st.sampled_from(NAMES[:4]), max_size=3), st.sets(st.sampled_from(NAMES[4:]), min_size=1, max_size=2))
@SAME
def test_essential_passes_are_left_out(essential: set[str], cure: set[str]) -> None:
    """Without them nothing compiles: they hide nothing of the others."""
    found = healing_sets(NAMES, compiler(cure, essential=frozenset(essential)))
    assert found.minimal == (frozenset(cure),)


def test_passes_that_only_break_together_lose_one() -> None:
    """0 and 1 can each be disabled, not both; 6 and 7 heal together."""
    found = healing_sets(NAMES, compiler({"pass6", "pass7"}, broken=frozenset({"pass0", "pass1"})))
    assert found.minimal == (frozenset({"pass6", "pass7"}),)


def test_nothing_heals_what_no_pass_causes() -> None:
    found = healing_sets(NAMES, compiler())
    assert (found.minimal, found.whole) == ((), True)


def test_passes_are_disabled_together_and_options_stand_alone() -> None:
    chosen = frozenset({f"{PASSES}=fusion", f"{PASSES}=algsimp", "xla_allow_excess_precision=false"})
    assert merged_options(chosen) == {PASSES: "algsimp,fusion", "xla_allow_excess_precision": "false"}


def test_the_distance_is_relative_to_the_largest_value() -> None:
    oracle = np.array([1.0, 3.0, np.nan])
    side = np.array([1.0, 3.0 + 2 * 2**-7, 5.0]).astype(ml_dtypes.bfloat16)
    assert ulps_from_oracle(side, oracle) == 1.0
    assert ulps_from_oracle(np.array([1, 3, 0], np.float32), np.array([1, 3 + 2**-22, np.nan])) == 1.0
    assert ulps_from_oracle(np.array([0.0], np.float32), np.array([0.0])) == 0.0


# --- planted and real -------------------------------------------------------------------------------------------------

EXCESS = "xla_allow_excess_precision=false"
NORMALISING = f"{PASSES}=float-normalization-bf16"


def point(root: Path, variant: str = "plain") -> tuple[str | Path, ...]:
    """The command for the planted pair."""
    planted_tree.write_tree(root, "scaled")
    return ("bisect", "flags", "scaled", "--variant", variant, "--case", "small", "--root", root)


@pytest.mark.slow
@pytest.mark.cpu_only
def test_a_dropped_rounding_is_found_by_option_and_by_pass(tmp_path: Path) -> None:
    """bfloat16 that stays in float32: excess precision, and the pass that makes float32 of it; nothing else heals.

    The variant is the one that the option changes for the worse: as usual it is nearer to float64.
    """
    report = tmp_path / "found.json"
    words = (*point(tmp_path / "tree"), "--passes", "--journal", tmp_path / "journal", "--json", report)
    ended = samebits(*words)
    assert ended.code == 1, ended.err
    finding = json.loads(report.read_text())["finding"]
    assert finding["culprits"] == [[EXCESS], [NORMALISING]]
    healing = [
        [finding["candidates"][place] for place in t["taken"]] for t in finding["trials"] if t["outcome"] == "pass"
    ]
    assert [EXCESS] in healing and [NORMALISING] in healing
    assert "makes both sides of 'plain' of scaled equal in 'out'" in finding["sentence"]
    assert "as usual the variant comes closer to float64" in finding["sentence"]
    assert re.fullmatch(
        r"out\[0, 0\]: reference=[\d.]+ \(0x[0-9a-f]{8}\), variant=.*, input 'ordinary', float64 [\d.]+",
        finding["witness"],
    )
    idle = next(note for note in finding["notes"] if note.startswith("without effect"))
    assert "fast_math" in idle
    assert "optimization_level" not in idle, "its effect is in the machine code alone"
    assert "without dce" in idle
    digests = finding["detail"]["digests"]
    assert all(digests["usual"][side] != digests["healed"][side] for side in ("alone", "variant"))
    again = samebits(*ended.replay, "--journal", tmp_path / "other")
    assert again.code == 1
    assert EXCESS in again.out
    no_cause = [word.replace(EXCESS, "xla_cpu_enable_fast_math=false") for word in ended.replay]
    assert samebits(*no_cause, "--journal", tmp_path / "third").code == 3, "it differs, and that option is not why"


@pytest.mark.slow
@pytest.mark.cpu_only
def test_unknown_options_have_no_effect_and_a_crash_is_survived(tmp_path: Path) -> None:
    """XLA ignores a misspelt pass silently, the digests do not; and an aborted process takes nothing with it."""
    root = planted_tree.write_tree(tmp_path, "scaled")
    one = Point(variant="plain", case="small", dtype="bfloat16", mesh="data1", mode="auto", direction="forward")
    apart = IsolatedSides(Locator(name="scaled", root=str(root)), one)
    try:
        usual = apart.recompile({})
        assert apart.recompile({PASSES: "algsimpp"}).digests == usual.digests
        assert apart.recompile({PASSES: "algsimp"}).digests != usual.digests
        assert apart.recompile({"xla_backend_optimization_level": "0"}).digests != usual.digests, (
            "only LLVM's code changes"
        )
        with pytest.raises(CouldNotRun, match=r"does not compile: raised JaxRuntimeError: .*'xla_no_such_option'"):
            apart.recompile({"xla_no_such_option": "1"})
        assert apart._process is not None
        os.kill(apart._process.pid, signal.SIGABRT)
        with pytest.raises(CouldNotRun, match=r"crashed its process \(SIGABRT\)"):
            apart.recompile({})
        assert apart.recompile({}).digests == usual.digests, "a fresh process goes on"
    finally:
        apart.close()


@pytest.mark.cpu_only
@pytest.mark.parametrize("more", [(), ("--only",)])
@pytest.mark.slow
def test_options_that_do_not_compile_were_not_tried(tmp_path: Path, more: tuple[str, ...]) -> None:
    ended = samebits(*point(tmp_path / "tree"), "--option", "xla_nonsense=1", "--journal", tmp_path / "journal", *more)
    assert ended.code == 3, ended.err
    out = " ".join(ended.out.split())
    assert "whatever is disabled" not in out
    assert "'plain' of scaled differs in 'out', and none of the options could be tried: xla_nonsense=1: " in out
    assert "skipped, could not be judged: xla_nonsense=1: " in out


@pytest.mark.sampled(3)
@pytest.mark.cpu_only
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--only",), "--only tries the options given: add --option NAME=VALUE"),
        (("--option", "xla_allow"), "--option xla_allow: expected NAME=VALUE"),
        (("--mesh", "stage2"), "--mesh stage2: pair 'scaled' has no axis 'stage'; it knows data"),
        (("--variant", "plane"), "has no variant 'plane'; did you mean plain"),
        (("--leaf", "outs"), "--leaf outs: unknown output; expected one of out"),
    ],
)
def test_wrong_requests_are_one_line(tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    ended = samebits(*point(tmp_path), *words)
    assert (ended.code, len(ended.lines)) == (2, 1), ended.err
    assert message in ended.lines[0]


@pytest.mark.slow
@pytest.mark.cpu_only
def test_equal_sides_leave_nothing_to_search(tmp_path: Path) -> None:
    ended = samebits(*point(tmp_path / "tree", "kept"), "--journal", tmp_path / "journal")
    assert ended.code == 0
    assert "as usual, passes: bitwise; there is nothing to search for" in ended.out


RMS_NORM = ("bisect", "flags", "rms_norm", "--variant", "multiply", "--case", "default", "--root", ROOT)


@pytest.mark.slow
@pytest.mark.cpu_only
def test_excess_precision_separates_the_product_from_the_einsum(tmp_path: Path) -> None:
    """The suite says why: the product with the cotangent stays in float32 on one side, and is nearer for it."""
    report = tmp_path / "found.json"
    where = ("--dtype", "bfloat16", "--direction", "gradient", "--leaf", "x")
    ended = samebits(*RMS_NORM, *where, "--journal", tmp_path / "journal", "--json", report)
    assert ended.code == 1, ended.err
    finding = json.loads(report.read_text())["finding"]
    assert finding["culprits"] == [[EXCESS]]
    assert "(only the variant's program changes)" in finding["sentence"]
    assert "as usual the variant comes closer to float64" in finding["sentence"]


@pytest.mark.slow
@pytest.mark.cpu_only
def test_a_pass_that_separates_is_named(tmp_path: Path) -> None:
    """In float32 the einsum becomes a library's product, and the sum does not: no option is to blame."""
    report = tmp_path / "found.json"
    where = ("--dtype", "float32", "--direction", "gradient", "--leaf", "scale")
    ended = samebits(*RMS_NORM, *where, "--journal", tmp_path / "journal", "--json", report)
    assert ended.code == 1
    finding = json.loads(report.read_text())["finding"]
    assert [f"{PASSES}=dot_decomposer"] in finding["culprits"]
    # Which side is nearer depends on the processor's products of matrices.
    assert re.search(r"as usual (the reference|the variant|neither side) comes closer to float64", finding["sentence"])
    assert any(trial["outcome"] == "untestable" for trial in finding["trials"]), "some passes cannot be left out"

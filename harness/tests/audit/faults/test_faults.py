"""Every planted fault is caught by its verdict, its honest twin passes there, and nothing is left of it."""

import importlib
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from samebits.audit.faults.fault import FOLDER, Fault, all_faults
from samebits.audit.faults.machinery import machinery_faults
from samebits.audit.faults.plant import FaultChecks, check, modules_as_before, plant
from samebits.errors import DeclarationError, RequestError
from samebits.host import environment
from samebits.host.loading import load_file
from samebits.programs.plan import Request
from tests.support.child import ROOT
from tests.support.foreign import PLANTED, write_pair

environment.prepare()
FAULTS = all_faults(ROOT)

MOST = 1
"""Edits of one pair in the normal run, beside all breakages of samebits; the others are slow tests."""

LONG = ("attention", "compiler_flags", "moe", "pipeline", "remat_policy", "scanned_stack", "token_exchange")
"""Pairs whose points take seconds to trace and compile, with the edit and without: the slow tests plant theirs."""

ONE_CASE, TWO_CASES = ("payloads",), ("payloads", "tokens")
"""Where breakages of samebits are planted: any case shows them, and two show programs that are mixed up."""


FORWARD = Request(directions=("forward",))


@pytest.fixture
def selftest_each_time(selftest: Any) -> Iterator[Callable[[Fault], None]]:
    """Have samebits test itself again where a fault breaks it, which that test must see; an edit of a pair does not."""

    def for_fault(fault: Fault) -> None:
        selftest.each_time = fault.patch is not None

    yield for_fault
    selftest.each_time = False


def _param(fault: Fault) -> Any:
    name = f"{fault.pair}: {fault.name}".replace(" ", "_")
    # Those of a pair share the programs and the results of its honest implementation.
    group = pytest.mark.xdist_group(f"faults of {fault.pair}")
    if fault in _SLOW:
        return pytest.param(fault, id=name, marks=(group, pytest.mark.slow))
    return pytest.param(_at_few_points(fault), id=name, marks=(group,))


def _at_few_points(fault: Fault) -> Fault:
    """It must be caught with less to see: at one case if it breaks samebits, else forward.

    The honest implementation is checked at all of these points by the suite of its pair; `samebits audit faults` has
    all of the pair's points.
    """
    if fault.patch is not None:
        cases = TWO_CASES if "between cases" in fault.name else ONE_CASE
        return replace(fault, request=replace(fault.request, cases=cases))
    return replace(fault, request=replace(fault.request, directions=fault.request.directions or ("forward",)))


def _slow() -> list[Fault]:
    quick: Counter[str] = Counter()
    found = []
    for fault in FAULTS:
        if fault.slow or (fault.patch is None and (quick[fault.pair] == MOST or fault.pair in LONG)):
            found.append(fault)
        elif fault.patch is None:
            quick[fault.pair] += 1
    return found


_SLOW = _slow()


@pytest.fixture(scope="module")
def checks() -> Iterator[FaultChecks]:
    """Of the faults of one pair after another."""
    checks = FaultChecks(ROOT)
    yield checks
    checks.close()


@pytest.mark.cpu_only
@pytest.mark.parametrize("fault", [_param(fault) for fault in FAULTS])
def test_fault_is_caught(fault: Fault, checks: FaultChecks, selftest_each_time: Callable[[Fault], None]) -> None:
    """The public check fails on the fault and holds without it."""
    selftest_each_time(fault)
    found = checks.check(fault)
    assert found.honest, f"the fault proves nothing, as '{fault.side}' fails at the same points: {found.said}"
    assert found.caught, f"'{fault.name}' came out as: {found.said} ({found.failed} of {found.results} results failed)"


def test_there_are_at_least_forty_with_names_of_their_own() -> None:
    """The promise of the README, and ids that pytest can tell apart."""
    names = {(fault.pair, fault.name) for fault in FAULTS}
    assert len(names) == len(FAULTS) >= 40


def test_a_fault_that_edits_nothing_is_refused() -> None:
    """A table that went out of date must not count as caught."""
    from samebits.programs.catalogue import Locator, load

    stale = Fault(name="stale", pair="rms_norm", side="multiply", old="no such text", new="")
    with pytest.raises(DeclarationError, match="occurs 0 times"):
        plant(stale, load(Locator(name="rms_norm", root=str(ROOT))))


def test_a_patch_of_what_does_not_exist_is_refused() -> None:
    """The exception that it raises must not count as the expected one."""
    fault = Fault(
        name="gone",
        pair="rms_norm",
        side="multiply",
        patch=("samebits.interpret.field_proof.proof:gone", lambda: None),
        verdict="AttributeError",
    )
    with pytest.raises(DeclarationError, match=r"fault 'gone': there is no 'samebits.*:gone' to patch: module "):
        check(fault, ROOT)


def test_an_unknown_verdict_is_refused() -> None:
    with pytest.raises(DeclarationError, match=r"verdict='diferent'; expected one of proved, .* of an exception"):
        Fault(name="misspelt", pair="rms_norm", side="multiply", verdict="diferent")


@pytest.mark.parametrize(
    ("new", "message"),
    [
        ("2 * x)", r"twice.py with the edit raised SyntaxError: unmatched '\)' \(.*twice.py:2\)"),
        ("2 * x\n\n\n1 / 0", "raised ZeroDivisionError"),
        ("2 * x\n\n\nraise SystemExit(0)", "raised SystemExit: 0"),
        ("2 * x\n\n\ndel fast", "with the edit has no function 'fast'"),
    ],
)
def test_an_edit_that_does_not_import_is_a_wrong_declaration(new: str, message: str, tmp_path: Path) -> None:
    write_pair(tmp_path, "twice", optimized="def fast(x):\n    return 2 * x\n")
    fault = Fault(name="broken", pair="twice", side="fast", old="2 * x", new=new, request=FORWARD)
    with pytest.raises(DeclarationError, match=message):
        check(fault, tmp_path)


def test_a_stale_patch_is_a_miss_and_does_not_end_the_run(
    checks: FaultChecks, selftest_each_time: Callable[[Fault], None]
) -> None:
    """As where the patched function has another signature by now."""
    template = _at_few_points(next(fault for fault in FAULTS if fault.pair == "rms_norm"))

    def stale(**_: Any) -> None:
        """Takes none by position."""

    fault = Fault(
        name="stale",
        pair="rms_norm",
        side="multiply",
        patch=("samebits.interpret.field_proof.proof:compare_formulas", stale),
        request=template.request,
        verdict="CheckerBroken",
    )
    selftest_each_time(fault)
    found = checks.check(fault)
    assert (found.caught, found.honest) == (False, True)
    assert "TypeError: " in found.said and "stale() takes 0 positional arguments" in found.said


def test_an_honest_edit_is_not_caught(checks: FaultChecks) -> None:
    """The machinery itself is not a reason for a failure: an edit that changes nothing passes."""
    template = _at_few_points(next(fault for fault in FAULTS if fault.pair == "rms_norm"))
    unchanged = Fault(
        name="unchanged",
        pair=template.pair,
        side=template.side,
        old=template.old,
        new=template.old,
        request=template.request,
    )
    found = checks.check(unchanged)
    assert found.honest
    assert not found.caught


@pytest.mark.parametrize(("verdict", "caught"), [("ZeroDivisionError", True), ("ValueError", False), ("Zero", False)])
def test_an_exception_of_the_planted_code_is_named(verdict: str, caught: bool, tmp_path: Path) -> None:
    write_pair(tmp_path, "twice")
    new = "x / (1 // 0)"
    fault = Fault(name="raises", pair="twice", side="fast", old="2 * x", new=new, verdict=verdict, request=FORWARD)
    found = check(fault, tmp_path)
    assert found.honest and found.caught == caught
    assert "raised ZeroDivisionError" in found.said


def test_a_failure_without_the_fault_is_what_is_said(tmp_path: Path) -> None:
    """Whoever reads that the honest implementation fails has to know where."""
    write_pair(tmp_path, "twice", optimized=PLANTED)
    fault = Fault(name="three times", pair="twice", side="fast", old="2 * x", new="3 * x", request=FORWARD)
    found = check(fault, tmp_path)
    assert not found.honest
    assert found.said.startswith("without the fault: data2 forward out: different, ")


def test_a_tree_without_faults_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=r"plants no faults: expected files with FAULTS"):
        all_faults(tmp_path)


@pytest.mark.parametrize("text", ["", "FAULTS = ()", "FAULTS = ('rope',)"])
def test_a_file_without_faults_is_refused(text: str, tmp_path: Path) -> None:
    """A table that plants nothing must not count as caught."""
    (tmp_path / FOLDER).mkdir(parents=True)
    (tmp_path / FOLDER / "rope.py").write_text(text)
    with pytest.raises(DeclarationError, match=r"rope.py has no faults; expected FAULTS = "):
        all_faults(tmp_path)


def test_an_exception_that_another_one_quotes_does_not_count(tmp_path: Path) -> None:
    write_pair(tmp_path, "twice", optimized="def fast(x):\n    return 2 * x\n")
    new = "int('its text: raised ValueError')"
    raising = "2 * x\n\n\ndef int(text):\n    raise TypeError(text)\n"
    new = raising.replace("2 * x", new)
    fault = Fault(name="quotes", pair="twice", side="fast", old="2 * x", new=new, verdict="ValueError", request=FORWARD)
    outcome = check(fault, tmp_path)
    assert "raised TypeError: its text: raised ValueError" in outcome.said
    assert not outcome.caught


BREAKAGES = machinery_faults(pair="reorder", side="fast", mesh="context4")


@pytest.mark.parametrize("fault", BREAKAGES, ids=lambda fault: fault.name)
def test_what_is_replaced_exists(fault: Fault) -> None:
    assert fault.patch is not None
    module, _, attribute = fault.patch[0].partition(":")
    assert callable(attrgetter(attribute)(importlib.import_module(module)))


def test_every_fault_is_on_the_requested_pair_and_mesh() -> None:
    assert {(fault.pair, fault.side, *fault.request.meshes) for fault in BREAKAGES} == {("reorder", "fast", "context4")}
    assert len({fault.name for fault in BREAKAGES}) == len(BREAKAGES)


def test_names_classes_and_containers_are_put_back(tmp_path: Path) -> None:
    path = tmp_path / "state.py"
    path.write_text("A = 1\nB = [1]\nC = {}\nD = {1}\nclass E:\n    f = 1\n", encoding="utf-8")
    state: Any = load_file(path)
    with modules_as_before(tmp_path):
        state.A, state.B[0], state.C["x"], state.E.f, state.E.g, state.new = 2, 2, 2, 2, 2, 2
        state.D.add(2)
        del state.B[:]
    assert (state.A, state.B, state.C, state.D, state.E.f) == (1, [1], {}, {1}, 1)
    assert not hasattr(state, "new") and not hasattr(state.E, "g")


def test_modules_outside_of_the_tree_are_left_alone(tmp_path: Path) -> None:
    this = sys.modules[__name__]
    with modules_as_before(tmp_path), modules_as_before(Path(__file__).parents[4]):
        this.__dict__["planted"] = 1
    assert this.__dict__.pop("planted") == 1


def test_a_fault_does_not_reach_the_next_one(tmp_path: Path) -> None:
    """What an edited file does to a module beside it is undone: the next fault would be caught by it."""
    shared = "def twice(x):\n    return FACTORS[0] * x\n\nFACTORS = [2]\nFACTOR = 2\nclass Sizes:\n    rows = 1\n"
    (tmp_path / "shared_factor.py").write_text(shared, encoding="utf-8")
    optimized = """
    import sys
    from pathlib import Path
    sys.path.insert(0, str(Path(__file__).parents[1]))
    import shared_factor
    sys.path.pop(0)

    def fast(x):
        return shared_factor.twice(x) * shared_factor.FACTOR / 2 * shared_factor.Sizes.rows
    """
    write_pair(tmp_path, "twice", optimized=optimized)
    leaks = ("FACTOR = 3", "FACTORS[0] = 3", "Sizes.rows = 2")
    edits = [("\ndef fast", f"\nshared_factor.{leak}\ndef fast") for leak in leaks]
    asked = Request(directions=("forward",))
    faults = [Fault(name=new, pair="twice", side="fast", old=old, new=new, request=asked) for old, new in edits]
    # Functions that an import replaces are put back at once, as in a check.
    replaced = replace(faults[0], name="replaced", new="\nshared_factor.twice = lambda x: 3 * x\ndef fast")
    nothing = replace(faults[0], name="nothing", old="/ 2", new="/ 2.0")
    checks = FaultChecks(tmp_path)
    try:
        for fault in faults:
            assert checks.check(fault).caught
            assert not checks.check(nothing).caught
        assert not checks.check(replaced).caught
    finally:
        checks.close()

"""What a fault does to the modules of its tree is undone before the next one is planted."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from samebits.audit.faults.fault import Fault
from samebits.audit.faults.plant import FaultChecks, modules_as_before
from samebits.host.loading import load_file
from samebits.programs.plan import Request
from tests.support.foreign import write_pair


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

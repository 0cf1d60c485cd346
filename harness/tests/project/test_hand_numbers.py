"""Accuracy limits that are written by hand: only those of findings, each with its reason."""

import ast
from pathlib import Path

SUITES = Path(__file__).parents[3] / "suites"
BEFORE = 59
"""With a ratio of one draw, every sum in another order needed a limit of its own: noise, bound, nearest fault."""
FINDINGS = 7


def limits(folder: Path) -> list[tuple[str, float, str]]:
    """Every number given as a limit of accuracy: file, number, and the text of the call that it stands in."""
    found = []
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            for keyword in node.keywords:
                if keyword.arg == "error_ratio" and isinstance(keyword.value, ast.Constant):
                    found.append((path.name, float(keyword.value.value), ast.unparse(node)))  # type: ignore[arg-type]
    return found


def test_only_findings_have_a_limit_of_their_own() -> None:
    """And the count is printed: a new one is a decision."""
    found = limits(SUITES)
    print(f"{BEFORE} limits of accuracy before, {len(found)} now")
    assert len(found) == FINDINGS
    assert all("FINDING" in call and number > 2 for _, number, call in found), found


def test_a_planted_number_is_counted(tmp_path: Path) -> None:
    """The counter must be able to see one."""
    (tmp_path / "test_one.py").write_text("Contract(lowest='rounding', error_ratio=3.5, reason='noise 2.1')\n")
    ((name, number, call),) = limits(tmp_path)
    assert (name, number) == ("test_one.py", 3.5) and "FINDING" not in call

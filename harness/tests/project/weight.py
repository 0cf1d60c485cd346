"""The most files and lines of each room, and lines of tests: `python -m tests.project.weight` prints the table.

A change that raises a number says why beside it; one that makes a room lighter lowers it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.project.import_graph import PACKAGE, ROOT, machinery, module, python_files, room
from tests.project.layering import CORE

HERE = "harness/tests/project/weight.py"


@dataclass(frozen=True, slots=True)
class Weight:
    """The most that a room may have.

    Args:
        files: of Python.
        lines: of these.
        why: the reason of the latest change that made them more; empty where none did.
    """

    files: int
    lines: int
    why: str = ""


WEIGHTS: Mapping[str, Weight] = {
    "audit": Weight(16, 2_760),
    "beside the rooms": Weight(5, 700),
    "bisect": Weight(23, 5_720, "the smallest program that a compiler makes wrong, as a script; programs of a target"),
    "check": Weight(24, 7_740, "outputs that do not fit into memory are not computed"),
    "cli": Weight(42, 6_425, "the command gate"),
    "cluster": Weight(10, 2_240),
    "compile": Weight(13, 2_890, "the line or the instruction that makes a compiled program differ"),
    "engine": Weight(16, 3_560),
    "functions": Weight(9, 1_785, "run_compiled"),
    "hlo": Weight(16, 2_816),
    "host": Weight(29, 3_950, "large arrays on all processors"),
    "interpret": Weight(62, 17_605, "bounds of rounding in half the passes, in threads; what is computed twice, once"),
    "kernel_gate": Weight(9, 1_710, "what is known where the time is over; one trace for inputs that are alike"),
    "numerics": Weight(7, 736),
    "programs": Weight(17, 4_160),
    "properties": Weight(13, 3_240, "arguments of exports, each in a line of its own, as the site needs them"),
    "prove": Weight(7, 1_495),
    "report": Weight(43, 10_120, "the dependence matrix in HTML"),
    "schema": Weight(31, 4_970, "what outputs read, as a record"),
    "sizes": Weight(38, 11_005),
    "testing": Weight(10, 1_160),
    "train": Weight(20, 4_000, "keys of documents are explained"),
}
"""By room; the modules beside the rooms are one of them."""

CORE_FILES, CORE_LINES = 183, 42_380  # large arrays on all processors, in half the passes
PACKAGE_FILES, PACKAGE_LINES = 460, 100_395  # likewise

LOADED: Mapping[str, int] = {"assert_same": 200, "check rms_norm": 260}
"""How many modules of the package these may load."""

TEST_LINES = 97_540  # layers of experts that sort, and how often formulas of exponentials vanish
"""In `harness/tests/`, helpers included."""

BESIDE = "beside the rooms"


def weights(root: Path) -> dict[str, Weight]:
    """Count the files and lines of each room."""
    found: dict[str, Weight] = {}
    for path in machinery(root):
        name = module(path, root)
        here = room(name) if "/" in name or path.name == "__init__.py" else BESIDE
        before = found.get(here or BESIDE, Weight(0, 0))
        lines = len(path.read_text(encoding="utf-8").splitlines())
        found[here or BESIDE] = Weight(before.files + 1, before.lines + lines)
    return dict(sorted(found.items()))


def lines_of_tests(root: Path) -> int:
    """Count the lines of the tests and their helpers."""
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in python_files(root, "harness/tests"))


def too_heavy(found: Mapping[str, Weight], most: Mapping[str, Weight]) -> Iterator[str]:
    """Name the rooms that have more than they may, or that are not in the table."""
    for name, weight in found.items():
        if name not in most:
            yield f"{PACKAGE}/{name} is not in WEIGHTS of {HERE}"
        elif weight.files > most[name].files or weight.lines > most[name].lines:
            yield (
                f"{PACKAGE}/{name} has {weight.files} files with {weight.lines} lines, {most[name].files} with "
                f"{most[name].lines} at most: make it lighter, or say in WEIGHTS of {HERE} why it needs more"
            )


def sums(found: Mapping[str, Weight]) -> tuple[Weight, Weight]:
    """Add up the core, and the whole package."""
    core = [weight for name, weight in found.items() if name in CORE]
    return _sum(core), _sum(found.values())


def _sum(rooms: Iterable[Weight]) -> Weight:
    listed = [*rooms]
    return Weight(sum(weight.files for weight in listed), sum(weight.lines for weight in listed))


def table(found: Mapping[str, Weight]) -> str:
    """Write the rooms as lines, each with what it has and what it may have."""
    core, every = sums(found)
    rows = [(name, weight, WEIGHTS.get(name, Weight(0, 0))) for name, weight in found.items()]
    rows += [("core", core, Weight(CORE_FILES, CORE_LINES)), ("package", every, Weight(PACKAGE_FILES, PACKAGE_LINES))]
    lines = [f"{'room':<18}{'files':>6}{'at most':>9}{'lines':>8}{'at most':>9}"]
    lines += [f"{name:<18}{has.files:>6}{may.files:>9}{has.lines:>8}{may.lines:>9}" for name, has, may in rows]
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(weights(ROOT)))
    print(f"{'tests':<24}{'':>9}{lines_of_tests(ROOT):>8}{TEST_LINES:>9}")

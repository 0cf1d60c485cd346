"""The line of a declaration, for pairs and cases as people write them."""

from pathlib import Path

import pytest

from samebits.host.loading import load_file
from samebits.report.declaration_lines import DeclarationLines, SourceLine
from samebits.schema.pair import Pair

SOURCE = """\
from samebits import Arg, Case, Pair
import samebits

CASES = (
    Case(id="above", sizes={"n": 4}),
)

PAIR = Pair(
    name="shift",
    reference=abs,
    variants={"other": lambda x: x},
    args={"x": Arg(shape=("n",))},
    cases=(
        *CASES,
        Case(
            id="inside",
            sizes={"n": 8},
        ),
    ),
    dtypes=("float32",),
    meshes=("data1",),
    transforms=("vmap",),
)
OTHER = samebits.Pair(
    name="other",
    reference=abs,
    variants={"fast": lambda x: x},
    args={"x": Arg(shape=("n",))},
    cases=tuple(Case(id=name, sizes={"n": 4}) for name in ("inside", "made")),
    dtypes=("float32",),
    meshes=("data1",),
)
"""


@pytest.fixture(scope="module")
def declared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Pair, Pair]:
    file = tmp_path_factory.mktemp("lines") / "suites" / "test_shift.py"
    file.parent.mkdir()
    file.write_text(SOURCE)
    module = load_file(file)
    return file, module.PAIR, module.OTHER


@pytest.mark.parametrize(
    ("pair", "case", "line"),
    [
        ("shift", "", 8),
        ("shift", "above", 5),
        ("shift", "inside", 15),
        ("shift", "inside_vmap", 15),
        ("shift", "gone", 8),
        ("other", "", 24),
        ("other", "made", 24),
    ],
)
def test_line_of_pair_and_case(declared: tuple[Path, Pair, Pair], pair: str, case: str, line: int) -> None:
    file, *pairs = declared
    assert DeclarationLines(pairs).of(pair, case) == SourceLine(file, line)


def test_pair_that_was_not_loaded_has_its_suite(declared: tuple[Path, Pair, Pair]) -> None:
    file, *_ = declared
    lines = DeclarationLines((), file.parent)
    assert lines.of("shift") == SourceLine(file, 8)
    assert lines.of("unknown") is None


def test_file_that_does_not_parse_is_its_first_line(tmp_path: Path) -> None:
    (tmp_path / "test_rope.py").write_text("PAIR = Pair(\n")
    assert DeclarationLines((), tmp_path).of("rope") == SourceLine(tmp_path / "test_rope.py", 1)


def test_file_is_named_from_a_folder(tmp_path: Path) -> None:
    line = SourceLine(tmp_path / "suites" / "test_rope.py", 3)
    assert line.relative_to(tmp_path) == "suites/test_rope.py"
    assert line.relative_to(tmp_path / "elsewhere") == str(tmp_path / "suites" / "test_rope.py")

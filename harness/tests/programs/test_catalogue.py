"""Pairs are found by folder: what is missing, what is misspelt, and what belongs to other packages."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from samebits.errors import DeclarationError, RequestError, SamebitsError
from samebits.host.interrupts import Stop
from samebits.programs import catalogue
from samebits.programs.catalogue import Locator, names
from samebits.programs.implementations import implementation
from samebits.schema.pair import Pair
from tests.support.child import ROOT

SUITE = """
from samebits import Arg, Case, Pair, pair_test

PAIR = Pair(
    name="{name}",
    reference="plain",
    variants=("fast",),
    args={{"x": Arg(shape=(4,))}},
    cases=(Case(id="small"),),
    dtypes=("float32",),
    meshes=("data1",),
)
test_{name} = pair_test(PAIR)
"""


def write(root: Path, file: str, text: str) -> Path:
    path = root / file
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text(text, encoding="utf-8")
    return path


def tree(root: Path, *pairs: str) -> Path:
    """A tree with these pairs, three files each."""
    for name in pairs:
        write(root, f"reference_impls/{name}.py", "def plain(x):\n    return x\n")
        write(root, f"optimized_impls/{name}.py", "def fast(x):\n    return x\n")
        write(root, f"suites/test_{name}.py", SUITE.format(name=name))
    return root


def load(root: Path, name: str) -> Pair:
    return catalogue.load(Locator(name=name, root=str(root)))


def error_of(kind: type[SamebitsError], root: Path, name: str) -> str:
    """The text of the error that loading a pair must raise."""
    with pytest.raises(kind) as caught:
        load(root, name)
    assert type(caught.value) is kind
    return str(caught.value)


@pytest.fixture(autouse=True)
def _modules_as_before() -> Iterator[None]:
    """Forget the modules that a test loads, and the folders that it makes importable."""
    modules, path = set(sys.modules), list(sys.path)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if Path(getattr(sys.modules[name], "__file__", None) or "").name.startswith(("test_rope", "rope", "planted")):
            del sys.modules[name]
    importlib.invalidate_caches()


# --- names -----------------------------------------------------------------------------------------------------------


def test_names_are_sorted_and_import_nothing(tmp_path: Path) -> None:
    tree(tmp_path, "rope", "gating")
    write(tmp_path, "suites/test_rope.py", "raise RuntimeError('imported')")
    assert names(tmp_path) == ["gating", "rope"]


def test_an_orphan_is_named_too(tmp_path: Path) -> None:
    """A pair of which only one file is there is a pair with an error, not no pair."""
    tree(tmp_path, "rope")
    write(tmp_path, "optimized_impls/gating.py", "")
    assert names(tmp_path) == ["gating", "rope"]


@pytest.mark.parametrize(
    "file",
    [
        "reference_impls/__init__.py",
        "optimized_impls/_shared.py",
        "suites/_helpers.py",
        "suites/helpers.py",
        "suites/conftest.py",
        "suites/model/test_model.py",
        "suites/test_notes.txt",
    ],
)
def test_what_is_no_pair_is_passed_over(file: str, tmp_path: Path) -> None:
    write(tree(tmp_path, "rope"), file, "")
    assert names(tmp_path) == ["rope"]


def test_a_folder_without_pairs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RequestError) as caught:
        names(tmp_path)
    assert str(caught.value) == (
        f"'{tmp_path}' has no pairs: expected the folders reference_impls/, optimized_impls/ and suites/ in it"
    )


def test_an_empty_tree_is_refused(tmp_path: Path) -> None:
    (tmp_path / "suites").mkdir()
    with pytest.raises(RequestError) as caught:
        names(tmp_path)
    assert str(caught.value) == (
        f"'{tmp_path}' has no pairs yet: write reference_impls/NAME.py, optimized_impls/NAME.py and suites/test_NAME.py"
    )


def test_a_folder_that_cannot_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not said to lack the twins that are in it."""
    tree(tmp_path, "rope")
    monkeypatch.setattr("os.access", lambda path, mode: Path(path).name != "optimized_impls")
    with pytest.raises(RequestError) as caught:
        names(tmp_path)
    assert str(caught.value) == f"'{tmp_path / 'optimized_impls'}' cannot be read: its permissions do not allow it"


# --- what a declaration can lack -------------------------------------------------------------------------------------


def test_a_whole_pair_is_loaded(tmp_path: Path) -> None:
    pair = load(tree(tmp_path, "rope"), "rope")
    assert (pair.name, pair.sides) == ("rope", ("plain", "fast"))
    assert pair.origin == str(tmp_path / "suites" / "test_rope.py")


@pytest.mark.parametrize("file", ["reference_impls/rope.py", "optimized_impls/rope.py", "suites/test_rope.py"])
def test_a_missing_twin_is_named(file: str, tmp_path: Path) -> None:
    (tree(tmp_path, "rope", "gating") / file).unlink()
    message = error_of(DeclarationError, tmp_path, "rope")
    assert message == f"pair 'rope' lacks a twin: write {tmp_path / file}"
    assert load(tmp_path, "gating").name == "gating"


def test_two_missing_twins_are_named(tmp_path: Path) -> None:
    write(tmp_path, "reference_impls/rope.py", "")
    message = error_of(DeclarationError, tmp_path, "rope")
    twins = f"{tmp_path / 'optimized_impls/rope.py'} and {tmp_path / 'suites/test_rope.py'}"
    assert message == f"pair 'rope' lacks twins: write {twins}"


def test_a_pair_by_module_needs_no_twins(tmp_path: Path) -> None:
    """Its functions are named as `module:function`, so only the suite file is looked for."""
    suite = SUITE.replace('"plain"', '"planted_home:plain"').replace('("fast",)', '{{"fast": "planted_home:fast"}}')
    write(tmp_path, "suites/test_rope.py", suite.format(name="rope"))
    write(tmp_path, "planted_home.py", "def plain(x):\n    return x\ndef fast(x):\n    return x\n")
    assert implementation(load(tmp_path, "rope"), "fast").__module__ == "planted_home"
    assert str(tmp_path) not in sys.path


@pytest.mark.parametrize("file", ["reference_impls/rope.py", "suites/test_rope.py"])
def test_what_lies_beside_the_folders_of_a_tree_can_be_imported(file: str, tmp_path: Path) -> None:
    """From any folder: the tree is not the current one here."""
    tree(tmp_path, "rope")
    write(tmp_path, "planted_beside.py", "def plain(x):\n    return 2 * x\n")
    text = (tmp_path / file).read_text(encoding="utf-8").replace("def plain(x):\n    return x\n", "")
    write(tmp_path, file, f"from planted_beside import plain\n{text}")
    pair = load(tmp_path, "rope")
    if file.startswith("reference"):
        assert implementation(pair, "plain")(3) == 6
    assert str(tmp_path) not in sys.path


def test_another_name_than_the_file_s_is_refused(tmp_path: Path) -> None:
    suite = write(tree(tmp_path, "rope"), "suites/test_rope.py", SUITE.format(name="rotary"))
    assert error_of(DeclarationError, tmp_path, "rope") == (
        f"{suite} declares PAIR with name='rotary'; expected 'rope', as in its file name"
    )


@pytest.mark.parametrize(
    ("text", "got"),
    [
        ("", "nothing"),
        ("PAIR = 'rope'", "a str"),
        ("PAIR = {}", "a dict"),
        ("from samebits import Pair as PAIR", "a type"),
    ],
)
def test_a_suite_without_a_pair_is_refused(text: str, got: str, tmp_path: Path) -> None:
    suite = write(tree(tmp_path, "rope"), "suites/test_rope.py", text)
    assert error_of(DeclarationError, tmp_path, "rope") == (
        f"{suite} has {got} under the name 'PAIR'; expected PAIR = Pair(...)"
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("PAIR = (", "SyntaxError: '(' was never closed ({suite}:1)"),
        (
            "\nimport rope_that_is_not_there",
            "ModuleNotFoundError: No module named 'rope_that_is_not_there' ({suite}:2)"
            f"; install it for {sys.executable}, or add its folder to PYTHONPATH",
        ),
        ("def f():\n    raise ValueError('a\\nb')\nf()", "ValueError: a ({suite}:2); 1 more line with --traceback"),
        ("assert 0", "AssertionError ({suite}:1)"),
    ],
)
def test_a_file_that_does_not_import_is_one_line(text: str, why: str, tmp_path: Path) -> None:
    suite = write(tree(tmp_path, "rope"), "suites/test_rope.py", text)
    expected = f"{suite} does not import: {why.format(suite=suite)}"
    assert error_of(DeclarationError, tmp_path, "rope") == expected
    # A second try says the same: what failed is not left behind half made.
    assert error_of(DeclarationError, tmp_path, "rope") == expected


def test_a_wrong_declaration_keeps_its_own_words(tmp_path: Path) -> None:
    suite = SUITE.format(name="rope").replace('("data1",)', "()")
    write(tree(tmp_path, "rope"), "suites/test_rope.py", suite)
    message = error_of(DeclarationError, tmp_path, "rope")
    assert message == "pair 'rope' declares no meshes; it would check nothing. Write meshes=(...)"


# --- which pair is meant ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("rop", "did you mean rope?"),
        ("gatting", "did you mean gating?"),
        ("zzz", "expected one of gating, rope"),
        ("test_rope", "did you mean rope?"),
    ],
)
def test_an_unknown_pair_gets_a_suggestion(name: str, hint: str, tmp_path: Path) -> None:
    tree(tmp_path, "rope", "gating")
    assert error_of(RequestError, tmp_path, name) == f"pair '{name}' is unknown; {hint}"


def test_a_pair_of_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`module:PAIR`, from the folder in which the command runs."""
    write(tmp_path, "planted_mine.py", SUITE.format(name="rope").replace("PAIR", "ROPE"))
    monkeypatch.chdir(tmp_path)
    assert catalogue.load(Locator(name="planted_mine:ROPE")).name == "rope"
    with pytest.raises(DeclarationError) as caught:
        catalogue.load(Locator(name="planted_mine:PAIR"))
    assert str(caught.value) == (
        "module 'planted_mine' has nothing under the name 'PAIR'; expected PAIR = Pair(...); its pairs are ROPE"
    )


@pytest.mark.parametrize("text", ["raise TypeError('refrence')", "import sys; sys.exit(0)"])
def test_a_file_named_like_its_folder_is_one_line(text: str, tmp_path: Path) -> None:
    """Asked where `planted_typo.planted_typo` is, Python imports the file itself as the parent."""
    file = write(tmp_path, "planted_typo/planted_typo.py", text)
    with pytest.raises(DeclarationError, match=r"^\S+/planted_typo\.py does not import: .*planted_typo\.py:1\)$"):
        catalogue.load(Locator(name=f"{file}:PAIR"))


def test_code_that_raises_what_ctrl_c_raises_is_one_line(tmp_path: Path) -> None:
    file = write(tmp_path, "planted_interrupt.py", "raise KeyboardInterrupt")
    with Stop().listening(), pytest.raises(DeclarationError, match=r"does not import: KeyboardInterrupt"):
        catalogue.load(Locator(name=f"{file}:PAIR"))
    with pytest.raises(KeyboardInterrupt):
        catalogue.load(Locator(name=f"{file}:PAIR"))


def test_a_module_that_is_not_there_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DeclarationError) as caught:
        catalogue.load(Locator(name="planted_none:PAIR"))
    message = "module 'planted_none' does not import: ModuleNotFoundError: No module named 'planted_none'"
    assert str(caught.value) == f"{message}; install it for {sys.executable}, or add its folder to PYTHONPATH"


def test_trees_with_pairs_of_one_name_stay_apart(tmp_path: Path) -> None:
    """Ours, one tree and another, all with a pair `rms_norm`; each gets its own declaration and functions."""
    ours = catalogue.load(Locator(name="rms_norm", root=str(ROOT)))
    first, second = tree(tmp_path / "first", "rms_norm"), tree(tmp_path / "second", "rms_norm")
    write(second, "optimized_impls/rms_norm.py", "def fast(x):\n    return 2 * x\n")
    pairs = [load(first, "rms_norm"), load(second, "rms_norm")]
    assert "einsum" in ours.sides
    assert [pair.sides for pair in pairs] == [("plain", "fast")] * 2
    assert [implementation(pair, "fast")(21) for pair in pairs] == [21, 42]
    assert implementation(ours, "multiply").__module__ == "optimized_impls.rms_norm"


def test_a_pair_is_declared_once(tmp_path: Path) -> None:
    """Loading again gives the same object, so that runners and programs are shared."""
    root = tree(tmp_path, "rope")
    assert load(root, "rope") is load(root, "rope")


def test_the_pairs_are_those_of_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RequestError, match="--builtin"):
        catalogue.default_root()
    tree(tmp_path, "rope")
    assert catalogue.default_root() == tmp_path


def test_a_module_that_an_extra_installs_is_named_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tree(tmp_path, "rope")
    suite = root / "suites" / "test_rope.py"
    suite.write_text("import flax\n" + suite.read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.setitem(sys.modules, "flax", None)
    with pytest.raises(DeclarationError) as caught:
        load(root, "rope")
    assert "pip install 'samebits[model]'" in str(caught.value)
    assert "\n" not in str(caught.value)

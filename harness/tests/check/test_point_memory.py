"""Results are remembered by what was traced: whatever an edit is of, they are those that a fresh run finds.

Each case is a change of a tree; what is recalled after it is held against a run without memory.
"""

import contextlib
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import jax
import msgspec
import numpy as np
import pytest

from samebits.check.point_memory import PointMemory, Remembered
from samebits.check.run_points import How, PointDone, point_steps
from samebits.check.runner import Runner
from samebits.host.entry_store import EntryStore
from samebits.host.isolation import take_notes
from samebits.programs.catalogue import Locator, load
from samebits.programs.plan import Request, plan
from samebits.programs.program_cache import Programs
from samebits.schema.finding import Finding
from tests.support.findings import changed
from tests.support.rope_tree import FAULT, REFERENCE, write_tree

FORWARD = Request(variants=("paired",), cases=("small",), directions=("forward",))
GRADIENT = replace(FORWARD, directions=("gradient",))


@dataclass(frozen=True)
class Change:
    """A change of a tree that was checked before.

    Args:
        name: for the test's id.
        apply: makes it, given the tree and pytest's patch.
        recalled: whether results are recalled after it: where nothing has changed that was traced or drawn.
        before: prepares the tree.
        request: which points.
    """

    name: str
    apply: Callable[[Path, pytest.MonkeyPatch], None]
    recalled: bool = False
    before: Callable[[Path, pytest.MonkeyPatch], None] = lambda tree, patch: None
    request: Request = FORWARD


OPTIMIZED_FILE, REFERENCE_FILE, SUITE_FILE = "optimized_impls/rope.py", "reference_impls/rope.py", "suites/test_rope.py"


def edit(file: str, *edits: tuple[str, str]) -> Callable[[Path, pytest.MonkeyPatch], None]:
    def apply(tree: Path, patch: pytest.MonkeyPatch) -> None:
        path = tree / file
        text = path.read_text()
        for old, new in edits:
            assert old in text
            text = text.replace(old, new, 1)
        path.write_text(text)

    return apply


def both(*applied: Callable[[Path, pytest.MonkeyPatch], None]) -> Callable[[Path, pytest.MonkeyPatch], None]:
    def apply(tree: Path, patch: pytest.MonkeyPatch) -> None:
        for each in applied:
            each(tree, patch)

    return apply


def first_line(line: str, imports: str = "import jax.numpy as jnp") -> Callable[[Path, pytest.MonkeyPatch], None]:
    """A line at the beginning of the variant."""
    return edit(OPTIMIZED_FILE, ("import jax.numpy as jnp", imports), ("    pairs =", f"    {line}\n    pairs ="))


def table(number: float) -> Callable[[Path, pytest.MonkeyPatch], None]:
    return lambda tree, patch: np.save(tree / "table.npy", np.float32(number))


def text_of(name: str, text: str) -> Callable[[Path, pytest.MonkeyPatch], None]:
    def apply(tree: Path, patch: pytest.MonkeyPatch) -> None:
        (tree / name).write_text(text)

    return apply


def suite(*edits: tuple[str, str]) -> Callable[[Path, pytest.MonkeyPatch], None]:
    return edit(SUITE_FILE, *edits)


NUMPY = "import jax.numpy as jnp\nimport numpy as np"
HELPED = both(
    first_line("angle = angle * SCALE", "import jax.numpy as jnp\nfrom helper_of_memory import SCALE"),
    text_of("helper_of_memory.py", "SCALE = 1.0\n"),
)
LOADS = both(
    first_line("angle = angle * np.load(TABLE)", NUMPY + "\nTABLE = __file__.rpartition('/')[0] + '/../table.npy'"),
    table(1),
)
READS_A_VARIABLE = first_line(
    "angle = angle * float(os.environ.get('SCALE_OF_MEMORY', '1'))", "import os\nimport jax.numpy as jnp"
)
ASKS_A_PROGRAM = both(
    first_line(
        "angle = angle * float(subprocess.run(['cat', TABLE], capture_output=True).stdout)",
        "import subprocess\nimport jax.numpy as jnp\nTABLE = __file__.rpartition('/')[0] + '/table'",
    ),
    text_of("optimized_impls/table", "1"),
)
DRAWN = suite(
    ("PAIR = ", "HALF = 0.5\nPAIR = "),
    ("differentiable=False)", "differentiable=False, values=lambda rng, shape: rng.random(shape) + HALF)"),
)
OWN_RULE = first_line(
    "x = marked(x)",
    "import jax\nimport jax.numpy as jnp\n\n\n@jax.custom_vjp\ndef marked(x):\n    return x\n\n\n"
    "def _back(_, cotangent):\n    return (cotangent * 1.0,)\n\n\n"
    "marked.defvjp(lambda x: (x, None), _back)",
)
CAPTURES = first_line("angle = angle * TABLE", NUMPY + "\nTABLE = np.ones(4, np.float32)")

MORE = 'Case(id="more", sizes={"batch": 8, "features": 8, "half": 4}),\n        '

CHANGES = (
    Change("nothing", lambda tree, patch: None, recalled=True),
    Change("a comment that moves lines", edit(OPTIMIZED_FILE, ("import", "# moved\n\nimport")), recalled=True),
    Change("a name", edit(OPTIMIZED_FILE, ("pairs =", "p ="), ("= pairs[..., 0], pairs", "= p[..., 0], p")), True),
    Change("a fault", edit(OPTIMIZED_FILE, FAULT)),
    Change("the reference", edit(REFERENCE_FILE, FAULT)),
    Change("a helper, not what it computes", text_of("helper_of_memory.py", "SCALE = 2.0 / 2\n"), True, HELPED),
    Change("a helper", text_of("helper_of_memory.py", "SCALE = 2.0\n"), before=HELPED),
    Change("a table that is loaded while it is traced", table(2), before=LOADS),
    Change("an array that is captured", edit(OPTIMIZED_FILE, ("np.ones(4", "np.full(4, 2")), before=CAPTURES),
    Change("a variable", lambda tree, patch: patch.setenv("SCALE_OF_MEMORY", "2"), before=READS_A_VARIABLE),
    Change("another program", text_of("optimized_impls/table", "2"), before=ASKS_A_PROGRAM),
    Change("drawn values", suite(("HALF = 0.5", "HALF = 5.5")), before=DRAWN),
    Change("how values are written", suite(("HALF = 0.5", "HALF = 1 / 2")), True, DRAWN),
    Change("declared values", suite(('"half",), ', '"half",), values=Uniform(), '), ("Case, ", "Case, Uniform, "))),
    Change("a contract", suite(("Case, ", "Case, Contract, "), ('("auto",),', '("auto",), contracts=(Contract(),),'))),
    Change("an accuracy", suite(('modes=("auto",),', 'modes=("auto",), accuracy=2.0,'))),
    Change("special values", suite(('("half",), ', '("half",), special=("inf",), '))),
    Change("another case beside it", suite(('Case(id="base"', f'{MORE}Case(id="base"'))),
    Change("a setting of jax", lambda tree, patch: jax.config.update("jax_default_matmul_precision", "highest")),
    Change("a gradient", edit(OPTIMIZED_FILE, FAULT), request=GRADIENT),
    Change("a gradient's lines", edit(OPTIMIZED_FILE, ("import", "# moved\n\nimport")), True, request=GRADIENT),
    Change("a rule of a gradient", edit(OPTIMIZED_FILE, ("cotangent * 1.0", "cotangent * 2.0")), before=OWN_RULE,
           request=GRADIENT),
    Change("a rule that a forward program does not use", edit(OPTIMIZED_FILE, ("cotangent * 1.0", "cotangent * 2.0")),
           True, OWN_RULE),
)  # fmt: skip


class Checked:
    """A tree that is checked again and again, each time as by a new process."""

    def __init__(self, tree: Path, store: Path) -> None:
        self.tree, self.store = tree, store

    def results(self, request: Request, *, fresh: bool = False) -> list[Finding]:
        """What a check finds; a run with `fresh` remembers nothing and recalls nothing."""
        self.forget_modules()
        locator = Locator(name="rope", root=str(self.tree))
        sys.path.insert(0, str(self.tree))
        programs = Programs(threads=1)
        try:
            pair = load(locator)
            with contextlib.closing(EntryStore(self.store)) as entries:
                memory = None if fresh else PointMemory("environment", entries)
                points = plan(pair, request, 8).points
                steps = list(point_steps(pair, locator, points, programs, how=How(memory=memory)))
        finally:
            programs.close()
            sys.path.remove(str(self.tree))
            take_notes()
        return [result for step in steps if isinstance(step, PointDone) for result in step.results]

    def forget_modules(self) -> None:
        """Have the next run load everything anew."""
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", None) or "").startswith(str(self.tree)):
                del sys.modules[name]
        for folder in self.tree.rglob("__pycache__"):
            shutil.rmtree(folder)
        jax.clear_caches()


@pytest.fixture
def checked(tmp_path: Path) -> Iterator[Checked]:
    before = jax.config.values["jax_default_matmul_precision"]
    checked = Checked(write_tree(tmp_path / "tree"), tmp_path / "points")
    yield checked
    checked.forget_modules()
    jax.config.update("jax_default_matmul_precision", before)


def timeless(results: list[Finding]) -> list[Finding]:
    return [changed(one, seconds=0.0, remembered=None) for one in results]


def recalled(results: list[Finding]) -> list[bool]:
    return [one.run.remembered is not None for one in results]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.name)
def test_what_is_recalled_is_what_a_fresh_run_finds(
    change: Change, checked: Checked, monkeypatch: pytest.MonkeyPatch
) -> None:
    change.before(checked.tree, monkeypatch)
    first, again = checked.results(change.request), checked.results(change.request)
    assert not any(recalled(first)) and all(recalled(again))
    assert timeless(first) == timeless(again)
    change.apply(checked.tree, monkeypatch)
    after = checked.results(change.request)
    assert all(recalled(after)) == change.recalled and any(recalled(after)) == change.recalled
    assert timeless(after) == timeless(checked.results(change.request, fresh=True))


def test_both_sides_of_a_checkout_are_remembered(checked: Checked) -> None:
    path = checked.tree / REFERENCE_FILE
    branches = REFERENCE, REFERENCE.replace("first * cos", "cos * first")
    known = []
    for text in (*branches, *branches):
        path.write_text(text)
        known.append(all(recalled(checked.results(FORWARD))))
    assert known == [False, False, True, True]


def test_what_fails_is_run_again(checked: Checked) -> None:
    edit(OPTIMIZED_FILE, FAULT)(checked.tree, pytest.MonkeyPatch())
    for _ in range(2):
        results = checked.results(FORWARD)
        assert not any(recalled(results)) and not all(one.ruling.ok for one in results)


def test_a_fresh_run_that_ends_its_process_leaves_nothing(checked: Checked, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it would have found is not known, and is not what an earlier run has found."""
    checked.results(FORWARD)
    with monkeypatch.context() as patch:
        patch.setattr(Runner, "finish", _ended)
        patch.setattr("tests.check.test_point_memory.PointMemory", partial(PointMemory, fresh=True))
        with pytest.raises(KeyboardInterrupt):
            checked.results(FORWARD)
    assert not any(recalled(checked.results(FORWARD)))


def _ended(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_point_asks_the_same_after_other_points(checked: Checked, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an earlier point has concluded, as of second derivatives, is asked for this one too."""
    OWN_RULE(checked.tree, monkeypatch)
    asked: dict[str, frozenset[tuple[tuple[str, ...], str]]] = {}

    def put(store: EntryStore, key: str, content: bytes) -> None:
        questions = msgspec.json.decode(content, type=Remembered).asked
        # Others are asked within these, where nothing is cached.
        asked[key] = frozenset(words for words in questions if words[0][0] in ("forward", "gradient", "records"))

    monkeypatch.setattr(EntryStore, "put", put)
    both = replace(GRADIENT, cases=("small", "base"))
    checked.results(both)
    together = dict(asked)
    asked.clear()
    for case in both.cases:
        checked.results(replace(both, cases=(case,)))
    assert len(together) == 2 and asked == together
    assert all(any("small" in words[0] for words in questions) for questions in together.values()), "the first case"

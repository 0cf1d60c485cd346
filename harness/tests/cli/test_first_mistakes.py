"""The mistakes that a person makes first, made with the command in a scratch folder: one line and a code each."""

import contextlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import samebits
from tests.support import invoke
from tests.support.child import ROOT, run_python
from tests.support.foreign import write_pair
from tests.support.forked import run_module

DECLARED = """
from samebits import Arg, Case, Pair, pair_test

PAIR = Pair(
    name="rope",
    reference="plain",
    variants=("fast",),
    args={args},
    out_spec={{"out": ("data",)}},
    cases=(Case(id="small", sizes={{"rows": 4}}),),
    dtypes=("float32",),
    meshes=("{mesh}",),
)
"""
X = '{"x": Arg(shape=("rows", 5), spec=("data",))}'
MODULE = ("-m", "samebits")
UNSUPPORTED = """
import runpy, sys
sys.version_info, sys.argv = (3, 10, 4, "final", 0), ["-m", "check"]
runpy.run_module("samebits", run_name="__main__")
"""
"""A Python of another version as its own `-m samebits` finds it."""

Write = Callable[[Path], None]


def declared(*, args: str = X, mesh: str = "data2", before: str = "", **functions: Any) -> Write:
    """The three files of a pair with one thing in them that is wrong."""

    def write(root: Path) -> None:
        write_pair(root, "rope", suite=before + DECLARED.format(args=args, mesh=mesh), **functions)

    return write


def nothing(root: Path) -> None:
    """An empty folder."""


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """What is wrong, and what is said.

    Args:
        write: the files in the folder.
        says: the line, with `{root}` for the folder.
        code: of the exit.
        words: of the command.
        environment: variables that are set.
        program: what is run, where it is not the command.
        alone: whether it needs a process of its own; the others have that of the tests, which spares importing jax.
    """

    write: Write = field(default_factory=declared)
    says: str
    code: int = 2
    words: tuple[str, ...] = ("check",)
    environment: Mapping[str, str] = field(default_factory=dict)
    program: tuple[str, ...] = MODULE
    alone: bool = False


FIRST_TEN = {
    "wrong shape names": Mistake(
        alone=True,
        words=("check", "--in-process"),
        write=declared(args='{"x": Arg(shape=("row", 5))}'),
        says="samebits: pair 'rope': case 'small': argument 'x' has a dimension 'row' that is not in sizes (rows); "
        "write sizes={'row': ...}",
    ),
    "missing argument": Mistake(
        write=declared(reference="def plain(x, y): return x + y", optimized="def fast(x, y): return y + x"),
        says="samebits: pair 'rope': 'plain' takes (x, y) and is called with x: 'y' is missing; declare it in args or "
        "statics, or give it a default (case 'small')",
    ),
    "other argument name": Mistake(
        write=declared(args='{"y": Arg(shape=("rows", 5))}'),
        says="samebits: pair 'rope': 'plain' takes (x), and no parameter 'y'; declare its own names, or map them: "
        "rename={'y': ...} (case 'small')",
    ),
    "axis typo": Mistake(
        write=declared(args='{"x": Arg(shape=("rows", 5), spec=("dta",))}'),
        says="samebits: pair 'rope', argument 'x': axis 'dta' of spec is in no mesh of the pair; expected some of "
        "data; did you mean 'data'?",
    ),
    "missing package": Mistake(
        write=declared(before="import nothing_of_this_name\n"),
        says="samebits: pair 'rope': {root}/suites/test_rope.py does not import: ModuleNotFoundError: No module named "
        "'nothing_of_this_name' ({root}/suites/test_rope.py:1); "
        f"install it for {sys.executable}, or add its folder to PYTHONPATH",
    ),
    "missing extra": Mistake(
        alone=True,
        write=declared(before="import sys\nsys.modules['optax'] = None\nimport optax\n"),
        says="samebits: pair 'rope': {root}/suites/test_rope.py does not import: ModuleNotFoundError: import of optax "
        "halted; None in sys.modules ({root}/suites/test_rope.py:3); pip install 'samebits[model]'",
    ),
    "empty folder": Mistake(
        alone=True,
        write=nothing,
        says="samebits: '{root}' has no pairs: expected suites/test_NAME.py in it; `samebits new NAME` writes a first "
        "one, --root TREE takes another tree, --builtin the pairs that samebits brings along",
    ),
    "syntax error": Mistake(
        write=declared(before="def f(:\n"),
        says="samebits: pair 'rope': {root}/suites/test_rope.py does not import: SyntaxError: invalid syntax "
        "({root}/suites/test_rope.py:1)",
    ),
    "unsupported Python": Mistake(
        says=f"samebits: samebits needs Python 3.11 or later, and {sys.executable} is 3.10.4",
        program=("-c", UNSUPPORTED),
        words=(),
    ),
    "no GPU": Mistake(
        says="samebits: jax has no plugin for a GPU here; pip install 'jax[cuda13]' (NVIDIA), or --platform cpu",
        environment={"JAX_PLATFORMS": "cuda"},
    ),
    "--json on a folder": Mistake(
        says="samebits: --json .: is a directory; give the name of a file", words=("check", "--json", ".")
    ),
}

BAD_INPUT = {
    "output without arrays": Mistake(
        write=declared(reference="def plain(x): return None", optimized="def fast(x): return None"),
        says="'plain' returned no arrays; there is nothing to compare: return what it computes",
        code=3,
    ),
    "outputs of different trees": Mistake(
        write=declared(optimized="def fast(x): return {'y': x + x}"),
        says="structure: reference=PyTreeDef(*), variant=PyTreeDef({'y': *}); return one tree from both sides, or "
        "map the variant's outputs by adapt",
        code=1,
    ),
    "spec that does not fit the array": Mistake(
        write=declared(args='{"x": Arg(shape=(5, "rows"), spec=("data",))}'),
        says="samebits: pair 'rope': argument 'x': dimension 0 has size 5, which does not divide by 2 (data on mesh "
        "'data2'); change the size, or restrict the case by meshes=(...)",
    ),
    "more entries than dimensions": Mistake(
        write=declared(args='{"x": Arg(shape=("rows", 5), spec=("data", None, None))}'),
        says="spec ('data', None, None) has 3 entries; expected at most one per dimension",
    ),
    "mesh larger than the devices": Mistake(
        says="samebits: mesh 'data16' needs 16 devices and 8 are there; on CPU ask for them: --devices 16, "
        "or JAX_NUM_CPU_DEVICES=16 where the command has no --devices",
        words=("check", "--mesh", "data16"),
    ),
    "a shape in place of an argument": Mistake(
        write=declared(args='{"x": {"shape": (2,)}}'),
        says="argument 'x'['shape'][0] is 2, a int; expected Arg(shape=(...)), ",
    ),
    "a tuple in place of an argument": Mistake(
        write=declared(args='{"x": (8, 16)}'), says="argument 'x'[0] is 8, a int; expected Arg(shape=(...)), "
    ),
    "arguments without names": Mistake(
        write=declared(args="[Arg(shape=(4,))]"),
        says="samebits: pair 'rope', case 'small': args is a list; expected the arguments by name, as in "
        "args={'x': Arg(shape=(8, 16))}",
    ),
    "a platform that is not there": Mistake(
        alone=True,
        says="samebits: jax has no plugin for a GPU here; pip install 'jax[cuda13]' (NVIDIA), or --platform cpu",
        words=("check", "--platform", "gpu"),
    ),
    "a platform that does not exist": Mistake(
        says="samebits: jax does not start on the platform asked for: ", environment={"JAX_PLATFORMS": "nonsense"}
    ),
}


def ended_with(mistake: Mistake, root: Path) -> invoke.Ended:
    """How the command ends that is run with this mistake, in its folder."""
    if mistake.program == MODULE and not (mistake.alone or mistake.environment):
        with contextlib.chdir(root):
            return invoke.samebits(*mistake.words)
    if mistake.program == MODULE:
        ended = run_module("samebits", *mistake.words, cwd=root, variables=mistake.environment)
    else:
        ended = run_python(*mistake.program, *mistake.words, cwd=root, **mistake.environment)
    return invoke.Ended(code=ended.returncode, out=ended.stdout, err=ended.stderr)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", [*FIRST_TEN, *BAD_INPUT])
def test_a_mistake_gets_one_line(name: str, tmp_path: Path) -> None:
    mistake = {**FIRST_TEN, **BAD_INPUT}[name]
    root = tmp_path.resolve()
    mistake.write(root)
    ended = ended_with(mistake, root)
    everything = ended.out + ended.err
    said = mistake.says.replace("{root}", str(root))
    assert ended.code == mistake.code, everything
    assert sum(said in line for line in everything.splitlines()) >= 1, everything
    assert "Traceback" not in everything and "bug of samebits" not in everything
    assert "all contracts hold" not in everything
    if mistake.code == 2:
        lines = [line for line in ended.lines if line.startswith("samebits: ")]
        assert len(lines) == 1 and lines[0].startswith(said if said.startswith("samebits: ") else "samebits: "), lines


def test_the_oldest_python_is_that_of_pyproject() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    oldest = ".".join(map(str, vars(samebits)["OLDEST"]))
    assert f'requires-python = ">={oldest}"' in text

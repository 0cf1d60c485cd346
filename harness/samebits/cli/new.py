"""`samebits new`: the files of a first pair, which hold as they are, to be edited; or a workflow."""

from __future__ import annotations

import keyword
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

from samebits.cli import options
from samebits.cli.declared import argument, option
from samebits.errors import CouldNotRun, RequestError
from samebits.host import git
from samebits.host.accelerator import package_version
from samebits.host.own_output import own_stdout
from samebits.schema.argument_text import EXAMPLES, argument_word, parse_arguments
from samebits.schema.case import Arg
from samebits.schema.meshes import MeshSpec
from samebits.schema.values import Integers, Uniform

if TYPE_CHECKING:
    from samebits.functions.infer_arguments import InferredArguments

ACTION = f"samebits/samebits@v{package_version('samebits')}"
"""The action of this version."""

FILES = {
    "reference_impls/{name}.py": '''\
"""{name}: what it computes, and where that is written down. Plain and obvious; it imports jax and nothing else."""

import jax.numpy as jnp


def plain(x, *, by=1):
    """Rows one after the other, each moved up by `by` rows."""
    return jnp.concatenate([x[by:], x[:by]])
''',
    "optimized_impls/{name}.py": '''\
"""{name}, faster: one function per variant, with the reference's parameters. It never imports the reference."""

import jax.numpy as jnp


def rolled(x, *, by=1):
    """The same as one call."""
    return jnp.roll(x, -by, axis=0)
''',
    "suites/test_{name}.py": '''\
"""The declaration of {name}: `samebits check {name}`, or `pytest suites/test_{name}.py`."""

from samebits import Arg, Case, Pair, pair_test

PAIR = Pair(
    name="{name}",
    reference="plain",
    variants=("rolled",),
    args={{"x": Arg(shape=("rows", "columns"), spec=(None, "data"))}},
    cases=(
        Case(id="small", sizes={{"rows": 6, "columns": 8}}),
        Case(id="by_three", sizes={{"rows": 6, "columns": 8}}, statics={{"by": 3}}),
    ),
    dtypes=("float32", "bfloat16"),
    meshes=("data1", "data4"),
)

test_{name} = pair_test(PAIR)
''',
}
"""By path in a tree, the text of a file; both take the name."""


@dataclass(frozen=True, kw_only=True)
class NewOptions:
    """The options of `samebits new`."""

    name: Annotated[str | None, argument()] = None
    functions: Annotated[tuple[str, ...], argument("[MODULE:FUNCTION MODULE:FUNCTION]")] = ()
    arg: Annotated[tuple[str, ...], option(f"An array that both functions take, as in {EXAMPLES}.", "WORD")] = ()
    static: Annotated[tuple[str, ...], option("A static argument, a Python literal: eps=1e-6.", "NAME=VALUE")] = ()
    ci: Annotated[bool, option("Write a GitHub workflow that checks the pairs of the tree.")] = False
    action: Annotated[str, option("With --ci: the action used.", "OWNER/REPOSITORY@REF")] = ACTION
    root: options.Tree = None

    @property
    def tree(self) -> Path:
        """The tree of pairs."""
        return self.root or Path.cwd()


@options.command(NewOptions)
def new(chosen: NewOptions) -> int:
    """Write the three files of a pair called NAME: a reference, a variant and a declaration that holds.

    Put your own functions into the first two, and their arguments into the third. With two functions that exist, a
    reference and a variant, it is one file, a declaration of them; arguments that --arg does not declare are inferred.
    With --ci it is a GitHub workflow. No file is overwritten.

    Exit codes: 0 the files are written, 2 the name is not an identifier, a file exists, or the arguments cannot be
    inferred; 3 a file cannot be written.
    """
    if not chosen.ci and chosen.name is None:
        raise RequestError("nothing to write; give the name of a pair, as in `samebits new rope`, or --ci")
    if chosen.ci and chosen.name is not None:
        raise RequestError("--ci writes the workflow of a whole tree; leave out the name of a pair")
    if len(chosen.functions) not in (0, 2):
        raise RequestError(
            f"{len(chosen.functions)} function given; expected two, the reference and the variant, each as "
            "MODULE:FUNCTION or FILE.py:FUNCTION"
            if len(chosen.functions) == 1
            else f"{len(chosen.functions)} functions given; expected two, the reference and the variant"
        )
    texts, notes = _workflow(chosen) if chosen.ci else _pair(chosen)
    _write(texts)
    for note in notes:
        click.echo(note, file=own_stdout())
    return 0


def _pair(chosen: NewOptions) -> tuple[dict[Path, str], list[str]]:
    """Return the files of a pair by path, and what to say about them."""
    name = chosen.name or ""
    if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_"):
        raise RequestError(f"'{name}' cannot name a pair; expected a Python identifier such as rope or rms_norm")
    notes = [f"next: samebits check {name}" + (f" --root {chosen.root}" if chosen.root else "")]
    if not chosen.functions:
        if chosen.arg or chosen.static:
            raise RequestError("--arg and --static declare the arguments of two functions; give these after the name")
        return {chosen.tree / path.format(name=name): text.format(name=name) for path, text in FILES.items()}, notes
    from samebits.host import environment

    environment.prepare()
    from samebits.cli.compare import static_values

    reference, variant = chosen.functions
    text, inferred = functions_file(
        name, (reference, variant), parse_arguments(chosen.arg), static_values(chosen.static)
    )
    return {chosen.tree / FILE.format(name=name): text}, [*inferred, *notes]


def _workflow(chosen: NewOptions) -> tuple[dict[Path, str], list[str]]:
    """Return the workflow by its path."""
    if chosen.functions or chosen.arg or chosen.static:
        raise RequestError("--ci goes with --action and --root alone")
    path, text = workflow(chosen.tree, chosen.action)
    return {path: text}, ["next: commit it; a pull request is then checked, and compared with its base"]


def _write(texts: Mapping[Path, str]) -> None:
    """Write new files."""
    for path in texts:
        if path.exists():
            raise RequestError(f"'{path}' exists, and no file is overwritten; choose another name")
    try:
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            click.echo(f"wrote {path}", file=own_stdout())
    except OSError as error:
        raise CouldNotRun(f"'{error.filename}' cannot be written: {error.strerror}") from None


FILE = "suites/test_{name}.py"


def functions_file(
    name: str, functions: tuple[str, str], declared: Mapping[str, Arg], statics: Mapping[str, Any]
) -> tuple[str, list[str]]:
    """Declare a pair of two functions; return the text of the file, and lines on what is inferred or reordered."""
    from samebits.functions.as_pair import side_names
    from samebits.functions.infer_arguments import infer_arguments
    from samebits.programs.implementations import function_named, order_remark

    reference, variant = (function_named(text) for text in functions)
    arguments = infer_arguments(reference, variant, declared, statics)
    _, side = side_names(reference, variant, functions)
    text = _text(name, functions, side, arguments, statics)
    words = [argument_word(argument, arguments.args[argument]) for argument in arguments.guessed]
    order = order_remark(reference, variant, (*arguments.args, *statics), arguments.rename, side)
    lines = [f"inferred: {' '.join(words)}; edit them, or declare them with --arg"] if words else []
    return text, lines if order is None else [*lines, order]


def _text(
    name: str, functions: tuple[str, str], side: str, arguments: InferredArguments, statics: Mapping[str, Any]
) -> str:
    floats = [str(arg.dtype) for arg in arguments.args.values() if "float" in str(arg.dtype)]
    main = (floats or [str(arg.dtype) for arg in arguments.args.values()])[0]
    drawn = [kind.__name__ for kind in (Integers, Uniform)
             if any(isinstance(arg.values, kind) for arg in arguments.args.values())]  # fmt: skip
    file = FILE.format(name=name)
    case = f'Case(id="small"{f", statics={dict(statics)!r}" if statics else ""})'
    imports = ", ".join([*sorted(["Arg", "Case", "Pair", *drawn]), "pair_test"])
    return "\n".join(
        [
            f'"""{functions[1]} in place of {functions[0]}: `samebits check {name}`, or `pytest {file}`."""',
            "",
            f"from samebits import {imports}",
            "",
            "PAIR = Pair(",
            f'    name="{name}",',
            f'    reference="{functions[0]}",',
            f'    variants={{"{side}": "{functions[1]}"}},',
            "    args={",
            *(f'        "{argument}": {_arg(arg, main)},' for argument, arg in arguments.args.items()),
            "    },",
            f"    cases=({case},),",
            f'    dtypes=("{main}",),',
            *_meshes(arguments.args),
            *([f"    rename={_quoted(arguments.rename)},"] if arguments.rename else []),
            *([] if arguments.gradients else ["    gradients=False,"]),
            ")",
            "",
            f"test_{name} = pair_test(PAIR)",
            "",
        ]
    )


def _arg(arg: Arg, main: str) -> str:
    """Return an argument as it is declared; one of the main dtype takes the dtype of the sweep."""
    parts = [f"shape={arg.shape!r}"]
    parts += [] if arg.dtype == main and not isinstance(arg.values, Integers) else [f'dtype="{arg.dtype}"']
    parts += [f"spec={_quoted(arg.spec)}"] if arg.spec else []
    if isinstance(arg.values, Integers):
        parts.append(f"values=Integers(low={arg.values.low}, high={arg.values.high})")
    if isinstance(arg.values, Uniform):
        parts.append(f"values=Uniform(low={arg.values.low!r}, high={arg.values.high!r})")
    parts += [f"special={_quoted(arg.special)}"] if arg.special else []
    return f"Arg({', '.join(parts)})"


def _meshes(args: Mapping[str, Arg]) -> list[str]:
    """Return one device, and a mesh of two along each axis that an argument names."""
    entries = [entry for arg in args.values() for entry in arg.spec if entry is not None]
    axes = dict.fromkeys(axis for entry in entries for axis in ((entry,) if isinstance(entry, str) else entry))
    if not axes:
        return []
    mesh = MeshSpec.parse("_".join(f"{axis}2" for axis in axes))
    return [f'    meshes=("none", "{mesh.id}"),']


def _quoted(value: object) -> str:
    return repr(value).replace("'", '"')


# --- the workflow --------------------------------------------------------------------------------------------------

WORKFLOW = ".github/workflows/samebits.yml"

_USES = re.compile(r"(\./\S*|\.|[\w.-]+/[\w./-]+@[\w./-]+)")

_TEXT = """\
name: samebits

on:
  pull_request:
  push:
    branches: [main, master]

permissions:
  contents: read

jobs:
  samebits:
    runs-on: ubuntu-24.04
    timeout-minutes: 60
    steps:
      - uses: actions/checkout@v4
        with:
          fetch-depth: 0 # the base of a pull request is checked out too
      - uses: {action}
        with:
          python-version: "{python}"{inputs}
          base: ${{{{ github.event.pull_request.base.sha }}}} # empty on a push: nothing is compared with then
"""


def workflow(tree: Path, action: str) -> tuple[Path, str]:
    """Return the path and the text of the workflow."""
    if not _USES.fullmatch(action):
        raise RequestError(f"--action {action}: expected OWNER/REPOSITORY@REF, or ./FOLDER of this repository")
    top = _top(tree)
    inputs = {"install": _installs(top), "root": _inside(tree, top)}
    lines = "".join(f"\n          {name}: {text}" for name, text in inputs.items() if text)
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    return top / WORKFLOW, _TEXT.format(action=action, python=python, inputs=lines)


def _top(tree: Path) -> Path:
    """Return the top of the repository of a tree; the tree itself where it is in none."""
    try:
        return git.top_folder(tree)
    except RequestError:  # not yet a repository: GitHub reads the workflow at its top, wherever that will be
        return tree


def _inside(tree: Path, top: Path) -> str:
    inside = tree.resolve().relative_to(top.resolve()).as_posix()
    return "" if inside == "." else inside


def _installs(top: Path) -> str:
    """Return what pip installs so that the pairs can be imported, by the files at the top of the repository."""
    if any((top / name).is_file() for name in ("pyproject.toml", "setup.py")):
        return "-e ."
    return "-r requirements.txt" if (top / "requirements.txt").is_file() else ""

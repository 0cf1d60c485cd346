"""`samebits new`: the files of a first pair, which hold as they are, to be edited; or a workflow."""

from __future__ import annotations

import keyword
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import click

from samebits.cli import options
from samebits.cli.new_workflow import ACTION, workflow
from samebits.errors import CouldNotRun, RequestError
from samebits.host.own_output import own_stdout
from samebits.schema.argument_text import EXAMPLES

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

    name: str | None
    functions: tuple[str, ...]
    arg: tuple[str, ...]
    static: tuple[str, ...]
    ci: bool
    action: str
    root: Path | None

    @property
    def tree(self) -> Path:
        """The tree of pairs."""
        return self.root or Path.cwd()


@click.command("new")
@click.argument("name", required=False)
@click.argument("functions", nargs=-1, metavar="[MODULE:FUNCTION MODULE:FUNCTION]")
@click.option("--arg", multiple=True, metavar="WORD", help=f"An array that both functions take, as in {EXAMPLES}.")
@click.option("--static", multiple=True, metavar="NAME=VALUE", help="A static argument, a Python literal: eps=1e-6.")
@click.option("--ci", is_flag=True, help="Write a GitHub workflow that checks the pairs of the tree.")
@click.option(
    "--action", default=ACTION, show_default=True, metavar="OWNER/REPOSITORY@REF", help="With --ci: the action used."
)
@click.option(
    "--root", type=click.Path(path_type=Path), metavar="TREE", help="The tree of pairs; the current folder by default."
)
@options.takes(NewOptions)
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
    """The files of a pair by path, and what to say about them.

    Raises:
        RequestError: the name cannot name a pair, or a function does not take such arguments.
    """
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
    from samebits.cli.compare_options import static_values
    from samebits.cli.new_functions import FILE, functions_file
    from samebits.schema.argument_text import parse_arguments

    reference, variant = chosen.functions
    text, inferred = functions_file(
        name, (reference, variant), parse_arguments(chosen.arg), static_values(chosen.static)
    )
    return {chosen.tree / FILE.format(name=name): text}, [*inferred, *notes]


def _workflow(chosen: NewOptions) -> tuple[dict[Path, str], list[str]]:
    """The workflow by its path.

    Raises:
        RequestError: the action is not spelled as GitHub does.
    """
    if chosen.functions or chosen.arg or chosen.static:
        raise RequestError("--ci goes with --action and --root alone")
    path, text = workflow(chosen.tree, chosen.action)
    return {path: text}, ["next: commit it; a pull request is then checked, and compared with its base"]


def _write(texts: Mapping[Path, str]) -> None:
    """Write new files.

    Raises:
        RequestError: a file exists.
        CouldNotRun: one cannot be written.
    """
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

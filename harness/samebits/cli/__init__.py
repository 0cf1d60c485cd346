"""The command line: one file per command. No jax, numpy or rich is imported before a command needs it."""

from __future__ import annotations

import os
import shlex
from typing import Any

import click

from samebits.cli.common import OnDemand, ends_with, say
from samebits.errors import RequestError

# NumPy reads this when it is imported. Proofs are many small products of matrices, and XLA's compiler has the other
# processors: threads of BLAS only get in the way.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


COMMANDS = OnDemand(
    *("accept", "bisect", "cache", "check", "compare", "diff", "gate", "golden"),
    *("new", "prove", "report", "train"),
    compile="compile:compile_",
    list="list:list_pairs",
)


FORMER = {
    "emulate": "run `qemu-x86_64 -cpu NAME python -m samebits check --in-process --json NAME.json` and compare with "
    "`samebits diff native.json NAME.json`; docs/guides/comparing.md has the loop over processors",
    "history": "compare each document with the one before it: `samebits diff OLD.json NEW.json`; "
    "docs/guides/comparing.md has the loop over a folder",
}
"""By its name, what does the same today."""

GROUPS = {"audit": ("advise", "claims", "defaults", "faults"), "run": ("launch", "merge")}
"""By group, the commands that were at the top."""

RENAMED = {name: (group, name) for group, names in GROUPS.items() for name in names}
"""By its former name, the words of a command."""


class Commands(click.Group):
    """A group of commands that answers a former name with what to type."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Find the command; the exit code is 2 for a former one."""
        name, *rest = args
        if name in self.commands or name not in FORMER.keys() | RENAMED.keys():
            return super().resolve_command(ctx, args)
        if name in RENAMED:
            say(f"`samebits {name}` has another name; type: {shlex.join(['samebits', *RENAMED[name], *rest])}")
        else:
            say(f"`samebits {name}` is gone; {FORMER[name]}")
        ends_with(RequestError.exit_code)
        ctx.exit(RequestError.exit_code)


@click.group(cls=Commands, commands=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="samebits", prog_name="samebits")
def main() -> None:
    """Is the optimised JAX component still the same as its reference, bit for bit, on every mesh?

    Exit codes: 0 all contracts hold, 1 something differs, 2 the request or a declaration is wrong, 3 undecided.
    """


@main.group(commands=OnDemand(**{name: f"audit:{name}" for name in GROUPS["audit"]}))
def audit() -> None:
    """Check what others rely on: claims of documents, defaults, published figures, and the checks themselves."""


@main.group(commands=OnDemand("launch", merge="check:merge"))
def run() -> None:
    """Start one run in several processes, and join the documents of its parts."""

"""The command line: one file per command. No jax, numpy or rich is imported before a command needs it."""

from __future__ import annotations

import os

import click

from samebits.cli.common import OnDemand
from samebits.cli.former_commands import Commands

# NumPy reads this when it is imported. Proofs are many small products of matrices, and XLA's compiler has the other
# processors: threads of BLAS only get in the way.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


COMMANDS = OnDemand(
    *("accept", "bisect", "cache", "check", "compare", "diff", "golden"),
    *("launch", "merge", "new", "prove", "report", "train"),
    compile="compile:compile_",
    list="list:list_pairs",
)


@click.group(cls=Commands, commands=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="samebits", prog_name="samebits")
def main() -> None:
    """Is the optimised JAX component still the same as its reference, bit for bit, on every mesh?

    Exit codes: 0 all contracts hold, 1 something differs, 2 the request or a declaration is wrong, 3 undecided.
    """


AUDITS = ("advise", "claims", "defaults", "faults", "worker")


@main.group(commands=OnDemand(**{name: f"audit:{name}" for name in AUDITS}))
def audit() -> None:
    """Check what others rely on: claims of documents, defaults, published figures, and the checks themselves."""

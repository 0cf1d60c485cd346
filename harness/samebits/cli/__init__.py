"""The command line: one file per command. No jax, numpy or rich is imported before a command needs it."""

from __future__ import annotations

import os

import click

from samebits.cli.accept import accept
from samebits.cli.advise import advise
from samebits.cli.bisect import bisect
from samebits.cli.bisect_commits import bisect_commits
from samebits.cli.bisect_flags import bisect_flags
from samebits.cli.bisect_mesh import bisect_mesh
from samebits.cli.bisect_pairs import pairs
from samebits.cli.bisect_steps import steps
from samebits.cli.bisect_tensors import tensors
from samebits.cli.cache import cache
from samebits.cli.check import check
from samebits.cli.claims import claims
from samebits.cli.compare import compare
from samebits.cli.compile import compile_
from samebits.cli.defaults import defaults
from samebits.cli.diff import diff
from samebits.cli.faults import faults
from samebits.cli.former_commands import Commands
from samebits.cli.golden import golden
from samebits.cli.launch import launch
from samebits.cli.list import list_pairs
from samebits.cli.merge import merge
from samebits.cli.new import new
from samebits.cli.prove import prove
from samebits.cli.report import report
from samebits.cli.train import train
from samebits.cli.worker import worker

# NumPy reads this when it is imported. Proofs are many small products of matrices, and XLA's compiler has the other
# processors: threads of BLAS only get in the way.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="samebits", prog_name="samebits")
def main() -> None:
    """Is the optimised JAX component still the same as its reference, bit for bit, on every mesh?

    Exit codes: 0 all contracts hold, 1 something differs, 2 the request or a declaration is wrong, 3 undecided.
    """


@main.group()
def audit() -> None:
    """Check what others rely on: claims of documents, defaults, published figures, and the checks themselves."""


GROUPS = (
    (audit, (advise, claims, defaults, faults, worker)),
    (bisect, (bisect_commits, bisect_flags, bisect_mesh, pairs, steps, tensors)),
    (main, (accept, bisect, cache, check, compare, compile_, diff, golden, launch, list_pairs, merge, new, prove)),
    (main, (report, train)),
)
for group, commands in GROUPS:
    for command in commands:
        group.add_command(command)

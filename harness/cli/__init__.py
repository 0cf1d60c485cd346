"""The command line: one file per command. No jax, numpy or rich is imported before a command needs it."""

from __future__ import annotations

import os

import click

from harness.cli.accept import accept
from harness.cli.advise import advise
from harness.cli.bisect import bisect
from harness.cli.bisect_commits import bisect_commits
from harness.cli.bisect_flags import bisect_flags
from harness.cli.bisect_mesh import bisect_mesh
from harness.cli.bisect_pairs import pairs
from harness.cli.bisect_steps import steps
from harness.cli.bisect_tensors import tensors
from harness.cli.check import check
from harness.cli.claims import claims
from harness.cli.compile import compile_
from harness.cli.defaults import defaults
from harness.cli.emulate import emulate
from harness.cli.faults import faults
from harness.cli.golden import golden
from harness.cli.lane import lane
from harness.cli.list import list_pairs
from harness.cli.prove import prove
from harness.cli.train import train

# NumPy reads this when it is imported. Proofs are many small products of matrices, and XLA's compiler has the other
# processors: threads of BLAS only get in the way.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="samebits", prog_name="samebits")
def main() -> None:
    """Is the optimised JAX component still the same as its reference, bit for bit, on every mesh?

    Exit codes: 0 all contracts hold, 1 something differs, 2 the request or a declaration is wrong, 3 could not tell.
    """


bisect.add_command(bisect_commits)
bisect.add_command(bisect_flags)
bisect.add_command(bisect_mesh)
bisect.add_command(pairs)
bisect.add_command(steps)
bisect.add_command(tensors)
main.add_command(accept)
main.add_command(advise)
main.add_command(bisect)
main.add_command(check)
main.add_command(claims)
main.add_command(compile_)
main.add_command(defaults)
main.add_command(emulate)
main.add_command(faults)
main.add_command(golden)
main.add_command(lane)
main.add_command(list_pairs)
main.add_command(prove)
main.add_command(train)

"""One matrix in one process against one process per configuration: how much is saved by sharing imports and threads.

Prints ratios, asserts nothing. `python benchmarks/train.py [MATRIX] [--steps N]`

- one process: `samebits train --matrix MATRIX`, envelope and comparisons included;
- a process each: every configuration alone, as a trainer started by a script, without any comparison.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from samebits.programs.catalogue import default_root
from samebits.report.progress import tracked
from samebits.train.request import load_model

HERE = Path(__file__).resolve().parent
ALONE = """
import sys
from pathlib import Path
from samebits.host import environment
environment.prepare()
from samebits.train.request import load_model
from samebits.train.trainer import Trainer, pool
model = load_model(Path(sys.argv[1]))
trainer = Trainer(model, model.all_configs()[sys.argv[2]], Path(sys.argv[1]), pool())
print(trainer.run(int(sys.argv[3])).run.steps[-1].loss_hex)
"""


def seconds(command: list[str], cache: str) -> float:
    """The wall time of a process, which must end well."""
    env = {**os.environ, "PYTHONPATH": str(HERE.parent / "harness"), "SAMEBITS_CACHE_DIR": cache}
    begin = time.perf_counter()
    done = subprocess.run(command, env=env, cwd=HERE.parent, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(
            f"{' '.join(command[1:])} ended with {done.returncode}:\n{done.stdout[-1500:]}{done.stderr[-1500:]}"
        )
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("matrix", nargs="?", default="moe_parallelism")
    parser.add_argument("--steps", type=int, default=20)
    asked = parser.parse_args()
    root = default_root()
    matrix = next(one for one in load_model(root).matrices if one.name == asked.matrix)
    together = [sys.executable, "-m", "samebits", "train", "--matrix", matrix.name, "--steps", str(asked.steps)]
    with tempfile.TemporaryDirectory() as cache:
        one = seconds(together, cache)
    apart = sum(
        seconds([sys.executable, "-c", ALONE, str(root), f"{matrix.name}/{run.name}", str(asked.steps)], "")
        for run in tracked(matrix.runs, "runs in a process each")
    )
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e6
    print(f"{matrix.name}, {len(matrix.runs)} runs of {asked.steps} steps")
    print(f"one process, all compared: {one:.1f} s; most memory {peak:.1f} GB")
    print(f"a process each, nothing compared: {apart:.1f} s, {apart / one:.2f}x of that")


if __name__ == "__main__":
    main()

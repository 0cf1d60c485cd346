"""The repository of docs/guides/bisecting.md: the pairs and model of this tree, with a history and a fault.

A team rolls the ring of experts out to layer 2 of one run of `moe_parallelism`. A later commit breaks how the ring puts
the answers of all shards together; two others do not build.
"""

import os
import shutil
import subprocess
from pathlib import Path

from tests.support.invoke import REPOSITORY

FOLDERS = ("reference_impls", "optimized_impls", "suites")

ROW = '*_moe("sparse_ep8", "expert8", "sparse"),'
ROLLED_OUT = (
    '*(run.having(choice={"moe@layer2": "ring"}) if "optimized" in run.name else run'
    ' for run in _moe("sparse_ep8", "expert8", "sparse")),'
)

MOE = "optimized_impls/moe.py"
COMBINED = "jax.lax.psum_scatter(out, EXPERT, scatter_dimension=0, tiled=True)"
FAULTY = "jax.lax.dynamic_slice_in_dim(out, _me() * (out.shape[0] // sizes.shards), out.shape[0] // sizes.shards)"
"""Each shard keeps its rows of its own experts' answers, and the other shards' answers are lost."""

CULPRIT = "perf: the ring cuts out its rows instead of scattering a sum"
COMMITS = 14
FAULT_AT, BROKEN_AT = 9, (6, 11)


def build(root: Path) -> Path:
    """Make the repository; its first commit has the tag `before`."""
    root.mkdir(parents=True, exist_ok=True)
    for folder in FOLDERS:
        skip = shutil.ignore_patterns("__pycache__", "goldens")
        shutil.copytree(REPOSITORY / folder, root / folder, ignore=skip)
    (root / ".gitignore").write_text("__pycache__/\n")
    _edit(root / "suites/model/matrices.py", ROW, ROLLED_OUT)
    _git(root, "init", "-q", "-b", "main")
    _commit(root, "feat: the ring of experts in layer 2 of sparse_ep8_optimized", 0)
    _git(root, "tag", "before")
    for number in range(1, COMMITS + 1):
        subject = f"docs: a remark, number {number}"
        with (root / "reference_impls/rms_norm.py").open("a") as file:
            file.write(f"# {subject}\n")
        if number == FAULT_AT:
            _edit(root / MOE, COMBINED, FAULTY)
            subject = CULPRIT
        elif number in BROKEN_AT:
            with (root / MOE).open("a") as file:
                file.write("def unfinished(\n")
            subject = "wip: does not build"
        elif number - 1 in BROKEN_AT:
            _edit(root / MOE, "def unfinished(\n", "")
            subject = "fix: builds again"
        _commit(root, subject, number)
    return root


def _edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    if text.count(old) != 1:
        raise AssertionError(f"{path}: expected once: {old!r}")
    path.write_text(text.replace(old, new))


def _commit(root: Path, subject: str, number: int) -> None:
    _git(root, "add", "-A")
    _git(root, "commit", "-q", "-m", subject, date=f"2026-01-{number + 1:02d}T12:00:00+00:00")


def _git(root: Path, *words: str, date: str = "2026-01-01T12:00:00+00:00") -> None:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    clean |= {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in
              (("NAME", "Ada"), ("EMAIL", "ada@example.org"), ("DATE", date))}  # fmt: skip
    subprocess.run(["git", "-C", str(root), *words], check=True, env=clean, capture_output=True)

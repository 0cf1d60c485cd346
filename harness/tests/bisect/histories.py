"""Small git histories for tests of bisections: one toy pair that moves data, and commits that change it."""

import json
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from samebits.bisect.search.history import FirstFailing, first_failing
from samebits.bisect.search.trials import Trials
from samebits.host.subprocesses import ProcessResult
from samebits.schema.older_rows import nested
from tests.support.foreign import write_pair

PLAIN = "def plain(x):\n    return x[::-1]\n"
GOOD = "import jax.numpy as jnp\n\n\ndef fast(x):\n    return jnp.flip(x, axis=0)\n"
BAD = GOOD.replace("axis=0", "axis=1")
BROKEN = "def fast(x:\n"
CHECK = ("check", "rev", "--variant", "fast")
CONFIG = "[user]\nname = Ada\nemail = ada@example.org\n[maintenance]\nauto = false\n"
"""Without the look after each commit whether there is something to pack, which is a process of its own."""
PLACE = "rev/fast, case small, float32, mesh data2 (auto), out"


@dataclass(slots=True)
class History:
    """A repository with the pair `rev`; every commit is one call.

    Args:
        root: its folder.
        files: more of its first commit.
        inside: the folder of the tree, if it is not the top of the repository.
    """

    root: Path
    files: Mapping[str, str] = field(default_factory=dict)
    inside: str = ""

    def __post_init__(self) -> None:
        write_pair(self.tree, "rev", reference=PLAIN, optimized=GOOD)
        self.git("init", "-q", "-b", "trunk")
        with (self.root / ".git" / "config").open("a", encoding="utf-8") as config:
            config.write(CONFIG)
        (self.root / ".gitignore").write_text("__pycache__/\n")
        self.commit("start", **self.files)

    @property
    def tree(self) -> Path:
        """The folder with the pair."""
        return self.root / self.inside

    def git(self, *words: str, stdin: str = "") -> str:
        """Git in the repository, without the settings of this machine."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        clean |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
        done = subprocess.run(
            ["git", "-C", self.root, *words], check=True, env=clean, capture_output=True, text=True, input=stdin
        )
        return done.stdout.strip()

    def commit(self, subject: str, optimized: str | None = None, **files: str) -> str:
        """Commit with this optimized implementation, and these files of the top folder; gives its hash."""
        if optimized is not None:
            (self.tree / "optimized_impls" / "rev.py").write_text(optimized)
        for name, text in files.items():
            (self.root / name).write_text(text)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", subject)
        branch = (self.root / ".git" / "HEAD").read_text().removeprefix("ref: ").strip()
        return (self.root / ".git" / branch).read_text().strip()

    def merge(self, branch: str, subject: str, optimized: str) -> str:
        """Merge a branch, with this result."""
        self.git("merge", "-q", "--no-commit", "--no-ff", "-s", "ours", branch)
        return self.commit(subject, optimized)

    def state(self) -> dict[str, object]:
        """All that must stay as it is: HEAD, index, branches, worktrees, every file with its time."""
        files = [path for path in self.root.rglob("*") if path.is_file() and ".git" not in path.parts]
        return {
            "head": (self.root / ".git" / "HEAD").read_text(),
            "index": (self.root / ".git" / "index").read_bytes(),
            "status": self.git("--no-optional-locks", "status", "--porcelain"),
            "refs": self.git("for-each-ref"),
            "worktrees": self.git("worktree", "list"),
            "files": {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in files},
        }


def forty(
    root: Path, *, culprit: int = 27, broken: Sequence[int] = (20, 24), **files: str
) -> tuple[History, list[str]]:
    """40 commits after the start, 30 to 33 of them on a branch that is merged by 35; gives their hashes, start first.

    Every commit changes the implementation, if only by a comment, and their clock runs backwards.
    """
    history = History(root, files)
    stream = ""
    for number in range(1, 41):
        text = BROKEN if number in broken else BAD if number >= culprit else GOOD
        text += f"# {number}\n"
        subject = f"change {number}" + (", a merge" if number == 35 else "")
        who = f"Ada <ada@example.org> {1_790_000_000 - 600_000 * number} +0000"
        stream += (
            f"commit refs/heads/{'side' if 30 <= number <= 33 else 'trunk'}\nmark :{number}\n"
            f"author {who}\ncommitter {who}\ndata {len(subject)}\n{subject}\n"
            f"from {'trunk^0' if number == 1 else f':{29 if number == 34 else number - 1}'}\n".replace(
                "from :34\n", "from :34\nmerge :33\n"
            )
            + f"M 100644 inline optimized_impls/rev.py\ndata {len(text)}\n{text}\n"
        )
    hashes = [history.git("rev-parse", "HEAD")]
    marks = root / ".git" / "marks"
    history.git("fast-import", "--quiet", f"--export-marks={marks}", stdin=stream.replace("trunk^0", hashes[0]))
    history.git("reset", "-q", "--hard", "trunk")
    found = dict(line.split() for line in marks.read_text().splitlines())
    return history, hashes + [found[f":{number}"] for number in range(1, 41)]


@dataclass(slots=True)
class Pretended:
    """Runs a check without a process: it reads the tree that it is given.

    Args:
        judge: the optimized text to an exit code; by default as a check of the pair would end.
        other: whether a tree with "odd" in its text fails elsewhere.
        mismatches: the optimized text to the number of elements that differ where the check fails.
        trees: what each tree had when it was run: text of the optimized file, and of the suite.
    """

    judge: Callable[[str], int] = lambda text: 2 if "(x:" in text else int("axis=1" in text)
    other: bool = False
    mismatches: Callable[[str], int] = lambda text: 7
    trees: list[tuple[str, str]] = field(default_factory=list)

    def __call__(
        self, words: Sequence[str], cwd: Path, environment: Mapping[str, str], timeout: float | None
    ) -> ProcessResult:
        tree, file = (Path(words[words.index(name) + 1]) for name in ("--root", "--json"))
        text = (tree / "optimized_impls" / "rev.py").read_text()
        self.trees.append((text, (tree / "suites" / "test_rev.py").read_text()))
        assert (tree / "reference_impls" / "rev.py").is_file()
        code = self.judge(text)
        if code not in (0, 1):
            return ProcessResult(
                code=code, err=f"samebits: pair 'rev': {tree}/optimized_impls/rev.py does not import\n"
            )
        wrong = self.mismatches(text) if code else 0
        leaf = "aux" if self.other and "odd" in text else "out"
        file.write_text(document(ok=not code, leaf=leaf, mismatches=wrong))
        return ProcessResult(code=code)


def document(**changes: object) -> str:
    """A document of `check` with one result."""
    ok = changes.get("ok", True)
    one = {
        "pair": "rev", "variant": "fast", "case": "small", "dtype": "float32", "mesh": "data2", "mode": "auto",
        "direction": "forward", "leaf": "out", "verdict": "proved" if ok else "different", "ok": ok,
        "elements": 20, "mismatches": 0 if ok else 7, "witness": None, "reason": None,
    }  # fmt: skip
    command, schema = str(changes.pop("command", "check")), changes.pop("schema", "samebits/2")
    row = {**one, **changes}
    rows = [row if schema == "samebits/1" else nested(row, command)]
    return json.dumps({"schema": schema, "command": command, "results": rows, "problems": []})


def first_of_line(last: int, trials: Trials[int]) -> FirstFailing[int]:
    """The first failing point of 1 to the last, of which each has the one before it for its parent."""
    return first_failing({point: (point - 1,) for point in range(1, last + 1)}, last, trials)

"""Runs the steps of a composite GitHub action here: inputs and outputs substituted, and GitHub's files in a folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.support.foreign import write_pair
from tests.support.invoke import REPOSITORY, clean_environment

ACTION = REPOSITORY / "action.yml"

_EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")
_REFERENCE = re.compile(r"(?:inputs|steps|github|runner)(?:\.[\w-]+)+")

PYTHON = """\
#!/usr/bin/env bash
# `python` as the job has it; pip only says what it was to install.
if [ "$1 $2" = "-m pip" ]; then echo "pip ${*:3}"; exit "${PIP_EXIT:-0}"; fi
exec %s "$@"
"""


@dataclass(kw_only=True)
class ActionRun:
    """One run of an action."""

    workspace: Path
    temporary: Path
    inputs: Mapping[str, str]
    number: str = ""
    outputs: dict[str, dict[str, str]] = field(default_factory=dict)
    used: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    out: str = ""
    code: int = 0
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def summary(self) -> str:
        """The summary of all steps."""
        return "".join(path.read_text() for path in sorted(self.temporary.glob("summary_*")))

    @property
    def annotations(self) -> list[str]:
        """The workflow commands that were printed."""
        return [line for line in self.out.splitlines() if line.startswith("::")]

    def run(self) -> ActionRun:
        """Run the steps in their order; behind one that fails, only those that always run."""
        document = yaml.safe_load(ACTION.read_text(encoding="utf-8"))
        unknown = set(self.inputs) - set(document["inputs"])
        assert not unknown, f"the action has no inputs {unknown}"
        defaults = {name: str(declared["default"]) for name, declared in document["inputs"].items()}
        self.inputs = {**defaults, **self.inputs}
        self._make_python()
        for number, step in enumerate(document["runs"]["steps"]):
            condition = str(step.get("if", ""))
            if (self.code and "always()" not in condition) or not self._holds(condition):
                continue
            if "uses" in step:
                self.used.append((step["uses"], {name: self._text(text) for name, text in step["with"].items()}))
            else:
                self._step(number, step)
        return self

    def _step(self, number: int, step: Mapping[str, Any]) -> None:
        assert step["shell"] == "bash", step
        assert not _EXPRESSION.search(step["run"]), "inputs reach a script through its environment only"
        files = {
            name: self.temporary / f"{name.removeprefix('GITHUB_').removeprefix('STEP_').lower()}_{number}"
            for name in ("GITHUB_OUTPUT", "GITHUB_ENV", "GITHUB_STEP_SUMMARY")
        }
        for path in files.values():
            path.touch()
        environment = {
            **clean_environment(),
            "PATH": f"{self.temporary / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "GITHUB_ACTIONS": "true",
            "GITHUB_REPOSITORY": "us/ours",
            "GITHUB_SERVER_URL": "https://github.example",
            "GITHUB_RUN_ID": "17",
            "GITHUB_SHA": "5ca1ab1e" * 5,
            "GITHUB_WORKSPACE": str(self.workspace),
            "RUNNER_TEMP": str(self.temporary),
            **{name: str(path) for name, path in files.items()},
            **self.variables,
            **{name: self._text(text) for name, text in step.get("env", {}).items()},
        }
        # As GitHub starts a step with `shell: bash`.
        words = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        ended = subprocess.run(
            words, cwd=self.workspace, env=environment, capture_output=True, text=True, timeout=300, check=False
        )
        self.out += ended.stdout + ended.stderr
        self.code = self.code or ended.returncode
        self.variables |= _assignments(files["GITHUB_ENV"])
        self.outputs[step.get("id", "")] = _assignments(files["GITHUB_OUTPUT"])

    def _make_python(self) -> None:
        folder = self.temporary / "bin"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "python").write_text(PYTHON % sys.executable)
        (folder / "python").chmod(0o755)

    def _text(self, text: str) -> str:
        return _EXPRESSION.sub(lambda match: self._value(match[1]), str(text))

    def _value(self, reference: str) -> str:
        names = reference.split(".")
        if names[0] == "inputs":
            return self._text(self.inputs[names[1]])
        if names[0] == "steps":
            assert names[2] == "outputs", reference
            return self.outputs.get(names[1], {}).get(names[3], "")
        known = {"action_path": str(REPOSITORY), "sha": "5ca1ab1e", "token": "a token"}
        return {**known, "event.pull_request.number": self.number}[reference.removeprefix("github.")]

    def _holds(self, condition: str) -> bool:
        """What GitHub's expression says, of which this action uses references, `==`, `!=`, `&&` and `always()`."""
        for part in filter(None, (part.strip() for part in condition.split("&&"))):
            if part == "always()":
                continue
            match = re.fullmatch(rf"({_REFERENCE.pattern}) (==|!=) '([^']*)'", part)
            assert match is not None, f"a condition that the driver cannot read: {part}"
            if (self._value(match[1]) == match[3]) != (match[2] == "=="):
                return False
        return True


def _assignments(file: Path) -> dict[str, str]:
    return dict(line.split("=", 1) for line in file.read_text().splitlines())


def git(root: Path, *words: str) -> str:
    """What git prints, with none of the settings of this machine."""
    own = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    names = {f"GIT_{who}_{what}": "us@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    environment = {**{name: text for name, text in os.environ.items() if not name.startswith("GIT_")}, **own, **names}
    ended = subprocess.run(
        ["git", "-C", str(root), *words], env=environment, capture_output=True, text=True, check=True
    )
    return ended.stdout.strip()


def commit(root: Path) -> str:
    """Commit everything; the hash."""
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "a change")
    return git(root, "rev-parse", "HEAD")


def new_repository(folder: Path) -> Path:
    """A repository whose branch `main` has a pair that holds, in a folder of its own."""
    root = folder / "repository"
    root.mkdir()
    git(root, "init", "--quiet", "--initial-branch", "main")
    write_pair(root / "checks", "twice")
    commit(root)
    return root

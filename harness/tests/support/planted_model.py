"""The toy model under three runs and a preset, with a line planted into the functions that build it.

A run that waits does so while the file `wait` is in the tree, which no sign of a result depends on; so that a command
can be killed meanwhile, and go on without it.
"""

import contextlib
import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import msgspec

from samebits.engine.journal import Entry, decode_line
from samebits.schema.model import Config, Matrix
from tests.support.child import shell_environment
from tests.support.invoke import REPOSITORY, command
from tests.support.toy_model import write_tree

INIT = '''"""A model for tests."""

import os
import sys
import time
from dataclasses import replace
from pathlib import Path

from samebits import Preset
from tests.support.planted_model import MATRIX
from tests.support.toy_model import toy

HERE = Path(__file__).parent
HONEST = toy(HERE, matrix=MATRIX)


def build(config, parts):
    {planted}
    made = HONEST.build(config, parts)
    return replace(made, state_types=made.initial(), batch_types=made.batch(1))


PRESET = Preset(name="small", about="the runs of the matrix", target="cpu:2", runs=MATRIX.runs)
MODEL = replace(HONEST, build=build, presets=(PRESET,))
'''

MATRIX = Matrix(
    name="toy",
    about="in two modes, and another training",
    runs=(
        Config(name="one", mesh="data2"),
        Config(name="two", mesh="data2", shard_mode="explicit"),
        Config(name="three", mesh="data2", seed=1),
    ),
)

ABORTS = "os.abort() if config.name == 'two' else None"
SLEEPS = "time.sleep(100_000) if config.name == 'three' else None"
ABORTS_AND_SLEEPS = f"({ABORTS}, {SLEEPS})"
WAITS = "time.sleep(100_000) if config.name == 'two' and (HERE / 'wait').exists() else None"


def write_planted(root: Path, planted: str = "pass") -> Path:
    """A tree with the model; the line runs where a configuration `config` is built."""
    write_tree(root)
    (root / "suites" / "model" / "__init__.py").write_text(INIT.format(planted=planted))
    return root


def killed_and_resumed(
    tree: Path, *words: str, entries: int = 1, flag: str = "suites/model/wait"
) -> tuple[dict[str, Any], dict[str, Any], str]:
    """The documents of a command that was killed while an item waited, and of one undisturbed; what the first said."""
    journal = tree / "journal"
    line = command(*words, "--root", tree, "--workers", "1", "--journal", journal, "--json")
    environment = {**shell_environment(), "PYTHONPATH": os.pathsep.join((str(REPOSITORY / "harness"), str(REPOSITORY)))}

    def run(*more: str) -> str:
        ended = subprocess.run([*line, *more], env=environment, capture_output=True, text=True, timeout=240)
        return ended.stdout + ended.stderr

    (tree / flag).touch()
    process = subprocess.Popen(
        [*line, str(tree / "part.json")], env=environment, start_new_session=True, stderr=subprocess.DEVNULL
    )
    try:
        until = time.monotonic() + 200
        while not (journal.exists() and journal.read_bytes().count(b"\n") > entries):  # and its head
            assert process.poll() is None and time.monotonic() < until, "the first items never came into the journal"
            time.sleep(0.1)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert not (tree / "part.json").exists()
    (tree / flag).unlink()
    said = run(str(tree / "resumed.json"), "--resume")
    assert (tree / "resumed.json").exists(), said
    keys = [
        msgspec.json.decode(line, type=Entry).key
        for line in map(decode_line, journal.read_bytes().splitlines()[1:])
        if line
    ]
    assert len(keys) == len(set(keys)), f"what the journal held has run again: {keys}"
    journal.unlink()
    told = run(str(tree / "whole.json"))
    assert (tree / "whole.json").exists(), told
    resumed, whole = (json.loads((tree / f"{name}.json").read_text()) for name in ("resumed", "whole"))
    return resumed, whole, said

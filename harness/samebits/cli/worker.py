"""`samebits audit worker`: runs the commands that `samebits.audit.claims.jobs` sends; not meant to be typed."""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Sequence

import click

from samebits.cli.common import guarded
from samebits.errors import RequestError


@click.command(hidden=True)
@click.pass_context
@guarded
def worker(context: click.Context) -> int:
    """Run the commands that come in, one per line of JSON, as `samebits` would."""
    answers = os.fdopen(os.dup(1), "w")
    program = context.find_root().command
    for line in sys.stdin:
        try:
            job = json.loads(line)
            words, out, err = list(job["words"]), str(job["out"]), str(job["err"])
        except (ValueError, KeyError, TypeError):
            raise RequestError(
                f"worker: got {line.strip()[:60]!r} on its input, expected a command from `samebits audit claims` as "
                "a line of JSON; type the command itself instead"
            ) from None
        answers.write(json.dumps({"code": _run(program, words, out, err)}) + "\n")
        answers.flush()
    return 0


def _run(program: click.Command, words: Sequence[str], out: str, err: str) -> int:
    """One command with what it prints in files: compilers write to the descriptors themselves."""
    sys.stdout.flush()
    sys.stderr.flush()
    for descriptor, path in ((1, out), (2, err)):
        file = os.open(path, os.O_WRONLY | os.O_APPEND)
        os.dup2(file, descriptor)
        os.close(file)
    try:
        program.main(list(words), prog_name="samebits")
    except SystemExit as end:
        # What `sys.exit` takes: nothing, a code, or a text.
        return 0 if end.code is None else end.code if isinstance(end.code, int) else 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        _forget()


def _forget() -> None:
    """Drop the programs of a command before the next one."""
    if "jax" in sys.modules:
        import jax

        jax.clear_caches()
    gc.collect()

"""Commands that are gone or have another name: what to type in their place."""

from __future__ import annotations

import shlex
from typing import Any

import click

from samebits.cli.common import ends_with, say

WRONG_REQUEST = 2
"""The exit code of a command that does not exist."""

FORMER = {
    "emulate": "run `qemu-x86_64 -cpu NAME python -m samebits check --in-process --json NAME.json` and compare with "
    "`samebits diff native.json NAME.json`; docs/guides/comparing.md has the loop over processors",
    "history": "compare each document with the one before it: `samebits diff OLD.json NEW.json`; "
    "docs/guides/comparing.md has the loop over a folder",
}
"""By its name, what does the same today."""

RENAMED = {name: ("audit", name) for name in ("advise", "claims", "defaults", "faults")}
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
        ends_with(WRONG_REQUEST)
        ctx.exit(WRONG_REQUEST)

"""Commands that are gone: what to type in their place."""

from __future__ import annotations

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


class Commands(click.Group):
    """A group of commands that answers the name of a former one with its successor."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Find the command; the exit code is 2 for a former one."""
        if args[0] in FORMER and args[0] not in self.commands:
            say(f"`samebits {args[0]}` is gone; {FORMER[args[0]]}")
            ends_with(WRONG_REQUEST)
            ctx.exit(WRONG_REQUEST)
        return super().resolve_command(ctx, args)

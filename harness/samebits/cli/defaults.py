"""`samebits audit defaults`: do two sources of configuration agree in keys, types and values?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from samebits.cli import options
from samebits.cli.declared import argument, option
from samebits.rooms import door


@dataclass(frozen=True, kw_only=True)
class DefaultsOptions(options.ReportOptions):
    """The options of `samebits audit defaults`."""

    first: Annotated[str, argument()]
    second: Annotated[str, argument()]
    ignore: Annotated[tuple[str, ...], option("Leave a key out; takes shell patterns ('run_*').", "KEY")] = ()


@options.command(DefaultsOptions)
def defaults(chosen: DefaultsOptions) -> int:
    """Compare the defaults of two sources: a schema in Python and a YAML file, or any two.

    FIRST and SECOND are files (.yml, .yaml, .json, .toml) or module:Name of a dataclass, a pydantic model, a msgspec
    struct or a mapping. Keys, types and values must agree; a key given twice in a file is an error.

    Exit codes: 0 they agree, 1 they do not, 2 the request is wrong, 3 nothing was compared.
    """
    files = chosen.report_files()
    from samebits.cli.pipeline import run_command

    return run_command(door("cli.defaults_run").DefaultsCommand(chosen=chosen), files)

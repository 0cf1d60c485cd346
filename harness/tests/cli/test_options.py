"""Every command that takes a record of options has a field for each option, and no other."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import pytest

from samebits.cli import main, options


def commands(group: click.Group, prefix: str = "") -> Iterator[tuple[str, click.Command]]:
    """All commands below a group, with their names."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}", command


def disagreements(command: click.Command) -> list[str]:
    """What of a command's options and its record does not agree."""
    record = getattr(command.callback, "__annotations__", {}).get("options")
    parameters = {
        parameter.name: parameter
        for parameter in command.params
        if parameter.name is not None and parameter.expose_value
    }
    if record is None:
        return [f"{name} is a parameter of its own" for name in parameters]
    types = typing.get_type_hints(record, localns={"ReportFiles": object})
    fields = {field.name for field in dataclasses.fields(record)}
    wrong = [f"--{name} has no field" for name in sorted(set(parameters) - fields)]
    wrong += [f"{name} has no option" for name in sorted(fields - set(parameters))]
    for name in sorted(fields & set(parameters)):
        if parameters[name].nargs == 1 or getattr(parameters[name], "multiple", False):
            wrong += _wrong_type(parameters[name], types[name])
    return wrong


def _wrong_type(parameter: click.Parameter, kind: typing.Any) -> list[str]:
    repeated = bool(getattr(parameter, "multiple", False))
    if repeated != (typing.get_origin(kind) is tuple):
        return [f"{parameter.name} is {kind}, and the option is {'' if repeated else 'not '}repeated"]
    if isinstance(parameter.type, click.Path) and Path not in (kind, *typing.get_args(kind)):
        return [f"{parameter.name} is {kind}, and the option gives a path"]
    return []


COMMANDS = dict(commands(main))


@pytest.mark.parametrize("name", COMMANDS)
def test_options_and_fields_agree(name: str) -> None:
    assert disagreements(COMMANDS[name]) == []


def test_every_command_with_options_has_a_record() -> None:
    without = [name for name, command in COMMANDS.items() if "options" not in command.callback.__annotations__]
    assert without == ["audit worker"]


@dataclass(frozen=True, kw_only=True)
class Planted(options.JsonOption):
    pairs: tuple[str, ...]
    root: str | None
    forgotten: bool


def test_a_missing_option_and_a_missing_field_are_found() -> None:
    @click.command()
    @click.argument("pairs", nargs=-1)
    @click.option("--full", is_flag=True)
    @options.root
    @options.json_results
    @options.takes(Planted)
    def planted(chosen: Planted) -> int:
        return 0

    assert disagreements(planted) == [
        "--full has no field",
        "forgotten has no option",
        "root is str | None, and the option gives a path",
    ]


def test_one_value_for_a_repeated_option_is_found() -> None:
    @dataclass(frozen=True, kw_only=True)
    class One:
        choice: str | None

    @click.command()
    @click.option("--choice", multiple=True)
    @options.takes(One)
    def planted(chosen: One) -> int:
        return 0

    assert disagreements(planted) == ["choice is str | None, and the option is repeated"]

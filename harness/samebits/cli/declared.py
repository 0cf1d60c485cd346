"""Makes the options and arguments of a command from the fields of its record.

A record is a frozen dataclass. The annotation of a field, `Annotated[TYPE, option("What it does.", "METAVAR")]`, and
its default say what click parses: a `bool` is a flag, a tuple can be repeated, a `Literal` is a choice, and what has no
default must be given. Base classes are groups of options that several commands have, each with a heading in `--help`.

Not cyclopts or tyro: they bring another form of messages and of `--help`, and what reads click's commands (the site,
the tests of pages, `train --against`) would have to be written again.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import types
import typing
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any, Literal, TypeVar

import click

R = TypeVar("R")

OPTIONS = "Options"
"""The part of `--help` with what a command has for itself."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Parameter:
    """What the type and the default of a field do not say of it.

    Args:
        help: the line of `--help`; empty for an argument.
        name: the option, where it is not called after its field; None for an argument.
        least, above: the least number, or one that it must exceed.
        choices: the words that it may be, where they are no `Literal`.
        variable: of the environment, for a value that is not given.
        alone: the value of the option without one.
        other: another option for the same field, a flag: its name, the value, and its line of `--help`.
    """

    help: str = ""
    metavar: str | None = None
    name: str | None = None
    least: float | None = None
    above: float | None = None
    choices: tuple[str, ...] = ()
    variable: str | None = None
    alone: str | None = None
    other: tuple[str, object, str] | None = None
    positional: bool = False


def option(help: str, metavar: str | None = None, name: str | None = None, **more: Any) -> Parameter:
    """Declare an option."""
    return Parameter(help=help, metavar=metavar, name=name, **more)


def argument(metavar: str | None = None, **more: Any) -> Parameter:
    """Declare an argument."""
    return Parameter(metavar=metavar, positional=True, **more)


def declared(record: type) -> Iterator[tuple[type, tuple[click.Parameter, ...]]]:
    """Yield the classes of a record, its own first, and the parameters that each declares."""
    seen: set[str] = set()
    for kind in record.__mro__[:-1]:
        own = [each for each in _own(kind) if each.name not in seen]
        seen |= {each.name or "" for each in own}
        yield kind, tuple(own)


@functools.cache
def _own(kind: type) -> tuple[click.Parameter, ...]:
    defaults = {field.name: field.default for field in fields(kind)}
    parameters: list[click.Parameter] = []
    for name, annotation in inspect.get_annotations(kind, eval_str=True).items():
        if hasattr(annotation, "__metadata__"):
            hint, parameter = typing.get_args(annotation)
            parameters += _parameters(name, hint, parameter, defaults[name])
    return tuple(parameters)


def _parameters(field: str, hint: Any, of: Parameter, default: object) -> list[click.Parameter]:
    """Make the click parameters of a field: one, or two where another option gives it a value."""
    kinds = [kind for kind in typing.get_args(hint) if kind is not type(None)]
    if typing.get_origin(hint) in (types.UnionType, typing.Union) and len(kinds) == 1:
        hint = kinds[0]
    several = typing.get_args(hint) if typing.get_origin(hint) is tuple else ()
    repeated = several[1:] == (...,)
    settings: dict[str, Any] = {"type": _type(several[0] if several else hint, of), "metavar": of.metavar}
    settings |= {} if default in (MISSING, None, ()) else {"default": default}
    if of.positional:
        settings |= {"nargs": -1} if repeated else {}
        return [click.Argument([field], required=default is MISSING, **settings)]
    if hint is bool:
        settings = {"is_flag": True, "default": default}
    elif repeated:
        settings |= {"multiple": True}
    elif several:
        settings |= {"nargs": len(several)}
    settings |= {"is_flag": False, "flag_value": of.alone} if of.alone is not None else {}
    named = of.name or f"--{spelled(field)}"
    shown = settings.get("default") not in (None, False, "")
    parameters: list[click.Parameter] = [
        click.Option(
            [*named.split(), field],
            help=of.help,
            required=default is MISSING,
            show_default=shown,
            envvar=of.variable,
            show_envvar=of.variable is not None,
            **settings,
        )
    ]
    if of.other is not None:
        name, value, help = of.other
        parameters.append(click.Option([name, field], flag_value=value, type=settings["type"], help=help))
    return parameters


def spelled(field: str) -> str:
    """Return the name of an option by that of its field: words with hyphens."""
    return field.rstrip("_").replace("_", "-")


def _type(hint: Any, of: Parameter) -> Any:
    """Return the click type of one value.

    Raises:
        TypeError: no option has values of this type.
    """
    if typing.get_origin(hint) is Literal or of.choices:
        return click.Choice([*(of.choices or typing.get_args(hint))])
    if hint is Path:
        return click.Path(path_type=Path)
    if hint in (int, float) and (of.least is not None or of.above is not None):
        ranged: Callable[..., click.ParamType[Any]] = click.IntRange if hint is int else click.FloatRange
        ranged = functools.partial(Seconds, hint) if of.metavar == "SECONDS" else ranged
        return ranged(min=of.least if of.above is None else of.above, min_open=of.above is not None)
    if hint not in (str, int, float, bool):
        raise TypeError(
            f"a field of {hint} cannot be an option; expected bool, int, float, str, Path, Literal, a tuple"
        )
    return hint


class Seconds(click.FloatRange):
    """A number of seconds, which may end with `s`; an integer where the field is one."""

    def __init__(self, kind: type[int] | type[float], **limits: Any) -> None:
        super().__init__(**limits)
        self.kind = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read one value."""
        number: Any = value.removesuffix("s") if isinstance(value, str) else value
        try:
            self.kind(number)
        except ValueError:
            noun = "an integer number" if self.kind is int else "a number"
            self.fail(f"{value!r} is not {noun} of seconds; expected one such as 60 or 60s.", param, ctx)
        return self.kind(super().convert(number, param, ctx))


class RecordCommand(click.Command):
    """A command with the parameters of its record; `--help` has a part for each group of options.

    Args:
        more: parameters that it has no field for.
    """

    def __init__(self, record: type, more: tuple[click.Parameter, ...] = (), **settings: Any) -> None:
        params = [parameter for _, own in declared(record) for parameter in own]
        super().__init__(params=[*params, *more], **settings)
        self.record = record

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options of the command, then those of each group below its heading."""
        parts: dict[str, list[click.Parameter]] = {OPTIONS: []}
        for kind, own in declared(self.record):
            heading = kind.__dict__.get("HEADING", OPTIONS)
            parts[heading] = [*own, *parts.get(heading, [])]  # what is more general comes first
        grouped = [parameter for part in parts.values() for parameter in part]
        parts[OPTIONS] += [parameter for parameter in self.get_params(ctx) if parameter not in grouped]
        for heading, part in parts.items():
            options = [parameter for parameter in part if isinstance(parameter, click.Option)]
            lines = [line for parameter in options if (line := parameter.get_help_record(ctx)) is not None]
            with formatter.section(heading):
                formatter.write_dl(lines)


def given(chosen: Any, *groups: type) -> list[str]:
    """Return the options of groups that were given, as they are typed."""
    return [parameter.opts[0] for parameter, _ in _given(chosen, groups) if isinstance(parameter, click.Option)]


def words_of(chosen: Any, *groups: type, but: Collection[str] = ()) -> list[str]:
    """Return the arguments and options of groups that were given, as they are typed again."""
    arguments: list[str] = []
    options: list[str] = []
    for parameter, value in _given(chosen, groups):
        values = value if isinstance(value, tuple) else (value,)
        if not isinstance(parameter, click.Option):
            arguments += map(str, values)
        elif parameter.opts[0] in but:
            continue
        elif parameter.multiple:
            options += [word for each in values for word in (parameter.opts[0], str(each))]
        else:
            options += [parameter.opts[0], *(() if value is True else map(_text, values))]
    return [*arguments, *options]


def record_of(kind: Callable[..., R], chosen: Any, **others: Any) -> R:
    """Return a record whose fields are the options of the same names, but for the others, which are given."""
    names = inspect.signature(kind).parameters.keys() & {field.name for field in fields(chosen)}
    return kind(**{name: getattr(chosen, name) for name in names} | others)


def _text(value: object) -> str:
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def _given(chosen: Any, groups: Sequence[type]) -> Iterator[tuple[click.Parameter, Any]]:
    defaults = {field.name: field.default for field in fields(chosen)}
    seen: set[str] = set()
    for parameter in itertools.chain.from_iterable(map(_own, groups)):
        name = parameter.name or ""
        if name not in seen and getattr(chosen, name) != defaults[name]:
            yield parameter, getattr(chosen, name)
        seen.add(name)

"""Every command has a record with its options; no record is what no command could parse, or contradicts itself."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import click
import pytest
from click.testing import CliRunner

from samebits.cli import main, options
from samebits.cli.declared import RecordCommand, argument, given, option, words_of
from samebits.cli.engine_options import ClusterOptions, WorkerOptions
from samebits.engine.drive import TIMEOUT
from samebits.errors import RequestError
from tests.support.invoke import samebits


def commands(group: click.Group, prefix: str = "") -> Iterator[tuple[str, click.Command]]:
    """All commands below a group, with their names."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}", command


def test_every_command_with_options_has_a_record() -> None:
    without = [name for name, command in commands(main) if not isinstance(command, RecordCommand)]
    assert not without


@pytest.mark.parametrize("name", [name for name, command in commands(main) if isinstance(command, RecordCommand)])
def test_help_names_every_option_once(name: str) -> None:
    command = dict(commands(main))[name]
    text = CliRunner().invoke(main, [*name.split(), "--help"]).output.partition("\nOptions:")[2]
    shown = [line.split(" ")[2].rstrip(",") for line in text.splitlines() if line.startswith("  -")]
    known = [parameter.opts[0] for parameter in command.params if isinstance(parameter, click.Option)]
    assert sorted({*shown} - {"-h", "--help"}) == sorted(known) and len(shown) == len(known) + 1
    assert len({*known}) == len(known)


@dataclass(frozen=True, kw_only=True)
class Shared:
    HEADING = "What is shared"

    size: Annotated[float | None, option("How large.", "N", above=0)] = None
    full: options.Full = False


@dataclass(frozen=True, kw_only=True)
class Planted(Shared):
    pairs: Annotated[tuple[str, ...], argument("[PAIR]...")] = ()
    target: Annotated[str, option("Where to.", "T")]
    kinds: Annotated[tuple[str, ...], option("Which.", choices=("a", "b"), name="-k --kind")] = ()
    ends: Annotated[tuple[Path, Path] | None, option("Two files.", "OLD NEW")] = None
    ray: Annotated[str | None, option("The cluster.", "[ADDRESS]", alone="local")] = None
    wait: Annotated[int, option("How long.", "N", least=1, variable="PLANTED_WAIT")] = 600
    root: options.AnyTree = None
    not_an_option: int = 3


def parsed(*words: str, **variables: str) -> Planted | str:
    """The record of a command line, or what is said against it."""
    found: list[Planted] = []

    @options.command(Planted, runs_user_code=False)
    def planted(chosen: Planted) -> int:
        found.append(chosen)
        return 0

    ended = CliRunner(env=variables).invoke(planted, [*words])
    return found[0] if ended.exit_code == 0 else ended.output.splitlines()[-1]


def test_types_and_defaults_say_what_is_parsed() -> None:
    assert parsed("--target", "t") == Planted(target="t")
    words = ["x", "y", "--target", "t", "-k", "a", "--kind", "b", "--ends", "1", "2", "--ray", "--wait", "5", "--full"]
    expected = Planted(
        pairs=("x", "y"), target="t", kinds=("a", "b"), ends=(Path("1"), Path("2")), ray="local", wait=5, full=True
    )
    assert parsed(*words) == expected
    assert parsed("--target", "t", PLANTED_WAIT="7") == Planted(target="t", wait=7)
    built_in = parsed("--target", "t", "--builtin")
    assert isinstance(built_in, Planted) and built_in.root is not None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "Missing option '--target'."),
        (("--target", "t", "--kind", "c"), "Invalid value for '-k' / '--kind': 'c' is not one of 'a', 'b'."),
        (("--target", "t", "--size", "0"), "Invalid value for '--size': 0.0 is not in the range x>0."),
        (
            ("--target", "t", "--wait", "0"),
            "0 is not in the range x>=1.",
        ),
        (("--target", "t", "--ends", "1"), "Option '--ends' requires 2 arguments."),
        (("--target", "t", "--not-an-option", "1"), "No such option '--not-an-option'."),
    ],
)
def test_a_wrong_value_is_said(words: tuple[str, ...], said: str) -> None:
    assert said in str(parsed(*words))


def test_groups_have_their_headings() -> None:
    command = RecordCommand(Planted, name="planted")
    text = command.get_help(click.Context(command, info_name="planted"))
    own, shared = text.split("What is shared:")
    assert "--target T" in own and "[required]" in own and "default: 600;" in own
    assert "--size" in shared and "--full" in shared and "--size" not in own


def test_a_field_of_another_type_is_no_option() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Wrong:
        sizes: Annotated[dict[str, int], option("By name.")]

    with pytest.raises(TypeError, match=r"a field of dict\[str, int\] cannot be an option; expected bool"):
        RecordCommand(Wrong)


def test_what_was_given_is_typed_again() -> None:
    chosen = Planted(pairs=("x",), target="t", kinds=("a", "b"), ends=(Path("1"), Path("2")), full=True, size=2.0)
    assert given(chosen, Shared) == ["--size", "--full"]
    assert words_of(chosen, Planted, but=("--target",)) == ["x", "-k", "a", "-k", "b", "--ends", "1", "2"]
    assert parsed(*words_of(chosen, Planted, Shared)) == chosen
    assert given(Planted(target="t"), Shared) == []


def _options(**chosen: object) -> WorkerOptions:
    return WorkerOptions(**{"workers": None, "in_process": False, "timeout": None, "memory": None, **chosen})  # type: ignore[arg-type]


def test_the_memory_of_a_worker() -> None:
    assert _options(memory="2.5G").engine_settings().bytes == 5 * 2**29
    assert _options(memory="2.5GB").engine_settings().bytes == 25 * 10**8


@pytest.mark.parametrize("text", ["", "G", "0", "eight"])
def test_a_wrong_size_is_rejected(text: str) -> None:
    with pytest.raises(RequestError, match=r"^--memory.* expected a size such as 8G or 512M$"):
        _options(memory=text).engine_settings()


def test_tasks_of_a_cluster_are_not_limited_by_the_memory_here() -> None:
    given = {"in_process": False, "timeout": 7.0, "memory": None, "ray": "auto", "ray_task": ()}
    settings = ClusterOptions(workers=100_000, **given).settings_on("cpu")  # type: ignore[arg-type]
    assert settings.ray is not None and settings.ray.workers == 100_000
    assert (settings.seconds, settings.bytes) == (7.0, None)


def test_without_options_a_share_of_the_memory_is_the_limit() -> None:
    settings = _options(workers=2).engine_settings()
    assert settings.workers == 2 and settings.seconds == TIMEOUT
    assert settings.bytes is not None and _options(workers=4).engine_settings().bytes == settings.bytes // 2


@pytest.mark.parametrize(("name", "value"), [("workers", 2), ("timeout", 3.0), ("memory", "8G")])
def test_limits_of_worker_processes_need_some(name: str, value: object) -> None:
    with pytest.raises(RequestError, match=f"--{name} is about worker processes, and --in-process has none"):
        _options(in_process=True, **{name: value}).engine_settings()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--shard", "0/4"), "--shard 0/4: expected K/N with K from 1 to N, such as 3/8"),
        (("--memory", "much"), "--memory: 'much' is not a size; expected a size such as 8G or 512M"),
        (
            ("--journal", "/no/such/folder/file"),
            "--journal /no/such/folder/file: the folder '/no/such/folder'",
        ),
        (("--journal", "/dev/full"), "--journal /dev/full: is a device or a pipe, from which nothing can be resumed"),
        (("--timeout", "nan"), "--timeout nan: expected a number of seconds"),
        (("--workers", "100000"), "--workers 100000: each would have 0.0 GiB of memory, and a process with jax needs"),
        (("--in-process", "--workers", "2"), "--workers is about worker processes, and --in-process has none"),
    ],
)
def test_a_wrong_option_is_one_line(words: tuple[str, ...], message: str) -> None:
    ended = samebits("check", "rms_norm", *words)
    assert ended.code == 2 and len(ended.lines) == 1 and message in ended.lines[0]


def test_a_time_limit_must_be_positive() -> None:
    assert samebits("check", "rms_norm", "--timeout", "0").code == 2

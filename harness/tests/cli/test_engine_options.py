"""What the options of the engine ask for, and which contradict each other."""

import pytest

from samebits.cli.engine_options import ClusterOptions, WorkerOptions
from samebits.engine.drive import TIMEOUT
from samebits.errors import RequestError
from tests.support.invoke import samebits


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

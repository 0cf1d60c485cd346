"""pytest in several processes with one mesh: all collect the same tests, run them in order, and process 0 reports."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence

import pytest

from samebits.engine.distributed_request import DISTRIBUTED, DistributedRequest, recorder, take_request
from samebits.errors import COULD_NOT_TELL, RequestError
from samebits.host.group import LockstepGroup, RunEnded
from samebits.rooms import door

GROUP = pytest.StashKey[LockstepGroup]()
"""The processes; absent in a process of its own."""

RECORD = pytest.StashKey[Callable[[int], None]]()
"""Takes the exit code, for the `launch` that started this process."""

FAILURES = pytest.StashKey["Failures"]()
"""What failed here."""

ELSEWHERE = pytest.StashKey[list[str]]()
"""What failed in other processes alone, a line each."""

ENDED = pytest.StashKey[bool]()
"""Whether a process is gone, so that no shutdown of jax can be waited for."""


def begin(config: pytest.Config) -> None:
    """Note that from here on user code runs, and `launch` rejects an exit without a report."""
    config.stash[RECORD] = recorder()


def report(config: pytest.Config, code: int) -> None:
    """Pass on the exit code; nothing where the plugin was loaded too late for `begin`, as by a conftest.py."""
    if RECORD in config.stash:
        config.stash[RECORD](code)


def configure(config: pytest.Config) -> None:
    """Start jax among the processes where that is asked for; all but process 0 print nothing."""
    asked_by_option = config.getoption("--samebits-distributed")
    if not asked_by_option and os.environ.get(DISTRIBUTED, "") in ("", "0"):
        return
    if "PYTEST_XDIST_WORKER" in os.environ or config.getoption("numprocesses", None) or config.getoption("tx", None):
        raise pytest.UsageError(
            "--samebits-distributed: every process runs all tests in one order, and xdist deals them out: "
            "leave out -n, and give -p no:xdist"
        )
    from samebits.host import environment

    try:
        if asked_by_option:
            os.environ[DISTRIBUTED] = "1"
        environment.prepare(devices=config.getoption("--samebits-devices"))
        group = door("cluster.start").start(take_request() or DistributedRequest())
    except RequestError as error:
        raise pytest.UsageError(str(error)) from None
    config.stash[GROUP], config.stash[FAILURES] = group, Failures()
    config.pluginmanager.register(config.stash[FAILURES])
    if group.number:
        config.option.xmlpath = None
        reporter = config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:  # as with -p no:terminal
            config.pluginmanager.unregister(reporter)


def compare_collected(session: pytest.Session) -> None:
    """Hold the collected tests, the sources and the environment against those of the other processes."""
    group = session.config.stash.get(GROUP, None)
    if group is None:
        return
    from samebits.host import environment

    inputs = door("cluster.start")
    own = inputs.RunInputs(
        points={f"test {number}": item.nodeid for number, item in enumerate(session.items)},
        sources=inputs.sources(),
        environment=inputs.described(environment.capture()),
    )
    try:
        inputs.compare_inputs(group, own)
    except RequestError as error:
        pytest.exit(f"samebits: {error}", returncode=int(pytest.ExitCode.USAGE_ERROR))
    except RunEnded as ended:
        _end(session.config, ended)


@contextlib.contextmanager
def point_of(config: pytest.Config, words: str) -> Iterator[LockstepGroup | None]:
    """Have all processes check one point, inside; None in a process of its own."""
    group = config.stash.get(GROUP, None)
    if group is None:
        yield None
        return
    try:
        with group.point(words):
            yield group
    except RunEnded as ended:
        _end(config, ended)


class Failures:
    """What failed in this process, by the name of the test; all but process 0 print nothing themselves."""

    def __init__(self) -> None:
        self.reasons: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a test, or a fixture of it, that failed."""
        if report.failed:
            lines = report.longreprtext.splitlines()
            telling = [line[1:].strip() for line in lines if line.startswith("E ")] or lines
            self.reasons.setdefault(report.nodeid, telling[0] if telling else "")


def finish(session: pytest.Session, status: int) -> None:
    """End all processes with one exit code: that of process 0, unless tests failed in another one alone."""
    config = session.config
    group = config.stash.get(GROUP, None)
    if group is None or config.stash.get(ENDED, False):
        return
    try:
        everywhere = group.share("the end", (int(status), config.stash[FAILURES].reasons))
        session.exitstatus, config.stash[ELSEWHERE] = agreed_end(everywhere)
    except RunEnded:
        session.config.stash[ENDED] = True
        session.exitstatus = COULD_NOT_TELL
    group.close()


def agreed_end(everywhere: Sequence[tuple[int, Mapping[str, str]]]) -> tuple[int, list[str]]:
    """Return the exit code of all processes, and a line for each failure that process 0 does not have."""
    codes, own = [code for code, _ in everywhere], everywhere[0][1]
    lines = [
        f"process {number}: {test}: {reason}"
        for number, (_, reasons) in enumerate(everywhere)
        for test, reason in reasons.items()
        if test not in own
    ]
    lines += [
        f"process {number} ends with exit code {code}, and process 0 with {codes[0]}"
        for number, code in enumerate(codes)
        if code != codes[0] and not everywhere[number][1]
    ]
    if len(set(codes)) == 1 or codes[0] != pytest.ExitCode.OK:
        return codes[0], lines
    return (1 if pytest.ExitCode.TESTS_FAILED in codes else COULD_NOT_TELL), lines


def unconfigure(config: pytest.Config) -> None:
    """End without the shutdown of jax where a process is gone, which it waits for."""
    if config.stash.get(ENDED, False):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(COULD_NOT_TELL)


def _end(config: pytest.Config, ended: RunEnded) -> None:
    config.stash[ENDED] = True
    pytest.exit(f"samebits: the run ends here: {ended}", returncode=COULD_NOT_TELL)

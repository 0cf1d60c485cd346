"""`pair_test(PAIR)` under pytest: one case per (variant, case, dtype, mesh, mode, direction), options, markers, header.

`compile_test(PAIR)` makes one case per (production shape, target, direction) that the pair declares for `compile`.

The plugin is loaded by pytest wherever samebits is installed. It does nothing, and imports nothing heavy, until a
suite uses `pair_test`; jax's backend starts with the first case that runs, never during collection.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from samebits.functions.passed import REJECT_OPTION, REPORTING
from samebits.schema.assumption import passing_words
from samebits.testing import distributed
from samebits.testing.pair_tests import COMPILED, PAIR
from samebits.testing.properties import EARLY, NEXT, NOTE, OWN, PAGE_OPTION, VERDICT

_COMPARED = "samebits_compared"
"""The attribute of a test's report that has its comparisons: the name, and each assumption by kind and as text."""
SHOW_OPTION = "--samebits-assumptions"
MARKERS = {
    "cpu_only": "runs only where jax's default backend is the CPU",
    "tpu_only": "runs only where jax's default backend is a TPU",
    "devices(n)": "runs only where jax has at least n devices",
    "slow": "a sweep that runs in its own command (`make slow`)",
    "swept": "a point of a suite's own pair, which `samebits check` runs too",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the sweep."""
    group = parser.getgroup("samebits", "bit-for-bit comparison of implementations")
    group.addoption("--samebits-devices", type=int, metavar="N", help="CPU devices (default: 8)")
    group.addoption("--samebits-full", action="store_true", help="the whole product instead of the covering selection")
    group.addoption(
        "--samebits-distributed",
        action="store_true",
        help="one of several processes with one mesh, as jax.distributed detects them or SAMEBITS_COORDINATOR says",
    )
    group.addoption(
        "--samebits-no-skips", action="store_true", help="fail where a mesh does not fit, instead of skipping"
    )
    group.addoption(
        SHOW_OPTION, action="store_true", help="list the assumptions under which comparisons passed, by test"
    )
    group.addoption(
        REJECT_OPTION, action="store_true", help="accept no proof that assumes anything beyond shapes and rounding"
    )
    group.addoption(
        PAGE_OPTION,
        type=Path,
        metavar="FILE",
        help="write the results of all pair tests as an HTML file for a browser",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Begin before the first `conftest.py`, which is user code."""
    distributed.begin(early_config)


@pytest.hookimpl(wrapper=True)
def pytest_cmdline_main(config: pytest.Config) -> Generator[None, int | None, int | None]:
    """Finish after everything, `--help` included: the exit code is known."""
    code = yield
    distributed.report(config, int(code or 0))
    return code


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Register the markers; start jax among several processes, where that was asked for."""
    for name, meaning in MARKERS.items():
        config.addinivalue_line("markers", f"{name}: {meaning}")
    # xdist registers the marker that puts cases with a shared program on one worker; without it we do.
    if not config.pluginmanager.hasplugin("xdist"):
        config.addinivalue_line("markers", "xdist_group(name): cases that should run on one xdist worker")
    if config.getoption(PAGE_OPTION) is not None:
        from samebits.testing.page import TestedPage

        config.pluginmanager.register(TestedPage.asked_for(config.getoption(PAGE_OPTION)))
    REPORTING.wanted, REPORTING.assuming = True, not config.getoption(REJECT_OPTION)
    distributed.configure(config)


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Print the versions and every setting that the bits depend on, without starting a backend."""
    from samebits.errors import RequestError
    from samebits.host.environment import asked_devices, flags_header

    try:
        devices = config.getoption("--samebits-devices") or asked_devices()
    except RequestError:  # said where a test needs devices; others may not
        devices = "an unknown number of"
    return [f"samebits: {line}" for line in flags_header(f"{devices} CPU devices asked for")]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make one case of each point of a pair's plan, and of each production shape, target and direction."""
    _generate_compiled(metafunc)
    pair = getattr(metafunc.function, PAIR, None)
    if pair is None:
        return
    from samebits.errors import SamebitsError
    from samebits.host.environment import asked_devices
    from samebits.programs.plan import Request, plan

    try:
        _prepare(metafunc.config)  # now, since a file that is collected later may start jax
        devices = metafunc.config.getoption("--samebits-devices") or asked_devices()
        points = plan(pair, Request(full=metafunc.config.getoption("--samebits-full")), devices).points
    except SamebitsError as error:
        raise pytest.Collector.CollectError(str(error)) from None
    swept = (pytest.mark.swept,) if getattr(metafunc.module, OWN, None) is pair else ()
    metafunc.parametrize(
        "samebits_point",
        [
            pytest.param(point, id=str(point), marks=(pytest.mark.xdist_group(f"{pair.name}-{point.case}"), *swept))
            for point in points
        ],
    )


def _generate_compiled(metafunc: pytest.Metafunc) -> None:
    pair = getattr(metafunc.function, COMPILED, None)
    if pair is None:
        return
    from samebits.schema.contract import DIRECTIONS

    jobs = [
        (real.case.id, target, direction)
        for real in pair.compiled
        for target in real.targets
        for direction in (DIRECTIONS if pair.gradients else DIRECTIONS[:1])
    ]
    group = pytest.mark.xdist_group(f"{pair.name}-compiled")
    metafunc.parametrize("samebits_compiled", [pytest.param(job, id="-".join(job), marks=group) for job in jobs])


def pytest_collection_finish(session: pytest.Session) -> None:
    """Set the devices once suites or tests that use samebits are known to be there, while no backend has started."""
    distributed.compare_collected(session)
    functions = [getattr(item, "function", None) for item in session.items]
    if any(hasattr(function, name) for function in functions for name in (PAIR, COMPILED)):
        _prepare(session.config)
        return
    modules = {id(module): module for item in session.items if (module := getattr(item, "module", None)) is not None}
    if any(_uses_samebits(module) for module in modules.values()):
        _prepare_environment(session.config)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """End alike, of several processes."""
    distributed.finish(session, exitstatus)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Do not wait for processes that are gone."""
    REPORTING.wanted, REPORTING.assuming = False, True
    REPORTING.take()
    distributed.unconfigure(config)


def _uses_samebits(module: Any) -> bool:
    """Return whether a test module has imported samebits, or something of it: then a test may ask for a mesh."""
    values = [value for name, value in vars(module).items() if not name.startswith("__")]
    return any(
        getattr(value, "__name__", "") == "samebits" or str(getattr(value, "__module__", "")).startswith("samebits.")
        for value in values
    )


def _prepare(config: pytest.Config) -> None:
    """Set the devices, and note down where jax has started already."""
    from samebits.host import environment

    if environment.backend_started():
        config.stash.setdefault(EARLY, environment.asked_devices())
    _prepare_environment(config)


def _prepare_environment(config: pytest.Config) -> None:
    from samebits.host import environment

    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))  # pytest-xdist says so in each of its workers
    environment.prepare(devices=config.getoption("--samebits-devices"), processes=workers, option="-n")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what is for another backend, or for more devices."""
    for marker, backend in (("cpu_only", "cpu"), ("tpu_only", "tpu")):
        if item.get_closest_marker(marker) and (here := _devices()[0].platform) != backend:
            pytest.skip(f"{marker}: the default backend is {here}")
    for mark in item.iter_markers("devices"):
        if len(mark.args) != 1 or not isinstance(mark.args[0], int):
            pytest.fail(f"{item.nodeid}: devices{mark.args}; expected a number, as in devices(4)", pytrace=False)
        if (count := len(_devices())) < mark.args[0]:
            pytest.skip(f"devices({mark.args[0]}): {count} {'is' if count == 1 else 'are'} there")


def _devices() -> list[Any]:
    """Return the devices of jax's backend; a test fails with one line where it does not start."""
    from samebits.errors import RequestError
    from samebits.host.backend_start import require_answer
    from samebits.host.environment import devices_here

    try:
        require_answer()
        return devices_here()
    except RequestError as error:
        pytest.fail(str(error), pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Remember which case comes next, so that its programs compile while this one runs."""
    item.stash[NEXT] = nextitem
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Send the comparisons of a test with its report."""
    report = yield
    if compared := REPORTING.take():  # with its report, so that the counts of the workers of pytest-xdist add up
        texts = [[name, [[each.word, str(each)] for each in assumptions]] for name, assumptions in compared]
        setattr(report, _COMPARED, texts)
    return report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the counts per verdict and the notes, gathered from all workers."""
    counts: Counter[str] = Counter()
    notes: dict[str, None] = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", None) == "call":
                counts.update(value for name, value in report.user_properties if name == VERDICT)
                notes |= dict.fromkeys(value for name, value in report.user_properties if name == NOTE)
    for note in notes:
        terminalreporter.write_line(f"samebits: note: {note}")
    if counts:
        words = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items(), key=lambda kv: -kv[1]))
        terminalreporter.write_line(f"samebits: leaves compared by verdict: {words}")
    _show_assumptions(terminalreporter)
    for line in terminalreporter.config.stash.get(distributed.ELSEWHERE, []):
        terminalreporter.write_line(f"samebits: {line}", red=True)


def _show_assumptions(reporter: Any) -> None:
    """Write one line where comparisons passed under assumptions, and list these by test where that is asked for."""
    reports = [report for reports in reporter.stats.values() for report in reports]
    compared = [(report.nodeid, *each) for report in reports for each in getattr(report, _COMPARED, ())]
    kinds = [[word for word, _ in assumptions] for _, _, assumptions in compared]
    text = passing_words(kinds, "comparisons passed")
    if text is None:
        return
    if not reporter.config.getoption(SHOW_OPTION):
        reporter.write_line(f"samebits: {text}: `pytest {SHOW_OPTION}` lists them")
        return
    reporter.section("samebits: assumptions")
    for test, name, assumptions in compared:
        if assumptions:
            reporter.write_line(f"{test}: {name}")
        for _, assumption in assumptions:
            reporter.write_line(f"  assumes {assumption}")
    reporter.write_line(f"{text}; `pytest {REJECT_OPTION}` accepts none")

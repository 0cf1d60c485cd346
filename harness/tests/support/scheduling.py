"""Which tests run in one process, in which order, and `--shard K/N`: a part of the tests for one job of a CI matrix.

The tests of a file stay together: they share fixtures and compiled programs, which two workers would each make for
themselves. What takes longest starts first, so that no worker has a long file left when the others are done. Not
pytest-split: it divides tests one by one, and needs a file of the durations of all of them.
"""

import contextlib
import functools
import importlib
import os
import sys
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from samebits.engine.work import Shard
from samebits.errors import RequestError

ROOT = Path(__file__).resolve().parents[3]

SECONDS: Mapping[str, float] = {
    "audit/faults/test_faults": 40,
    "functions/test_compare": 24,
    "engine/test_worker_processes": 22,
    "cluster/test_ray_cluster": 21,
    "cli/test_cli": 19,
    "cluster/test_start": 17,
    "sizes/proofs/test_values": 17,
    "project/test_layering": 16,
    "interpret/test_interpreter": 16,
    "sizes/proofs/test_device_numbers": 16,
    "host/test_environment": 15,
    "cli/test_supervision": 15,  # more, mostly waiting; rated lower, so that it does not wait beside another one
    "report/html/browser/test_result": 15,
    "project/test_page_code": 14,
    "cli/test_user_code": 14,
    "cli/test_prove_all_sizes": 13,
    "sizes/test_beside_runs": 13,
    "project/test_action": 13,
    "testing/test_plugin": 12,
    "cli/test_compile_wrong_input": 12,
    "prove/test_mathematical_faults": 11,
    "suites/test_token_exchange": 11,
    "interpret/rounding_error/test_estimate": 10,
    "suites/test_attention": 10,
    "cli/test_prove": 10,
    "programs/test_program_cache_keys": 10,
    "sizes/proofs/test_counted_loops": 9,
    "cli/test_compile": 9,
    "bisect/test_layered_model": 9,
    "suites/test_cross_entropy": 9,
    "bisect/commits/test_run": 9,
    "suites/test_rms_norm": 8,
    "cluster/test_simulation": 8,
    "cli/test_exit_codes": 8,
    "cli/test_accelerators": 8,
    "sizes/test_named_dimensions": 8,
    "testing/test_replays": 8,
    "compile/test_tune": 8,
    "cli/test_golden": 8,
    "suites/test_decoder_layer": 8,
    "cli/test_compile_options": 8,
    "project/test_own_folders": 8,
    "testing/test_user_code": 8,
    "sizes/places/test_windows": 7,
    "check/test_cross_checks": 7,
    "sizes/test_points": 7,
    "engine/test_verdict_cache": 7,
    "train/test_trainer": 7,
    "sizes/formulas/test_counts": 7,
    "functions/test_plain_arguments": 7,
    "check/test_corpus": 6,
}
"""Roughly how many seconds the tests of a file take in `make test`, where that is more than a few; 0 for all others."""

SLOW_SECONDS: Mapping[str, float] = {
    "check/test_corpus": 2300,
    "train/test_model_runs": 1450,
    "prove/test_mathematical_faults": 1100,
    "cluster/test_all_pairs": 880,
    "engine/test_sweep": 760,
    "audit/faults/test_faults": 680,
    "audit/test_agreement": 440,
    "suites/test_scanned_stack": 370,
    "bisect/test_walkthrough": 340,
    "bisect/test_decoder": 330,
    "cli/test_isolation": 310,
    "train/test_prove_step": 280,
    "cli/test_remembered": 240,
    "sizes/proofs/test_values": 170,
    "project/test_library_pairs": 130,
    "suites/test_attention": 130,
    "suites/test_pipeline": 115,
    "suites/test_grouped_matmul": 110,
    "suites/test_compiler_flags": 100,
    "suites/test_remat_policy": 90,
    "suites/test_embedding": 90,
}
"""The same of the slow tests of a file."""


FEW = 4
"""Up to how many processors one that waits is much."""

SAMPLED = "sampled(quick): `make test` runs this many of its cases, spread over all of them; the others are slow"


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--shard K/N`."""
    parser.addoption("--shard", metavar="K/N", help="only part K of N of the selected tests; all parts are the whole")


def pytest_configure(config: pytest.Config) -> None:
    """Reject a malformed shard before anything is collected, and have xdist keep our order."""
    config.addinivalue_line("markers", SAMPLED)
    if hasattr(config.option, "loadscopereorder"):  # by the number of tests, which says little of how long they take
        config.option.loadscopereorder = False
    try:
        _shard(config)
    except RequestError as error:
        raise pytest.UsageError(str(error)) from None


def pytest_sessionstart(session: pytest.Session) -> None:
    """Have each of xdist's workers import its part of all test modules before it collects the others.

    pytest rewrites the asserts of a module when it is imported, and keeps the bytecode. Workers that collect in step
    would each rewrite every module.
    """
    worker = getattr(session.config, "workerinput", None)
    every = session.config.args_source is pytest.Config.ArgsSource.TESTPATHS
    if worker is None or not every or sys.dont_write_bytecode:
        return
    for name in imported_first(int(worker["workerid"].removeprefix("gw")), worker["workercount"]):
        with contextlib.suppress(Exception, pytest.skip.Exception):  # collecting it says what is wrong
            importlib.import_module(name)


def imported_first(number: int, count: int) -> list[str]:
    """The names of the test modules that a worker imports first."""
    folders = {ROOT / "harness": "tests", ROOT: "suites"}
    files = [(file, root) for root, folder in folders.items() for file in sorted((root / folder).rglob("test_*.py"))]
    return [".".join(file.relative_to(root).with_suffix("").parts) for file, root in files[number::count]]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """On few processors one more worker than there are: tests of time limits, clusters and browsers mostly wait.

    Not for the slow tests, of which a worker may take 7 GB; and `PYTEST_XDIST_AUTO_NUM_WORKERS` says it all.
    """
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ or "not slow" not in config.option.markexpr:
        return None
    return processors() + 1 if processors() <= FEW else None


def processors() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem(collector: pytest.Collector, name: str, obj: object) -> Generator[None, Any, Any]:
    """Of a test with the marker `sampled`, mark as slow what `make test` does not run.

    Here, where all cases of a function are at hand: which ones are slow does not depend on what is selected.
    """
    made = yield
    if isinstance(made, list):
        cases = [item for item in made if isinstance(item, pytest.Item) and item.get_closest_marker("slow") is None]
        marker = cases[0].get_closest_marker("sampled") if cases else None
        if marker is not None:
            quick = sample(len(cases), *marker.args)
            for number, case in enumerate(cases):
                if number not in quick:
                    case.add_marker(pytest.mark.slow)
    return made


def sample(cases: int, quick: int) -> set[int]:
    """The numbers of the cases that `make test` runs, spread evenly, the first among them."""
    assert quick >= 1, "mark the whole test as slow instead"
    return {number * cases // quick for number in range(min(quick, cases))} if cases > quick else set(range(cases))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """Group the tests by their files; of what is selected then leave the shard, and put what takes longest first."""
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(file_group(item.path)))
    yield
    shard, seconds = _shard(config), group_seconds(items)
    if shard is not None:
        chosen = part(seconds, shard)
        config.hook.pytest_deselected(items=[item for item in items if _group(item) not in chosen])
        items[:] = [item for item in items if _group(item) in chosen]
    if hasattr(config, "workerinput"):  # in one process the order of the files is easier to follow
        items.sort(key=lambda item: -seconds[_group(item)])


@functools.cache
def file_group(path: Path) -> str:
    """The group of the tests of a file: `cli/test_check` for those of `harness/tests/cli/test_check.py`."""
    place = path.relative_to(ROOT) if path.is_relative_to(ROOT) else Path(path.name)
    return place.with_suffix("").as_posix().removeprefix("harness/tests/")


def group_seconds(items: Sequence[pytest.Item]) -> dict[str, float]:
    """Roughly how long each group of tests takes: of each of its files as much as it has tests of it."""
    files = Counter(map(_file, items))
    seconds = dict.fromkeys(map(_group, items), 0.0)
    for item in items:
        file, is_slow = _file(item)
        seconds[_group(item)] += (SLOW_SECONDS if is_slow else SECONDS).get(file, 0.0) / files[file, is_slow]
    return seconds


def part(seconds: Mapping[str, float], shard: Shard) -> set[str]:
    """The groups of a shard: each goes to the part that has least to do, those that take longest first."""
    parts: list[list[str]] = [[] for _ in range(shard.count)]
    for group in sorted(seconds, key=lambda group: -seconds[group]):
        min(parts, key=lambda groups: (sum(seconds[other] for other in groups), len(groups))).append(group)
    return set(parts[shard.number - 1])


def _file(item: pytest.Item) -> tuple[str, bool]:
    """The file of a test, and whether the test is slow."""
    return file_group(item.path), item.get_closest_marker("slow") is not None


def _group(item: pytest.Item) -> str:
    marker = item.get_closest_marker("xdist_group")
    assert marker is not None
    return str(marker.args[0] if marker.args else marker.kwargs["name"])


def _shard(config: pytest.Config) -> Shard | None:
    text = config.getoption("--shard", None)
    return None if text is None else Shard.parse(text)

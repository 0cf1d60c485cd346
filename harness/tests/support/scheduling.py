"""Which tests run in one process, in which order, and `--shard K/N`: a part of the tests for one job of a CI matrix.

The tests of a file stay together: they share fixtures and compiled programs, which two workers would each make for
themselves. What takes longest starts first, so that no worker has a long file left when the others are done. Not
pytest-split: it divides tests one by one, and needs a file of the durations of all of them.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from samebits.engine.shard import Shard
from samebits.errors import RequestError

ROOT = Path(__file__).resolve().parents[3]

SECONDS: Mapping[str, float] = {
    "project/test_page_code": 40,
    "cli/test_prove_all_sizes": 45,
    "report/html/browser/test_looks": 31,
    "project/test_site": 22,
    "prove/test_mathematical_faults": 20,
    "check/test_size_proofs": 20,
    "interpret/test_interpreter": 18,
    "project/test_action": 15,
    "engine/test_ray_cluster": 12,
    "suites/test_attention": 12,
    "bisect/test_layered_model": 11,
    "functions/test_compare": 11,
    "interpret/rounding_error/test_estimate": 11,
    "project/test_library_pairs": 11,
    "project/test_own_folders": 11,
    "testing/test_replays": 11,
    "cli/test_supervision": 10,
    "engine/test_verdict_cache": 10,
    "cli/test_compile": 9,
    "cli/test_first_mistakes": 9,
    "cli/test_user_code": 9,
    "project/test_clean_tree": 9,
    "testing/test_plugin": 9,
    "audit/claims/test_jobs": 8,
    "bisect/test_flags": 8,
    "check/test_corpus": 8,
    "cli/test_cli": 8,
    "project/test_action_comment": 8,
    "suites/test_decoder_layer": 8,
    "check/test_cross_checks": 7,
    "check/test_mesh_argument": 7,
    "cli/test_accelerators": 7,
    "cli/test_exit_codes": 7,
    "engine/test_simulation": 7,
    "suites/test_rms_norm": 7,
    "suites/test_token_exchange": 7,
    "testing/test_user_code": 7,
    "train/test_trainer": 7,
    "bisect/commits/test_run": 6,
    "cli/test_golden": 6,
    "cli/test_new": 6,
    "cli/test_run_items": 6,
    "engine/test_worker_processes": 6,
    "host/test_environment": 6,
    "interpret/test_collectives": 6,
    "project/test_code_shape": 6,
    "project/test_layering": 6,
    "testing/test_distributed": 6,
}
"""Roughly how many seconds of processor time a group takes, where that is more than a few; all others count as none."""


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
    """The numbers of the cases that `make test` runs, spread evenly, the first among them.

    Args:
        cases: how many there are.
        quick: how many of them are run; at least one, so that a planted fault of each kind is caught.
    """
    assert quick >= 1, "mark the whole test as slow instead"
    return {number * cases // quick for number in range(min(quick, cases))} if cases > quick else set(range(cases))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """Group the tests by their files; of what is selected then leave the shard, and put what takes long first."""
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(file_group(item.path)))
    yield
    shard = _shard(config)
    if shard is not None:
        chosen = part([_group(item) for item in items], shard)
        config.hook.pytest_deselected(items=[item for item in items if _group(item) not in chosen])
        items[:] = [item for item in items if _group(item) in chosen]
    if hasattr(config, "workerinput"):  # in one process the order of the files is easier to follow
        items.sort(key=lambda item: -SECONDS.get(_group(item), 0.0))


def file_group(path: Path) -> str:
    """The group of the tests of a file: `cli/test_check` for those of `harness/tests/cli/test_check.py`."""
    place = path.relative_to(ROOT) if path.is_relative_to(ROOT) else Path(path.name)
    return place.with_suffix("").as_posix().removeprefix("harness/tests/")


def part(groups: Sequence[str], shard: Shard) -> set[str]:
    """The groups of a shard: dealt in turn, those that take longest first.

    Args:
        groups: of the selected tests, in their order; a group may be there several times.
        shard: the part.
    """
    ordered = sorted(dict.fromkeys(groups), key=lambda group: -SECONDS.get(group, 0.0))
    return set(shard.of_list(ordered))


def _group(item: pytest.Item) -> str:
    marker = item.get_closest_marker("xdist_group")
    assert marker is not None
    return str(marker.args[0] if marker.args else marker.kwargs["name"])


def _shard(config: pytest.Config) -> Shard | None:
    text = config.getoption("--shard", None)
    return None if text is None else Shard.parse(text)

"""Every planted fault changes the keys of the points on which it shows, so that no result is remembered with it."""

from __future__ import annotations

import importlib
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from samebits.audit.faults.find import all_faults
from samebits.engine.verdict_keys import PairKeys
from samebits.host import installed
from samebits.host.package import PACKAGE
from samebits.programs.catalogue import Locator
from samebits.programs.plan import LoadedPair, plan
from tests.engine.loaded_pairs import installed_once, keys, loaded
from tests.support.invoke import REPOSITORY
from tests.support.planted_edits import FOLDERS, edited, locator_of, source_of


@pytest.fixture(autouse=True, scope="module")
def _installed_once() -> Iterator[None]:
    """The edits are those of pairs, and of a copy of samebits."""
    with installed_once("own_digest", "distributions_digest"):
        yield


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pairs of this repository, in another place."""
    root = tmp_path_factory.mktemp("copy")
    for folder in FOLDERS:
        shutil.copytree(REPOSITORY / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__"))
    return root


@pytest.mark.slow
def test_every_planted_edit_changes_every_key_of_its_request(copy: Path) -> None:
    faults = [fault for fault in all_faults(REPOSITORY) if fault.old]
    assert len(faults) > 300
    verdicts = keys()
    before: dict[Locator, tuple[LoadedPair, PairKeys]] = {}
    for fault in faults:
        locator = locator_of(fault, copy)
        if locator not in before:
            item = loaded(locator)
            before[locator] = item, verdicts.of(item)
        item, honest = before[locator]
        path = source_of(fault, locator)
        assert path.is_relative_to(copy), path
        text = path.read_text()
        path.write_text(edited(fault, text))
        try:
            planted = verdicts.of(item)
        finally:
            path.write_text(text)
        request = fault.request if fault.request.variants else replace(fault.request, variants=(fault.side,))
        points = plan(item.pair, request, 8).points
        assert points
        assert {honest.of(point) for point in points}.isdisjoint(planted.of(point) for point in points), fault.name


def test_an_edit_concerns_the_pairs_that_import_it_alone(copy: Path) -> None:
    locators = [Locator(name=name, root=str(copy)) for name in ("token_sort", "rms_norm")]
    items, verdicts = [loaded(locator) for locator in locators], keys()
    before = [verdicts.of(item).base for item in items]
    path = copy / "optimized_impls" / "rms_norm.py"
    text = path.read_text()
    path.write_text(text + "\n")
    after = [verdicts.of(item).base for item in items]
    path.write_text(text)
    assert [old == new for old, new in zip(before, after, strict=True)] == [True, False]
    assert [verdicts.of(item).base for item in items] == before


def test_every_fault_of_samebits_itself_is_in_the_key(tmp_path: Path) -> None:
    """The modules that these faults patch count with their content, where they lie in samebits."""
    targets = {fault.patch[0].partition(":")[0] for fault in all_faults(REPOSITORY) if fault.patch is not None}
    assert len(targets) > 5
    package, modules = tmp_path / "samebits", {}
    for target in targets:
        file = Path(str(importlib.import_module(target).__file__)).resolve()
        modules[target] = path = package / file.relative_to(PACKAGE)
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, path)
    honest = installed.own_digest(package)
    for target, path in modules.items():
        text = path.read_text()
        path.write_text(text + "\n# patched\n")
        assert installed.own_digest(package) != honest, target
        path.write_text(text)
    assert installed.own_digest(package) == honest

"""Devices and determinism for every test of this repository, set before jax starts. No checks of components here."""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from samebits.errors import RequestError
from samebits.host import environment, file_reads, git, isolation
from samebits.user_errors import take_tracebacks

pytest_plugins = ["tests.support.scheduling"]

ROOT = Path(__file__).parent
EAGER = pytest.StashKey[bool]()
"""Whether collecting the tests has started a backend of jax."""

UNCOMMITTED = pytest.StashKey[list[str]]()
"""The uncommitted files of the repository: before the tests, then those that the tests left."""


def pytest_configure(config: pytest.Config) -> None:
    """Eight CPU devices, or as many as `--samebits-devices` or `JAX_NUM_CPU_DEVICES` says; nothing is remembered.

    A test must see what the code of today does; those of the memory itself have one of their own. What they cache
    besides is not among the user's own files, and gone at the end; xdist's workers inherit the folder.
    """
    os.environ["SAMEBITS_CACHE_LIMIT"] = "0"
    for name in ("COLUMNS", "LINES"):  # readline, which pytest imports, gives children the size of no terminal
        os.environ.pop(name, None)
        os.unsetenv(name)
    if "SAMEBITS_CACHE_DIR" not in os.environ:
        folder = tempfile.mkdtemp(prefix="samebits-tests-")
        os.environ["SAMEBITS_CACHE_DIR"] = folder
        config.add_cleanup(functools.partial(shutil.rmtree, folder, ignore_errors=True))
    if "PYTHONDONTWRITEBYTECODE" in os.environ and "TESTS_BYTECODE" not in os.environ:  # see `tests.support.child`
        os.environ["TESTS_BYTECODE"] = folder = tempfile.mkdtemp(prefix="samebits-bytecode-")
        config.add_cleanup(functools.partial(shutil.rmtree, folder, ignore_errors=True))
    # Tracing makes many short-lived objects; with Python's thresholds their collector takes 4 % of the tests.
    gc.set_threshold(50_000, 10, 10)
    try:
        environment.prepare(devices=config.getoption("--samebits-devices", None))
    except RequestError as error:
        raise pytest.UsageError(str(error)) from None


@pytest.fixture(autouse=True, scope="session")
def _in_the_tree() -> Iterator[None]:
    """Commands take the pairs of the current folder, and pytest may have been started in another one."""
    with contextlib.chdir(ROOT):
        yield


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that other tests cached."""
    monkeypatch.setenv("SAMEBITS_CACHE_DIR", str(tmp_path / "cache"))


def pytest_sessionstart(session: pytest.Session) -> None:
    """Note which files are not as committed; where there is no git, nothing is noted."""
    if not hasattr(session.config, "workerinput"):  # the process that starts xdist's workers looks for all of them
        with contextlib.suppress(RequestError):
            session.config.stash[UNCOMMITTED] = git.is_dirty(ROOT)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Note whether a file of tests has started jax at its top level; `test_no_backend` holds that none does."""
    session.config.stash[EAGER] = environment.backend_started()


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run of which a test wrote into the repository: such files end up in commits, and in other tests."""
    before = session.config.stash.get(UNCOMMITTED, None)
    if before is not None:
        left = sorted(set(git.is_dirty(ROOT)) - set(before))
        session.config.stash[UNCOMMITTED] = left
        if left:
            session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Name these files."""
    if left := config.stash.get(UNCOMMITTED, []):
        terminalreporter.section("the repository is not as it was", red=True)
        terminalreporter.line(f"changed while the tests ran: {', '.join(left)}; write to tmp_path instead")


@dataclass(slots=True)
class SelfTest:
    """The planted cases that labels and fields must decide before each pair; here once per process that runs tests.

    They depend on nothing but samebits itself, so that only a test that breaks samebits needs them again.

    Args:
        decide: raises where one is decided wrongly; then it does so in the next test too.
        each_time: whether the tests that run now need them before each pair.
        passed: whether they were decided rightly in this process.
    """

    decide: Callable[[], None]
    each_time: bool = False
    passed: bool = False

    def __call__(self) -> None:
        """As `check_proofs`."""
        if self.each_time or not self.passed:
            self.decide()
            self.passed = True


@pytest.fixture(autouse=True, scope="session")
def selftest() -> Iterator[SelfTest]:
    """Have checks and proofs use it; a test file that plants faults in samebits sets `each_time`."""
    from samebits.check import prove_points, runner
    from samebits.prove.selftest import check_proofs

    test = SelfTest(check_proofs)
    with pytest.MonkeyPatch.context() as patch:
        for module in (runner, prove_points):
            patch.setattr(module, "check_proofs", test)
        yield test


@pytest.fixture(autouse=True, scope="session")
def _compiled_once() -> Iterator[None]:
    """Compile a program once in this process, whichever test lowers it; see `tests.support.compiled_once`."""
    from samebits.programs import program_cache
    from samebits.train.trainer import Trainer
    from tests.support.compiled_once import CompiledOnce

    once = CompiledOnce(vars(program_cache)["_compile"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program_cache, "_compile", once)
        patch.setattr(Trainer, "_compile", once.step(vars(Trainer)["_compile"]))
        yield


@pytest.fixture(autouse=True, scope="session")
def _kept_out_of_collections(_compiled_once: None) -> None:
    """Freeze what is loaded before the first test: scanning it for garbage took a tenth of the tests' processor time.

    A test in which samebits must find objects that were made before, such as a cached function of its file, asks for
    `whole_heap`.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture
def whole_heap(_kept_out_of_collections: None) -> Iterator[None]:
    """Let the garbage collector see all objects, for tests of what samebits finds among them."""
    from tests.support import heap

    with heap.whole_heap():
        yield


@pytest.fixture(autouse=True, scope="session")
def _digested_once() -> Iterator[None]:
    """Digest the sources of samebits once in this process and not in each check; tests change only a copy of them."""
    from samebits.host import process_sources

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process_sources, "own_digest", functools.cache(vars(process_sources)["own_digest"]))
        yield


@pytest.fixture(autouse=True)
def _no_leaked_settings() -> Iterator[None]:
    """Fail a test that leaves jax's configuration, or a mesh in its context, to the tests after it.

    The files that a test loads are watched until it ends: what watches them takes longer with each of them.
    """
    before, watched = _settings(), vars(isolation)["_PROCESS"].files
    loaded = list(watched)
    yield
    file_reads.READS.began = 0  # the command of a test is over
    after = _settings()
    for name in [name for name in watched if name not in loaded]:
        del watched[name]
    isolation.take_notes()  # what the next test's command would print as its own
    take_tracebacks()
    leaked = [f"{name}: {before[name]!r} -> {after[name]!r}" for name in before if after[name] != before[name]]
    if leaked:
        pytest.fail("this test leaves jax changed for those after it: " + "; ".join(leaked), pytrace=False)


def _settings() -> dict[str, Any]:
    import jax

    # Settings that a context manager can change are attributes, the others are only in `values`.
    settings = {name: getattr(jax.config, name, value) for name, value in jax.config.values.items()}
    return {**settings, "mesh in context": jax.sharding.get_abstract_mesh()}

"""The trainings of `samebits bisect pairs` as work: judged as in this process, and a crash is UNTESTABLE."""

import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

from samebits.bisect.endpoints import EndpointsRequest
from samebits.bisect.pairs import judge_here
from samebits.engine.bisect_work import BisectWork, JudgeOnEngine
from samebits.engine.drive import Limits
from samebits.engine.run_work import InProcess
from samebits.engine.work import Chunk, Ended, Event, Executor, ProcessExit, Reached, Started
from samebits.errors import RequestError
from tests.bisect.layered_model import write_tree
from tests.support.invoke import samebits

STEPS = 2


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of four layers."""
    return write_tree(tmp_path_factory.mktemp("layered"))


class Crashing(Executor):
    """Each chunk ends with a signal in its first item."""

    slots = 1

    def __init__(self) -> None:
        self.chunk: Chunk | None = None

    def submit(self, chunk: Chunk) -> None:
        self.chunk = chunk

    def events(self, seconds: float) -> Iterator[tuple[int, Event | Ended]]:
        assert self.chunk is not None
        number, key = self.chunk.number, self.chunk.items[0].key
        yield number, Started(key=key)
        yield number, Reached(key=key, stage="training with it")
        yield number, Ended(ProcessExit(kind="signal", text="SIGSEGV"))

    def kill(self, number: int, loss: ProcessExit) -> None:
        raise AssertionError(loss)

    def close(self) -> None:
        self.chunk = None


@pytest.mark.slow
def test_points_are_judged_as_in_one_process(tree: Path) -> None:
    """Passing and failing ones, over all steps and over fewer, after pickling."""
    request = EndpointsRequest(config="one_wrong", steps=STEPS, root=tree)
    here = judge_here(request)
    work = pickle.loads(pickle.dumps(BisectWork(request)))
    judge = JudgeOnEngine(work, InProcess(work), Limits())
    points = (frozenset({"scale@layer3"}), STEPS), (frozenset({"arrange"}), 1), (frozenset({"scale@layer3"}), 1)
    outcomes = [judge(*point) for point in points]
    assert outcomes == [here(*point) for point in points]
    assert [judgement.outcome for judgement in outcomes] == ["fail", "pass", "fail"]


def test_a_crash_is_untestable(tree: Path) -> None:
    """With the signal and the stage; the next point is asked for as before."""
    work = BisectWork(EndpointsRequest(config="one_wrong", steps=STEPS, root=tree))
    judge = JudgeOnEngine(work, Crashing(), Limits())
    for _ in range(2):
        judgement = judge(frozenset({"scale@layer3"}), STEPS)
        assert judgement.outcome == "untestable"
        assert judgement.detail == "its process ended while training with it: SIGSEGV"


def test_a_wrong_request_ends_the_search(tree: Path) -> None:
    """As it does in one process."""
    work = BisectWork(EndpointsRequest(config="nothing", steps=STEPS, root=tree))
    with pytest.raises(RequestError, match="config 'nothing' is unknown"):
        JudgeOnEngine(work, InProcess(work), Limits())(frozenset(), STEPS)


def test_an_item_names_its_command(tree: Path) -> None:
    """Every judgement of a point has a key of its own."""
    work = BisectWork(EndpointsRequest(config="one_wrong", steps=STEPS, root=tree))
    items = [work.item(frozenset({"b", "a"}), 1, number) for number in (1, 2)]
    assert items[0].key != items[1].key
    assert items[0].replay.endswith(f"--steps {STEPS} --root {tree} --only a,b")


@pytest.mark.slow
def test_a_training_that_aborts_does_not_end_the_search(
    tmp_path: Path, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bad end cannot be judged, and the line says why."""
    monkeypatch.setenv("SAMEBITS_CACHE_DIR", str(tmp_path / "cache"))
    copy = write_tree(tmp_path / "tree")
    file = copy / "optimized_impls" / "scale.py"
    file.write_text(file.read_text().replace("return x * w * (1 + 2**-9)", "__import__('os').abort()"))
    words = ("bisect", "pairs", "--config", "one_wrong", "--root", copy, "--steps", str(STEPS))
    ended = samebits(*words, "--workers", "1")
    assert ended.code == 2
    assert "cannot be judged: its process ended while training with " in ended.err and "SIGABRT" in ended.err

"""`samebits train --detection` as work: each defect is an item, and one that ends its process costs itself alone."""

import json
import pickle
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import pytest

from samebits.engine.train_work import (
    TrainedRun,
    TrainWork,
    assembled,
    detected_by,
    detection_items,
    replay_of,
    train_items,
)
from samebits.engine.work import Finished, Item, ProcessExit
from samebits.errors import DeclarationError, RequestError
from samebits.schema.model import Defect, Model
from samebits.train.detection import Detection, planted
from samebits.train.matrix import MatrixResult, run_matrix
from samebits.train.request import TrainRequest, select
from tests.support.defective_model import MATRIX, RUNS, detected_here, write_defective
from tests.support.invoke import samebits
from tests.support.planted_model import killed_and_resumed
from tests.support.toy_model import toy

STEPS = 3
KEYS = [f"{run} with '{name}'" for name, run in RUNS.items()]
ABORTS_AND_SLEEPS = "os.abort() if name == 'negated' else time.sleep(100_000) if name == 'far too large' else None"
WAITS = "time.sleep(100_000) if name == 'negated' and (HERE / 'wait').exists() else None"


@dataclass(frozen=True, kw_only=True, slots=True)
class Ran:
    """The items of a detection, and their rows: healthy ones of one process, defects of another."""

    request: TrainRequest
    model: Model
    items: dict[str, Item]
    rows: dict[str, TrainedRun]

    def healthy(self) -> MatrixResult:
        """The healthy runs in float32."""
        rows = {run.name: self.rows[run.name] for run in MATRIX.runs}
        return assembled(MATRIX, self.request.tree, {**self.rows, **rows}, 1.0)

    def judged(self, **changes: TrainedRun) -> tuple[Detection, dict[str, str]]:
        """The table, and by name of an item its problem, where rows are others."""
        rows = {**self.rows, **{KEYS[int(number[1:])]: row for number, row in changes.items()}}
        detection, problems = detected_by(self.model.defects(), rows, self.healthy())
        assert {problem.exit_code for problem in problems} <= {3}
        return detection, {problem.pair: problem.message for problem in problems}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Three defects, in two processes as far as the work can tell."""
    request = TrainRequest(matrix="toy", steps=STEPS, root=write_defective(tmp_path_factory.mktemp("train")))
    model, matrix = select(request)
    again = {run.name: replay_of(request, matrix, run) for run in matrix.runs}
    healthy = train_items(request, matrix)
    items = detection_items(matrix, planted(model, matrix), again, again)
    rows: dict[str, TrainedRun] = {}
    for chunk in ([*healthy, *items[:-3]], items[-3:]):
        work = pickle.loads(pickle.dumps(TrainWork(request, cached=False)))
        finished = [event for event in work.run(chunk, 0) if isinstance(event, Finished)]
        rows |= {event.key: msgspec.json.decode(event.rows[0], type=TrainedRun) for event in finished}
        work.close()
    return Ran(request=request, model=model, items={item.key: item for item in items}, rows=rows)


@pytest.mark.slow
def test_the_table_is_that_of_one_process(ran: Ran) -> None:
    """Of runs that never left it, with their states and arrays."""
    assert list(ran.items) == [*(f"{run.name} in bfloat16" for run in MATRIX.runs), *KEYS]
    detection, problems = ran.judged()
    here = detected_here(ran.model, run_matrix(ran.model, MATRIX, ran.request.tree, STEPS), ran.request.tree)
    assert (detection, problems) == (here, {})
    assert [(one.defect, one.config, one.seen[-1], one.step) for one in detection.defects] == [
        (name, run, True, 1) for name, run in RUNS.items()
    ]
    assert (detection.healthy, detection.false_alarms) == ((2, 1, 1, 1, 3, 2), (0,) * 6)


@pytest.mark.slow
def test_a_lost_defect_is_a_problem_and_the_others_are_judged(ran: Ran) -> None:
    """With its name, the stage and the command that plants it again."""
    work = TrainWork(ran.request, cached=False)
    lost = work.lost(ran.items[KEYS[1]], ProcessExit(kind="signal", text="SIGABRT"), "planting it")
    detection, problems = ran.judged(_1=lost)
    assert [one.defect for one in detection.defects] == ["slightly too large", "far too large"]
    again = f"samebits train --config toy/two --steps {STEPS} --root {ran.request.tree} --detection"
    assert problems == {KEYS[1]: f"two with 'negated': its process ended while planting it: SIGABRT; again: {again}"}


def test_a_defect_that_cannot_be_judged_is_a_problem(ran: Ran) -> None:
    """It moves nothing; its process saw another first run; or the healthy row did not run."""
    still = replace(ran.rows[KEYS[0]], run=ran.rows["two"].run)
    detection, problems = ran.judged(_0=still, _1=replace(ran.rows[KEYS[1]], first_bits="others"))
    assert [one.defect for one in detection.defects] == ["far too large"]
    assert problems[KEYS[0]] == "the defect 'slightly too large' changes no bit of two, so it is not a defect"
    assert "config 'one' does not repeat its own bits: they differ in the process that ran 'two'" in problems[KEYS[1]]
    gone = {"twin in bfloat16": TrainedRun(config="twin", error="it is gone", exit_code=3)}
    detection, problems = replace(ran, rows={**ran.rows, **gone}).judged()
    assert [one.defect for one in detection.defects] == ["slightly too large", "negated"]
    assert detection.healthy == (2, 0, 0, 0, 2, 2)
    assert problems == {
        "twin in bfloat16": "it is gone",
        KEYS[2]: "there is no run of 'twin' in bfloat16 without the defect 'far too large' to compare with",
    }


def test_what_can_be_planted_is_known_before_anything_runs(ran: Ran) -> None:
    """Defects of other runs are none of this matrix, and each has a name of its own."""
    with pytest.raises(RequestError, match="no defect is planted into a run of 'toy'; there are some for none"):
        planted(toy(ran.request.tree), MATRIX)
    twice = (Defect(name="twice", run=MATRIX.runs[0]), Defect(name="twice", run=MATRIX.runs[1]))
    with pytest.raises(DeclarationError, match="model 'toy' declares defect 'twice' twice"):
        planted(replace(ran.model, defects=lambda: twice), MATRIX)


@pytest.mark.slow
def test_a_crash_and_a_hang_cost_one_defect_each(tmp_path: Path) -> None:
    """The healthy runs are whole, the other defect is in the table, and the exit code is 3."""
    tree, file = write_defective(tmp_path, ABORTS_AND_SLEEPS), tmp_path / "train.json"
    words = ("train", "--matrix", "toy", "--steps", str(STEPS), "--root", tree, "--json", file, "--detection")
    ended = samebits(*words, "--workers", "2", "--timeout", "25")
    assert ended.code == 3, ended.out + ended.err
    document = json.loads(file.read_text())
    assert [run["config"] for run in document["results"]] == [run.name for run in MATRIX.runs]
    assert [one["defect"] for one in document["detection"]["defects"]] == ["slightly too large"]
    problems = {problem["pair"]: problem["message"] for problem in document["problems"]}
    assert list(problems) == KEYS[1:]
    assert "SIGABRT" in problems[KEYS[1]] and "more than 25 s" in problems[KEYS[2]]
    assert all("planting it, and compiling and running the model with it: " in text for text in problems.values())
    assert all(f"--root {tree} --detection" in text for text in problems.values())
    assert f"pair '{KEYS[1]}'" in ended.err


@pytest.mark.slow
def test_a_killed_detection_goes_on(tmp_path: Path) -> None:
    """What the journal holds is not run again, and the table is that of an undisturbed run."""
    tree = write_defective(tmp_path, WAITS)
    resumed, whole, said = killed_and_resumed(
        tree, "train", "--matrix", "toy", "--steps", str(STEPS), "--detection", entries=7
    )
    assert "resumed: 7 items are in the journal of the interrupted run" in resumed["notes"], said
    assert resumed["detection"] == whole["detection"] and len(whole["detection"]["defects"]) == 3
    assert (resumed["comparisons"], resumed["problems"]) == (whole["comparisons"], [])

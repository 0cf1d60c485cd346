"""`samebits bisect mesh --config`: a planted training, and a fault of the expert exchange in the full model."""

import dataclasses
import inspect
import re
import shlex
import types
from pathlib import Path
from typing import Any

import pytest

from samebits.bisect import mesh_config
from samebits.bisect.mesh_config import ConfigRequest, bisect_config
from samebits.bisect.session import Session
from samebits.host import environment
from samebits.schema.model import Config, Defect, Model, Parts
from tests.support import toy_model
from tests.support.invoke import samebits

environment.prepare()
ROOT = Path(__file__).resolve().parents[3]


def sharded_fault(shards: int, layers: int) -> Model:
    """The toy model, whose gradients are wrong from so many shards and layers on."""

    def build(config: Config, parts: Parts) -> Any:
        del parts
        devices = int(re.sub(r"\D", "", config.mesh))
        wrong = devices >= shards and config.sizes["layers"] >= layers
        return toy_model.training(config, {}, 1.5 if wrong else 1.0)

    honest = toy_model.toy(Path(__file__).parent)
    return dataclasses.replace(honest, build=build, configs=(Config(name="many", mesh="data8", sizes={"layers": 6}),))


@pytest.mark.slow
@pytest.mark.cpu_only
def test_a_training_is_shrunk_to_the_least_shards_and_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrong on four shards or more, with three layers or more."""
    monkeypatch.setattr(mesh_config, "load_model", lambda root: sharded_fault(4, 3))
    toy_model.write_tree(tmp_path / "tree")
    asked = ConfigRequest(config="many", root=tmp_path / "tree")
    found = bisect_config(asked, Session(journal=tmp_path / "journal"))
    assert found.detail == {"mesh": "data4", "sizes": {"layers": 3}, "signature": "step 1"}
    assert "it passes on data2" in found.sentence
    assert next(trial.measures["devices"] for trial in found.trials if trial.outcome == "fail") == 8
    assert re.search(r"element .*: reference=-?\d.*\(0x[0-9a-f]+\), here=", found.witness)
    remembered = bisect_config(asked, Session(journal=tmp_path / "journal"))
    assert (remembered.sentence, remembered.witness) == (found.sentence, found.witness)
    assert all(trial.remembered for trial in remembered.trials)
    again = samebits(*shlex.split(found.replay)[1:], "--journal", tmp_path / "other")
    assert again.code == 1
    few = bisect_config(dataclasses.replace(asked, most=3), Session(journal=tmp_path / "third"))
    assert any("the limit of 3 runs came first" in note for note in few.notes)


EXCHANGE = "back = Exchange(_before(got), got, _row(place, me), sent)"


def _wrong_way_back(parts: Parts) -> Parts:
    """Rows go home to the places that they had at the experts: an error that one shard does not have."""
    module = inspect.getmodule(parts["moe"])
    assert module is not None
    source = inspect.getsource(module)
    assert source.count(EXCHANGE) == 1
    copy = types.ModuleType("faulty_moe")
    copy.__file__ = module.__file__
    edited = source.replace(EXCHANGE, EXCHANGE.replace("place", "first"))
    exec(compile(edited, str(module.__file__), "exec"), copy.__dict__)
    return {**parts, "moe": getattr(copy, parts["moe"].__name__)}


@pytest.mark.slow
@pytest.mark.cpu_only
def test_two_expert_shards_suffice_for_a_fault_of_the_exchange(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of eight: and one shard exchanges nothing, so it passes."""
    from samebits.train.request import load_model

    model = load_model(ROOT)
    sparse = model.all_configs()["moe_parallelism/sparse_ep8"]
    planted = Defect(name="wrong way back", run=sparse, plant=_wrong_way_back)
    monkeypatch.setattr(mesh_config, "load_model", lambda root: dataclasses.replace(model, defects=lambda: (planted,)))
    asked = ConfigRequest(config="moe_parallelism/sparse_ep8", defect="wrong way back", root=ROOT)
    found = bisect_config(asked, Session(journal=tmp_path / "journal"))
    assert found.detail["mesh"] == "expert2", found
    assert "it passes on expert1" in found.sentence
    assert found.detail["sizes"]["experts"] == 4
    assert re.search(r"reference=.* \(.*\), here=", found.witness)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--config", "tinny"), "config 'tinny' is unknown; did you mean tiny"),
        (("--config", "tiny", "--defect", "none"), "defect 'none' is unknown"),
        (("--config", "tiny", "--against", "small"), "config 'small' is unknown"),
        (("--config", "tiny", "--choice", "moe"), "--choice moe: expected PAIR=SIDE"),
        (("--config", "tiny", "--size", "lairs=2"), "'lairs' is unknown; expected some of layers"),
        (("--config", "tiny", "--mesh", "expert3"), "does not divide by 3"),
    ],
)
def test_wrong_requests_are_one_line(words: tuple[str, ...], message: str) -> None:
    ended = samebits("bisect", "mesh", *words, "--root", ROOT)
    assert (ended.code, len(ended.lines)) == (2, 1), ended.err
    assert message in ended.lines[0]

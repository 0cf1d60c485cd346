"""`bisect tensors` and `bisect pairs` on the decoder: its planted defects are located at the right tensor."""

import json
from pathlib import Path
from typing import Any

import pytest

from samebits.host import environment
from tests.support.invoke import REPOSITORY, samebits

environment.prepare()

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("own_cache")]

TINY = ("--config", "tiny", "--mesh", "expert2", "--choice", "moe=sparse")


def found(tmp_path: Path, what: str, *words: str) -> dict[str, Any]:
    path = tmp_path / "found.json"
    ended = samebits("bisect", what, *words, "--root", REPOSITORY, "--json", path)
    assert ended.code == 1, ended.err + ended.out
    finding: dict[str, Any] = json.loads(path.read_text())["finding"]
    return finding


@pytest.mark.parametrize(
    ("defect", "config", "tensor", "faulty"),
    [
        pytest.param("wrong inverse in the unsort", TINY, "output out of moe@layer1", "moe@layer1 is"),
        pytest.param(
            "router gradient dropped",
            TINY,
            "the cotangent of input router of moe@layer2",
            "expert_weight_sum@layer2, called in moe@layer2, is",
        ),
        pytest.param("RMSNorm epsilon 1e-2", TINY, "output value of rms_norm@layer1", "rms_norm@layer1 is"),
        pytest.param(
            "segment ids used as weights",
            (),
            "output gradient/embedding of gradient_accumulation",
            "gradient_accumulation is",
        ),
        pytest.param("positions of the wrong microbatch", (), "output extra of pipeline", "pipeline is"),
        pytest.param(
            "optimizer moments stored in bfloat16", (), "output mu/embedding of optimizer_state", "optimizer_state is"
        ),
    ],
)
def test_the_first_wrong_tensor_of_a_defect(
    tmp_path: Path, defect: str, config: tuple[str, ...], tensor: str, faulty: str
) -> None:
    """Moments in bfloat16 show only where numbers are rounded; everything else in float64."""
    finding = found(tmp_path, "tensors", *config, "--defect", defect)
    assert finding["detail"]["tensor"] == tensor
    assert faulty in finding["sentence"]
    assert finding["detail"]["rounded"] is ("bfloat16" in defect)


def test_a_defect_of_all_layers_has_a_cause_in_each(tmp_path: Path) -> None:
    """Each layer fails alone, and leaving both out passes: two minimal sets, no more."""
    finding = found(tmp_path, "pairs", *TINY, "--defect", "routed output negated", "--steps", "1")
    assert finding["culprits"] == [["moe@layer1"], ["moe@layer2"]]
    assert finding["detail"]["whole"]

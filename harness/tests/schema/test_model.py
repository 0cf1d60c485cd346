"""Configurations of a full model and matrices of them: copies, digests, and error messages."""

import re
from pathlib import Path
from typing import Any

import pytest

from samebits.errors import DeclarationError, MeshError
from samebits.schema.document_claim import Documented
from samebits.schema.model import Config, Defect, Matrix, Model

ONE, TWO = Config(name="one"), Config(name="two", mesh="fsdp2", sizes={"layers": 2}, options={"remat": "full"})
MATRIX = Matrix(name="meshes", about="two meshes", runs=(ONE, TWO))


def model(**changes: Any) -> Model:
    usual: dict[str, Any] = {
        "name": "small",
        "configs": (ONE,),
        "matrices": (MATRIX,),
        "build": lambda config, parts: None,
        "check": lambda config: None,
        "pairs": (),
        "origin": Path(),
    }
    return Model(**{**usual, **changes})


def test_a_copy_merges_what_is_given_by_name() -> None:
    copy = TWO.having(seed=3, sizes={"heads": 4}, options={"remat": "minimal"})
    assert (copy.seed, copy.sizes, copy.options) == (3, {"layers": 2, "heads": 4}, {"remat": "minimal"})
    assert TWO.sizes == {"layers": 2}


def test_a_digest_is_of_every_value_but_the_name() -> None:
    assert TWO.having(name="other").digest() == TWO.digest()
    changed = ({"seed": 1}, {"mesh": "fsdp4"}, {"dtype": "bfloat16"}, {"sizes": {"layers": 3}}, {"choice": {"a": "b"}})
    assert len({TWO.digest(), *(TWO.having(**values).digest() for values in changed)}) == 1 + len(changed)


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({"shard_mode": "manual"}, "config 'one': shard_mode 'manual' is unknown; expected auto or explicit"),
        ({"dtype": "float16"}, "config 'one': dtype 'float16' is unknown; expected float32 or bfloat16"),
        ({"mesh": "fsdp"}, "mesh 'fsdp' is malformed"),
        ({"mesh": "none"}, "config 'one': mesh 'none'; a training run needs one, such as 'data1'"),
    ],
)
def test_a_wrong_configuration_gets_one_line(values: dict[str, Any], line: str) -> None:
    with pytest.raises((DeclarationError, MeshError), match=f"^{re.escape(line)}"):
        Config(name="one", **values)


@pytest.mark.parametrize(
    ("mesh", "single"),
    [("fsdp8", "data1"), ("data2_tensor4", "data1"), ("dp2_tp4", "dp1_tp1"), ("a_b=2:explicit,c=4", "a_b=1,c=1")],
)
def test_on_one_device_a_model_has_axes_that_it_knows(mesh: str, single: str) -> None:
    alone = Config(name="one", mesh=mesh, shard_mode="explicit").on_one_device("alone")
    assert (alone.name, alone.mesh, alone.shard_mode) == ("alone", single, "auto")


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({"runs": (ONE,)}, "matrix 'meshes' has 1 runs; it would compare nothing"),
        ({"runs": (ONE, ONE)}, "matrix 'meshes'"),
        ({"twins": (("one", "three"),)}, "matrix 'meshes': twin 'three' is not one of its runs: one, two"),
        ({"columns": ("los",)}, "matrix 'meshes': column 'los' is unknown; expected some of loss, perplexity"),
    ],
)
def test_a_wrong_matrix_gets_one_line(values: dict[str, Any], line: str) -> None:
    with pytest.raises(DeclarationError, match=f"^{re.escape(line)}"):
        Matrix(**{"name": "meshes", "about": "", "runs": (ONE, TWO), **values})


def test_configurations_and_runs_are_found_by_name() -> None:
    assert model().all_configs() == {"one": ONE, "meshes/one": ONE, "meshes/two": TWO}
    assert MATRIX.run("two") is TWO


def test_a_claim_of_a_model_names_a_command() -> None:
    claim = Documented(id="4.2", document="a design", says="the step is the same")
    with pytest.raises(DeclarationError, match=r"^model 'small', claim '4.2' has no command; write command="):
        model(documented=(claim,))


def test_a_defect_changes_the_options_of_its_run() -> None:
    assert Defect(name="moments", run=TWO, changes={"moments": "bfloat16"}).config.options == {
        "remat": "full",
        "moments": "bfloat16",
    }
    assert Defect(name="none", run=TWO).config is TWO

"""Targets that claims speak of: a pattern that can match none is an error, as a misspelt variant is."""

from typing import Any

import pytest

from samebits.errors import DeclarationError
from samebits.schema.case import Arg, Case
from samebits.schema.compile_statement import VARIANT, Claim
from samebits.schema.pair import Pair
from samebits.schema.real_size import RealSize


def plain(x: Any) -> Any:
    return x * 2


def fused(x: Any) -> Any:
    return x + x


def declared(target: str, *targets: str) -> Pair:
    claim = Claim(shows=VARIANT.while_loops == 0, source="measured", target=target)
    real = RealSize(
        case=Case(id="large", sizes={"rows": 64}), layout="data*", dtype="float32", targets=targets, claims=(claim,)
    )
    return Pair(
        name="rope",
        reference=plain,
        variants={"fused": fused},
        args={"x": Arg(shape=("rows",))},
        cases=(Case(id="small", sizes={"rows": 8}),),
        dtypes=("float32",),
        compiled=(real,),
    )


def test_a_misspelt_target_is_told_what_to_write() -> None:
    with pytest.raises(DeclarationError) as caught:
        declared("tpu7:2x2x1", "cpu", "v5e:2x2")
    assert str(caught.value) == (
        "pair 'rope', real size 'large', claim 'while_loops == 0': target=tpu7:2x2x1 matches nothing; expected some of "
        "cpu, tpu, v5e:2x2, v4:2x2x1, v5e:2x2x1, v5p:2x2x1, v6e:2x2x1, tpu7x:2x2x1; did you mean 'tpu7x:2x2x1'?"
    )


@pytest.mark.parametrize("target", ["v5p:*", "tpu", "*", "new:2x*", "cpu"])
def test_declared_targets_and_known_generations_are_left(target: str) -> None:
    assert declared(target, "v5e:2x2", "new:2x2").compiled[0].claims[0].target == target

"""The error messages of wrong production shapes: what was got, what is expected, what to write."""

from collections.abc import Callable
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from samebits.errors import DeclarationError
from samebits.schema import real_size
from samebits.schema.case import Case
from samebits.schema.compile_statement import VARIANT, Claim
from samebits.schema.meshes import SPELLING
from samebits.schema.real_size import RealSize
from tests.schema import raising

SIZES = {"rows": 8}


def real(**changes: Any) -> RealSize:
    fields: dict[str, Any] = {
        "case": Case(id="large", sizes={"rows": 64}),
        "layout": "data*",
        "dtype": "float32",
        "targets": ("cpu",),
        "tune": {"tile": (8, 16)},
        "tune_sizes": SIZES,
        **changes,
    }
    return RealSize(**fields)


WHERE = "real size 'large'"
WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "targets as text": (
        lambda: real(targets="cpu"),
        f"{WHERE}: targets is the text 'cpu'; expected a tuple, as in ('cpu',)",
    ),
    "no target": (lambda: real(targets=()), f"{WHERE} names no targets; write targets=('tpu7x:2x2x1',)"),
    "malformed target": (
        lambda: real(targets=("cpu", "v5e")),
        f"{WHERE}: target 'v5e' is malformed; expected cpu, cpu:16, or a slice such as v5e:2x2 or tpu7x:4x4x4",
    ),
    "malformed layout": (lambda: real(layout="context"), f"{WHERE}: mesh 'context' is malformed; {SPELLING}"),
    "two stars": (
        lambda: real(layout="context*_fsdp*"),
        f"{WHERE}: layout 'context*_fsdp*' has 2 stars; expected at most one size left open",
    ),
    "claims as a list": (
        lambda: real(claims=[Claim(shows=VARIANT.gathers == 0, source="us")]),
        f"{WHERE}: claims is of type list; expected a tuple, with a comma after a single item",
    ),
    "mode": (lambda: real(mode="manual"), f"{WHERE}: mode 'manual' is unknown; expected some of auto, explicit"),
    "options without a value": (
        lambda: real(options={"fused": {}}),
        f"{WHERE}: options of 'fused' are {{}}; expected {{'name': 'value'}}, both in quotes",
    ),
    "values without their argument": (
        lambda: real(tune=(8, 16)),
        f"{WHERE}: tune is of type tuple; expected a mapping, as in {{'tiling': ((128, 128), (256, 256))}}",
    ),
    "sizes without names": (
        lambda: real(tune_sizes=8),
        f"{WHERE}: tune_sizes is of type int; expected a mapping, as in {{'rows': 512}}",
    ),
    "no small sizes": (
        lambda: real(tune_sizes={}),
        f"{WHERE}: tune_sizes is missing; write tune_sizes={{'rows': 512}} beside it",
    ),
    "small sizes alone": (
        lambda: real(tune={}),
        f"{WHERE}: tune is missing; write tune={{'tiling': ((128, 128), (256, 256))}} beside it",
    ),
    "two arguments": (
        lambda: real(tune={"tile": (8, 16), "block": (1, 2)}),
        f"{WHERE}: tune names tile, block; expected one static argument",
    ),
    "small sizes of another name": (
        lambda: real(tune_sizes={"columns": 8}),
        f"{WHERE}: tune_sizes names columns; expected the names of the case's sizes, rows",
    ),
    "a list of values": (
        lambda: real(tune={"tile": [8, 16]}),
        f"{WHERE}: tune of 'tile' is of type list; expected a tuple, with a comma after a single item",
    ),
    "a value that can change": (
        lambda: real(tune={"tile": ([8, 8], [16, 16])}),
        f"{WHERE}: tune of 'tile' has the value [8, 8], which can change; write it as a tuple",
    ),
    "one value": (
        lambda: real(tune={"tile": (8,)}),
        f"{WHERE}: tune of 'tile' has 1 value; expected at least 2 to choose from",
    ),
    "a value twice": (
        lambda: real(tune={"tile": (8, 16, 8)}),
        f"{WHERE}: tune of 'tile' has the value 8 twice",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_shape_is_told_what_to_write(name: str) -> None:
    call, message = WRONG[name]
    with pytest.raises(DeclarationError) as caught:
        call()
    assert str(caught.value) == message
    assert caught.value.exit_code == 2


def test_every_message_is_in_a_table() -> None:
    assert raising.unreached(real_size, [call for call, _ in WRONG.values()]) == [], "add a row to the table above"


def test_an_honest_sweep_is_accepted_and_frozen() -> None:
    values: dict[str, tuple[int, ...]] = {"tile": (8, 16)}
    found = real(tune=values)
    values["tile"] = (8,)
    assert dict(found.tune) == {"tile": (8, 16)} and dict(found.tune_sizes) == SIZES
    with pytest.raises(TypeError):
        found.tune["tile"] = (8,)  # type: ignore[index]
    with pytest.raises(FrozenInstanceError):
        found.tune = {}  # type: ignore[misc]
    assert not RealSize(case=Case(id="large"), layout="data*", dtype="float32", targets=("cpu",)).tune

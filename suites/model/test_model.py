"""The full model: the options of its configurations, its data, and a few runs; the matrices are slow tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from samebits import Config, DeclarationError, assert_same_bits

from . import MODEL
from .data import batch
from .matrices import ASSEMBLED, MATRICES
from .settings import Settings, settings

WRONG = (
    ({"mesh": "expert8", "sizes": {"experts": 4}}, "experts 4 does not divide by 8, expert, on mesh 'expert8'"),
    ({"mesh": "expert2", "sizes": {"experts": 0}}, "experts is 0 on mesh 'expert2'"),
    (
        {"mesh": "stage2", "sizes": {"microbatches": 3, "batch": 9}, "choice": {"pipeline": "circular"}},
        "microbatches 3 does not divide by 2, the stages, on mesh 'stage2'",
    ),
    ({"mesh": "stage2", "sizes": {"microbatches": 2}}, "choice pipeline 'sequential' on mesh 'stage2'"),
    (
        {"mesh": "context4", "sizes": {"seq": 12}, "options": {"balanced": True}},
        "seq 12 does not divide by 8, 2 x context, on mesh 'context4'",
    ),
    ({"mesh": "tensor4"}, "kv_heads 2 does not divide by 4, tensor, on mesh 'tensor4'"),
    ({"mesh": "data8", "sizes": {"batch": 4}}, "batch 4 does not divide by 8, the batch axes"),
    ({"sizes": {"layers": 3, "repeats": 2}}, "layers 3 does not divide by 2, stages x repeats"),
    ({"sizes": {"top_k": 9}}, "top_k is 9; expected at most the 8 experts"),
    ({"sizes": {"embed": 0}}, "embed is 0; expected at least 1"),
    ({"sizes": {"width": 8}}, "sizes 'width' is unknown; expected some of layers, vocab"),
    ({"options": {"remat": "all"}}, "remat is 'all'; expected none, full, dots"),
    ({"options": {"routing": "hash"}}, "routing is 'hash'; expected softmax, sigmoid, group_limited, random"),
    ({"choice": {"rope": "fast"}}, "choice 'rope' is no pair of this model; expected some of attention"),
    ({"options": {"text": "no-such-file"}, "sizes": {"vocab": 256}}, "text 'no-such-file' is no file; give one with"),
)


@pytest.mark.parametrize(("values", "message"), WRONG)
def test_what_cannot_be_built_is_refused_by_field(values: dict[str, Any], message: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        MODEL.check(Config(name="wrong", **values))
    assert str(caught.value).startswith("config 'wrong': ")
    assert message in str(caught.value)


def test_every_declared_configuration_can_be_built() -> None:
    configs = MODEL.all_configs()
    assert len(configs) == sum(len(matrix.runs) for matrix in MATRICES) + len(MODEL.configs)
    for config in (*configs.values(), *(run for preset in MODEL.presets for run in preset.runs)):
        MODEL.check(config)


def test_a_text_is_read_in_order_and_must_be_long_enough(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_bytes(bytes(range(256)) * 4)
    s = Settings(text=str(text), vocab=256)
    first, second = batch(s, 0, 1), batch(s, 0, 2)
    joined = np.concatenate([first["tokens"].ravel(), second["tokens"].ravel()])
    assert_same_bits(joined, np.arange(joined.size, dtype=np.int32) % 256)
    assert_same_bits(first["targets"].ravel(), np.arange(1, first["targets"].size + 1, dtype=np.int32) % 256)
    text.write_bytes(b"short")
    short = Config(name="short", sizes={"vocab": 256}, options={"text": str(text)})
    with pytest.raises(DeclarationError, match=r"text '.*' has 5 bytes; one batch needs 129"):
        settings(short)
    text.write_bytes(bytes(200))
    with pytest.raises(DeclarationError, match="vocab is 64; a text's bytes need 256"):
        settings(short.having(sizes={"vocab": 64}))


def test_batches_can_show_what_goes_wrong() -> None:
    """Several documents in a row, padding, weights of 0 and positions that no two rows share."""
    made = batch(Settings(), 0, 1)
    again, other = batch(Settings(), 0, 1), batch(Settings(), 0, 2)
    for name, array in made.items():
        assert_same_bits(array, again[name])
        assert (array != other[name]).any()
    assert set(np.unique(made["segments"])) >= {0, 1, 2}
    assert len({tuple(row) for row in made["positions"]}) == len(made["positions"])
    assert (np.diff(made["positions"], axis=1) > 0).all()
    assert set(np.unique(made["weights"])) == {0, 1}
    assert (made["weights"][made["segments"] == 0] == 0).all()
    assert_same_bits(made["tokens"][:, 1:], made["targets"][:, :-1])


def test_defects_are_eighteen_and_each_belongs_to_a_known_run() -> None:
    defects = MODEL.defects()
    names = [defect.name for defect in defects]
    assert len(set(names)) == len(names) == 18
    assert sum(defect.usual for defect in defects) == 10
    known = list(MODEL.all_configs().values())
    assert all(defect.run in known for defect in defects)
    assert {defect.run.name for defect in defects} == {"sparse_ep8", ASSEMBLED.name}

"""Which training steps `samebits prove model` proves, and the options that select one of them again."""

from pathlib import Path

import pytest

from samebits.train.prove_request import ProveRequest, replay_words, steps
from tests.support.toy_model import toy

REQUESTS = (
    ProveRequest(),
    ProveRequest(config="alone", shard_modes=("auto", "explicit")),
    ProveRequest(config="toy/two"),
    ProveRequest(matrix="toy"),
)


@pytest.mark.parametrize("request_made", REQUESTS, ids=["default", "modes", "run of a matrix", "matrix"])
def test_every_step_is_selected_again_by_its_words(request_made: ProveRequest, tmp_path: Path) -> None:
    model = toy(tmp_path)
    for config, defect in steps(model, request_made):
        words = replay_words(model, request_made, config, defect)
        options = dict(zip(words[::2], words[1::2], strict=True))
        again = ProveRequest(
            config=options["--config"],
            meshes=tuple(options[name] for name in ("--mesh",) if name in options),
            shard_modes=tuple(options[name] for name in ("--shard-mode",) if name in options),
        )
        assert steps(model, again) == [(config, defect)]


def test_choices_are_repeated(tmp_path: Path) -> None:
    model = toy(tmp_path)
    ((config, _),) = steps(model, ProveRequest(config="alone"))
    words = replay_words(model, ProveRequest(config="alone", choices=("moe=ring", "norm=fast")), config, None)
    assert words[-4:] == ["--choice", "moe=ring", "--choice", "norm=fast"]

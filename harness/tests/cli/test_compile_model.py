"""`samebits compile model`: the steps of a preset compiled, their document and table, and wrong requests."""

import json
from pathlib import Path

import pytest

from tests.support.invoke import samebits
from tests.support.toy_model import write_tree

SUITE = '''"""A model for tests, with a preset."""

from dataclasses import replace
from pathlib import Path

from samebits import Config, Preset
from tests.support.toy_model import MATRIX, toy, training


def build(config, parts):
    made = training(config, {}, 1.0)
    return replace(made, state_types=made.initial(), batch_types=made.batch(1))


RUNS = (Config(name="whole", mesh="data1"), Config(name="split", mesh="data2"))
PRESET = Preset(name="toy2", about="two runs", target="cpu:1", runs=RUNS, published={"whole": 1e3}, source="nobody")
MODEL = replace(toy(Path(__file__).parent), build=build, presets=(PRESET,))
'''


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = write_tree(tmp_path_factory.mktemp("presets"))
    (root / "suites" / "model" / "__init__.py").write_text(SUITE)
    return root


def test_a_step_is_compiled_and_published(tree: Path, tmp_path: Path) -> None:
    file, page = tmp_path / "steps.json", tmp_path / "steps.md"
    words = ("--case", "whole", "--json", file, "--markdown", page, "--no-cache")
    ended = samebits("compile", "model", "--root", tree, *words)
    assert ended.code == 0, ended.err
    document = json.loads(file.read_text())
    assert (document["schema"], document["command"], document["preset"]) == ("samebits/2", "compile model", "toy2")
    (row,) = document["results"]
    assert (row["config"], row["target"], row["published_bytes"]) == ("whole", "cpu:1", 1e3)
    assert row["facts"]["argument_bytes"] > 0
    assert "whole" in ended.out and "published: nobody" in ended.out
    assert "whole" in page.read_text()


def test_a_mesh_too_large_for_the_target_fails_its_run(tree: Path) -> None:
    ended = samebits("compile", "model", "--root", tree, "--case", "split", "--no-cache")
    assert ended.code == 2
    assert "split" in ended.out + ended.err and "Traceback" not in ended.err


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("--preset", "toy3"), "preset 'toy3' is unknown; did you mean toy2?"),
        (("--case", "hole"), "preset 'toy2' has no run 'hole'; did you mean whole?"),
        (("--target", "cpu", "--target", "v5e:2x2"), "compile model takes one --target"),
        (("--variant", "fast"), "compile model takes --preset, --target and --case"),
    ],
)
def test_a_wrong_request_is_one_line(words: tuple[str, ...], line: str, tree: Path) -> None:
    ended = samebits("compile", "model", "--root", tree, *words)
    assert ended.code == 2
    assert line in ended.lines[-1] and len(ended.lines) == 1

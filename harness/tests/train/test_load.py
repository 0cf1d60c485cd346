"""The full model of a tree is found, and every reason why there is none is one clear line."""

import sys
from pathlib import Path
from typing import Any

import pytest

from samebits.errors import DeclarationError, RequestError, SamebitsError
from samebits.schema.model import Model
from samebits.train.load import load_model
from tests.support.child import ROOT

HEAD = "from __future__ import annotations\nfrom pathlib import Path\nfrom samebits import Model\n"
BODY = (
    "from .parts import CONFIGS\n"
    "def _build(config, parts):\n    from .late import THERE\n    return THERE\n"
    "MODEL = Model(name='other', configs=CONFIGS, matrices=(), build=_build, check=print, pairs=(), "
    "origin=Path(__file__).parent)\n"
)


def tree(root: Path, text: str) -> Path:
    folder = root / "suites" / "model"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(text)
    (folder / "parts.py").write_text("from samebits import Config\nCONFIGS = (Config(name='only'),)\n")
    (folder / "late.py").write_text("from .parts import CONFIGS\nTHERE = CONFIGS\n")
    return root


def test_our_own_model_has_its_own_name() -> None:
    model = load_model(ROOT)
    assert isinstance(model, Model)
    assert sys.modules["suites.model"].MODEL is model


def test_a_model_of_another_tree_imports_relatively(tmp_path: Path) -> None:
    model: Any = load_model(tree(tmp_path, HEAD + BODY))
    assert model.origin == tmp_path / "suites" / "model"
    assert model.build(model.configs[0], {}) is model.configs
    assert load_model(tmp_path) is model


def test_two_trees_do_not_mix(tmp_path: Path) -> None:
    one, two = (load_model(tree(tmp_path / name, HEAD + BODY)) for name in ("a", "b"))
    assert one is not two
    assert one.configs is not two.configs


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        (None, RequestError, "has no full model: write suites/model/__init__.py with MODEL = Model(...)"),
        ("", DeclarationError, "has nothing under the name 'MODEL'; expected MODEL = Model(...)"),
        ("MODEL = 3", DeclarationError, "has a int under the name 'MODEL'; expected MODEL = Model(...)"),
        ("from .missing import x", DeclarationError, "does not import: ModuleNotFoundError: No module named"),
        ("1 +", DeclarationError, "does not import: SyntaxError: invalid syntax ("),
        ("from .parts import nothing", DeclarationError, "does not import: ImportError: cannot import name 'nothing'"),
    ],
)
def test_each_mistake_is_one_line(text: str | None, error: type[SamebitsError], message: str, tmp_path: Path) -> None:
    if text is not None:
        tree(tmp_path, text)
    before = set(sys.modules)
    with pytest.raises(error) as said:
        load_model(tmp_path)
    assert message in str(said.value)
    assert "\n" not in str(said.value)
    assert said.value.exit_code == 2
    if "does not import" in message:  # half a package must not be found by the next look
        assert not [name for name in set(sys.modules) - before if name.startswith("samebits_")]

"""Loads the full model of a tree: `MODEL` in the package `suites/model/`."""

from __future__ import annotations

from pathlib import Path

from samebits.errors import DeclarationError, RequestError
from samebits.host.loading import load_package
from samebits.schema.model import Model

FOLDER = "suites/model"


def load_model(root: Path) -> Model:
    """Return the full model of a tree.

    Args:
        root: the tree, the folder above `suites/`.

    Raises:
        RequestError: the tree has none.
        DeclarationError: its package does not import, or has no `MODEL`.
    """
    folder = root / FOLDER
    if not (folder / "__init__.py").is_file():
        raise RequestError(f"'{root}' has no full model: write {FOLDER}/__init__.py with MODEL = Model(...)")
    model = getattr(load_package(folder), "MODEL", None)
    if not isinstance(model, Model):
        got = "nothing" if model is None else f"a {type(model).__name__}"
        raise DeclarationError(
            f"{folder / '__init__.py'} has {got} under the name 'MODEL'; expected MODEL = Model(...)"
        )
    return model

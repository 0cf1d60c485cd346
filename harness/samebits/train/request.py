"""The full model of a tree, the request of `samebits train`, and the matrix of runs that it selects. No jax."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from samebits.errors import DeclarationError, MeshError, RequestError
from samebits.host.loading import load_package
from samebits.programs.catalogue import default_root, suggest
from samebits.schema.meshes import AXES, MeshSpec
from samebits.schema.model import Config, Defect, Matrix, Model
from samebits.schema.validate import expected

T = TypeVar("T")

REFERENCE = "reference"
"""The name of the run with all references on one device that a configuration is compared with."""


FOLDER = "suites/model"


def load_model(root: Path) -> Model:
    """Return the full model of a tree.

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


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainRequest:
    """The options of `samebits train` that select the runs."""

    matrix: str | None = None
    config: str | None = None
    steps: int = 20
    dtype: str | None = None
    mesh: str | None = None
    shard_mode: str | None = None
    choices: tuple[str, ...] = ()
    text: Path | None = None
    root: Path | None = None

    @property
    def tree(self) -> Path:
        """The tree with the model and its pairs."""
        return self.root or default_root()


def select(request: TrainRequest) -> tuple[Model, Matrix]:
    """Return the model, and the requested matrix.

    Raises:
        RequestError: neither or both of matrix and configuration are given, a name is unknown, or options contradict
            each other.
        DeclarationError: a configuration cannot be built.
    """
    model = load_model(request.tree)
    if (request.matrix is None) == (request.config is None):
        raise RequestError(
            "give --matrix NAME or --config NAME, one of them; matrices are "
            f"{', '.join(matrix.name for matrix in model.matrices)} (samebits train --list shows configurations)"
        )
    if request.matrix is not None:
        for name in ("mesh", "shard_mode"):
            if getattr(request, name) is not None:
                raise RequestError(f"--{name.replace('_', '-')} changes one configuration; give it with --config")
        if request.choices:
            raise RequestError("--choice changes one configuration; give it with --config")
        matrix = named("matrix", request.matrix, {matrix.name: matrix for matrix in model.matrices})
        matrix = replace(matrix, runs=tuple(_changed(run, request) for run in matrix.runs))
    else:
        matrix = _of_config(model, request)
    for run in matrix.runs:
        model.check(run)
    return model, matrix


def _of_config(model: Model, request: TrainRequest) -> Matrix:
    """Return one configuration as a matrix: all references on one device, and the requested configuration."""
    config = _changed(named("config", request.config, model.all_configs()), request)
    if request.mesh is not None:
        require_axes(model, request.mesh)
    changes: dict[str, Any] = {"choice": dict(choice_of(text) for text in request.choices)}
    changes |= {name: getattr(request, name) for name in ("mesh", "shard_mode") if getattr(request, name) is not None}
    config = config.having(**changes)
    name = REFERENCE if config.name != REFERENCE else f"{REFERENCE}_on_one_device"
    alone = replace(config.on_one_device(name), choice={})
    runs: tuple[Config, ...] = (alone, config)
    if request.mesh is not None or MeshSpec.parse(config.mesh).devices > 1:
        here = reference_of(config)
        runs = (alone, here, config) if config.choice and here.choice != config.choice else runs
    twins = ((runs[1].name, config.name),) if len(runs) == 3 else ()
    return Matrix(
        name=config.name, about="one configuration, beside all references on one device", runs=runs, twins=twins,
        columns=("loss", "perplexity", "tokens_per_second_per_device", "step_seconds", "temp_bytes"),
    )  # fmt: skip


def reference_of(config: Config) -> Config:
    """Return a configuration with all parts at their references, except the pipeline if its mesh has stages."""
    kept = {"pipeline": config.choice["pipeline"]} if "pipeline" in config.choice else {}
    choice = kept if MeshSpec.parse(config.mesh).size("stage") > 1 else {}
    return replace(config, name=f"{config.name}_reference", choice=choice)


def _changed(config: Config, request: TrainRequest) -> Config:
    changes: dict[str, Any] = {}
    if request.dtype is not None:
        changes["dtype"] = request.dtype
    if request.text is not None:
        changes["options"] = {"text": str(request.text)}
        changes["sizes"] = {"vocab": 256}
    return config.having(**changes) if changes else config


def require_axes(model: Model, text: str) -> None:
    """Reject a mesh with an axis that the model's state cannot be known to be split over."""
    meshes = [MeshSpec.parse(config.mesh) for config in model.all_configs().values()]
    known = tuple(dict.fromkeys((*AXES, *(axis for mesh in meshes for axis in mesh.names))))
    for axis in MeshSpec.parse(text).names:
        if axis not in known:
            raise MeshError(f"mesh axis '{axis}' is in no configuration of the model; {expected(axis, known)}")


def named(what: str, name: str | None, known: Mapping[str, T]) -> T:
    """Return the value with a name.

    Args:
        what: the kind of thing, for the message.
    """
    if name is None or name not in known:
        raise RequestError(f"{what} '{name}' is unknown; {suggest(str(name), list(known))}")
    return known[name]


def defect_of(model: Model, name: str | None) -> Defect | None:
    """Return the defect of a model with a name; None without a name."""
    return None if name is None else named("defect", name, {defect.name: defect for defect in model.defects()})


def choice_of(text: str) -> tuple[str, str]:
    """Return the pair and side of a `--choice`, which is written `PAIR=SIDE`."""
    name, equals, side = text.partition("=")
    if not equals or not name or not side:
        raise RequestError(f"--choice {text}: expected PAIR=SIDE, as in moe=sparse")
    return name, side

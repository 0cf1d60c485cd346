"""What a user declares about a full model: configurations, matrices of them, planted defects; data without jax.

A model is `MODEL = Model(...)` in the package `suites/model/`. How it is run is in `train`, how a run is published in
`train/trace`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from samebits.errors import DeclarationError
from samebits.schema.document_claim import Documented
from samebits.schema.meshes import MODES, MeshSpec, Mode
from samebits.schema.validate import check_id, check_known, check_tuple, check_unique

Parts = Mapping[str, Callable[..., Any]]
"""The implementations that a configuration chose, by the names of their pairs."""

COLUMNS = ("loss", "perplexity", "tokens_per_second_per_device", "step_seconds", "temp_bytes")
"""What the table of a matrix can show."""

DTYPES = ("float32", "bfloat16")


@dataclass(frozen=True, kw_only=True, slots=True)
class Config:
    """One training run: everything that its numbers depend on, but the environment.

    Args:
        name: in reports and goldens; unique in a matrix.
        mesh: an id of `MeshSpec`, such as `fsdp8`; one device by default.
        shard_mode: `auto` (the default) or `explicit`.
        dtype: of activations; `float32` (the default) or `bfloat16`.
        seed: of the initial parameters and of synthetic data; 0 by default.
        choice: the side used of each pair by name; a pair that is not named uses its reference. `PAIR@SITE` is the
            side at one site alone, such as `moe@layer2`.
        sizes: integers by name; the model defines which.
        options: everything else by name; the model defines which.

    Raises:
        DeclarationError: the name, mesh, mode or dtype is malformed or unknown.
    """

    name: str
    mesh: str = "data1"
    shard_mode: Mode = "auto"
    dtype: str = "float32"
    seed: int = 0
    choice: Mapping[str, str] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_id("config", self.name)
        if not MeshSpec.parse(self.mesh).axes:
            raise DeclarationError(f"config '{self.name}': mesh 'none'; a training run needs one, such as 'data1'")
        if self.shard_mode not in MODES:
            raise DeclarationError(
                f"config '{self.name}': shard_mode '{self.shard_mode}' is unknown; expected {' or '.join(MODES)}"
            )
        if self.dtype not in DTYPES:
            raise DeclarationError(
                f"config '{self.name}': dtype '{self.dtype}' is unknown; expected {' or '.join(DTYPES)}"
            )

    def having(self, **changes: Any) -> Config:
        """Copy it with other values; `choice`, `sizes` and `options` are merged into the present ones."""
        for name in ("choice", "sizes", "options"):
            if name in changes:
                changes[name] = {**getattr(self, name), **changes[name]}
        return replace(self, **changes)

    def on_one_device(self, name: str) -> Config:
        """Return the same training under another name on one device, in auto mode."""
        return self.having(name=name, mesh=MeshSpec.parse(self.mesh).one_device.id, shard_mode="auto")

    def digest(self) -> str:
        """Digest all values but the name."""
        values = {**asdict(self), "name": None}
        return hashlib.sha256(json.dumps(values, sort_keys=True, default=str).encode()).hexdigest()[:16]


@dataclass(frozen=True, kw_only=True, slots=True)
class Matrix:
    """Runs that belong into one table, and which of them are compared with each other.

    Args:
        name: in commands and reports.
        about: one line for `--help` and the report.
        runs: the configurations, at least two; all others are compared with the first.
        twins: `(a, b)` names of runs that are compared beside that: the all-reference run and its all-optimized twin.
        columns: of the table: some of `loss`, `perplexity`, `tokens_per_second_per_device`, `step_seconds` and
            `temp_bytes`; the first three by default.

    Raises:
        DeclarationError: there are fewer than two runs, or a name is repeated or unknown.
    """

    name: str
    about: str
    runs: tuple[Config, ...]
    twins: tuple[tuple[str, str], ...] = ()
    columns: tuple[str, ...] = COLUMNS[:3]

    def __post_init__(self) -> None:
        check_id("matrix", self.name)
        where = f"matrix '{self.name}'"
        check_tuple(where, "runs", self.runs)
        if len(self.runs) < 2:
            raise DeclarationError(f"{where} has {len(self.runs)} runs; it would compare nothing. Write at least two")
        names = tuple(run.name for run in self.runs)
        check_unique(where, "run", names)
        for name in {name for twin in self.twins for name in twin} - set(names):
            raise DeclarationError(f"{where}: twin '{name}' is not one of its runs: {', '.join(names)}")
        check_known(where, "column", self.columns, COLUMNS)

    def run(self, name: str) -> Config:
        """Return the configuration of a run by its name."""
        return next(run for run in self.runs if run.name == name)


@dataclass(frozen=True, kw_only=True, slots=True)
class Defect:
    """A fault to plant into the assembled model, to see which gate catches it.

    Args:
        name: what is wrong, in a few words.
        run: the configuration that it is planted into.
        plant: chosen parts to parts with the fault; what it returns replaces the parts.
        changes: values of the configuration that the fault needs changed (a dtype of the moments).
        usual: one of the ten defects of which it is published what usual gates see.
        mathematics: whether the formulas change; rounding more often does not.
    """

    name: str
    run: Config
    plant: Callable[[Parts], Parts] = dict
    changes: Mapping[str, Any] = field(default_factory=dict)
    usual: bool = False
    mathematics: bool = True

    @property
    def config(self) -> Config:
        """Return the configuration that runs with the defect in it."""
        return self.run.having(options=dict(self.changes)) if self.changes else self.run


@dataclass(frozen=True, kw_only=True, slots=True)
class Preset:
    """Configurations of production shape, that are compiled and never run.

    Args:
        name: in commands and reports.
        about: one line on what they are.
        target: what they are compiled for unless the command names another.
        runs: the configurations, side by side; the first is the one that ratios refer to.
        published: by the run's name, the bytes per device that its source reports.
        source: of the published figures.
        remarks: what is known of the distance.
    """

    name: str
    about: str
    target: str
    runs: tuple[Config, ...]
    published: Mapping[str, float] = field(default_factory=dict)
    source: str = ""
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Training:
    """A model built for one configuration: pure functions on trees of arrays.

    Args:
        initial: returns the state before the first step, in NumPy: `{"parameters": {leaf: array}, ...}`; unsharded.
        batch: the global batch of a step (counted from 1), in NumPy, rows first.
        step: `(state, batch) -> (state, {"loss": scalar, "perplexity": scalar, "gradients": {leaf: array}})`, traced
            under the mesh.
        state_spec: the mesh axes of each array of the state, in a tree of the same form.
        batch_spec: the mesh axes of each array of a batch, likewise.
        tokens: how many tokens a batch has.
        state_types: shapes and dtypes of the state, for presets, of which no array is made; None otherwise.
        batch_types: shapes and dtypes of a batch, likewise.
    """

    initial: Callable[[], Any]
    batch: Callable[[int], Mapping[str, Any]]
    step: Callable[[Any, Any], tuple[Any, Any]]
    state_spec: Any
    batch_spec: Any
    tokens: int
    state_types: Any = None
    batch_types: Any = None


def _same(config: Config) -> Config:
    return config


def _no_sites(config: Config) -> Mapping[str, tuple[str, ...]]:
    return {}


@dataclass(frozen=True, kw_only=True, slots=True)
class Model:
    """A full model, assembled from pairs by name.

    Args:
        name: in reports.
        configs: configurations that `--config` accepts beside the runs of all matrices.
        matrices: what `--matrix` accepts.
        build: a function from a configuration and its parts to a `Training`.
        check: raises a `DeclarationError` for a configuration that cannot be built; starts no jax.
        pairs: the names of the pairs that `choice` may name.
        presets: what `compile model` accepts.
        defects: returns the defects that `--detection` and the tests plant; none by default.
        sites: of a configuration, by the names of pairs that are used more than once: where each is used, in the
            order of execution (`layer1`, `layer2`, ...); `choice` may name a side for one of them, as `PAIR@SITE`.
        smallest: a function from a configuration to the same at the smallest sizes at which a proof of it says
            something.
        documented: claims of design documents that a whole command stands for, for `samebits audit claims`.
        origin: the folder of the model.

    Raises:
        DeclarationError: a name is malformed or repeated, or a documented claim has no command.
    """

    name: str
    configs: tuple[Config, ...]
    matrices: tuple[Matrix, ...]
    build: Callable[[Config, Parts], Training]
    check: Callable[[Config], None]
    pairs: tuple[str, ...]
    presets: tuple[Preset, ...] = ()
    defects: Callable[[], tuple[Defect, ...]] = tuple
    sites: Callable[[Config], Mapping[str, tuple[str, ...]]] = _no_sites
    smallest: Callable[[Config], Config] = _same
    documented: tuple[Documented, ...] = ()
    origin: Path

    def __post_init__(self) -> None:
        check_id("model", self.name)
        check_unique(f"model '{self.name}'", "matrix", tuple(matrix.name for matrix in self.matrices))
        check_unique(f"model '{self.name}'", "claim", tuple(claim.id for claim in self.documented))
        for claim in self.documented:
            if not claim.command:
                raise DeclarationError(
                    f"model '{self.name}', claim '{claim.id}' has no command; write command=('prove', 'model', ...)"
                )

    def all_configs(self) -> dict[str, Config]:
        """Return every configuration by name; runs of matrices are `MATRIX/RUN`."""
        named = {config.name: config for config in self.configs}
        return named | {f"{matrix.name}/{run.name}": run for matrix in self.matrices for run in matrix.runs}

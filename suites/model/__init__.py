"""A small but complete decoder, assembled from the pairs by name, that `samebits train` trains.

Where to look: `settings` what a configuration may say, `decoder` the model itself, `layout` how arrays lie on meshes,
`step` one training step, `data` the batches, `matrices` the configurations, `defects` the planted faults.
"""

from __future__ import annotations

from pathlib import Path

from samebits import Config, Defect, Model, Parts, Training

from .documented import DOCUMENTED
from .matrices import CONFIGS, MATRICES
from .presets import PRESETS
from .settings import PAIRS, settings, sites, smallest


def _build(config: Config, parts: Parts) -> Training:
    from .step import build

    return build(config, parts)


def _defects() -> tuple[Defect, ...]:
    from .defects import DEFECTS

    return DEFECTS


def _check(config: Config) -> None:
    settings(config)


MODEL = Model(
    name="decoder",
    configs=CONFIGS,
    matrices=MATRICES,
    build=_build,
    check=_check,
    pairs=PAIRS,
    presets=PRESETS,
    defects=_defects,
    sites=sites,
    smallest=smallest,
    documented=DOCUMENTED,
    origin=Path(__file__).parent,
)

"""The good and the bad training configuration of a bisection: their differences, and any mixture of the two. No jax."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from samebits.bisect.session import option_words
from samebits.errors import RequestError
from samebits.programs.catalogue import Locator, default_root, load
from samebits.schema.model import Config, Defect, Model, Parts
from samebits.train.parts import chosen_parts, pair_of, side_at
from samebits.train.request import choice_of, defect_of, load_model, named, reference_of, require_axes

FIELDS = ("mesh", "shard_mode", "dtype")
"""Fields in which two configurations may differ, besides their choices and options."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EndpointsRequest:
    """The options of a bisection between two trainings."""

    config: str | None = None
    against: str | None = None
    choices: tuple[str, ...] = ()
    mesh: str | None = None
    shard_mode: str | None = None
    defect: str | None = None
    steps: int = 20
    root: Path | None = None

    def words(self) -> list[str]:
        """Return the options as command-line words."""
        return option_words(
            **{name: getattr(self, name) for name in ("config", "against", "mesh", "shard_mode", "defect")},
            choice=self.choices,
            steps=None if self.steps == 20 else self.steps,
            root=self.root,
        )


@dataclass(frozen=True, kw_only=True)
class Endpoints:
    """A good and a bad training configuration.

    Args:
        model, root: the model, and the tree that holds its parts.
        defect: planted into the parts of the bad configuration, if given.
    """

    model: Model
    root: Path
    good: Config
    bad: Config
    defect: Defect | None = field(default=None)

    @cached_property
    def _planted(self) -> tuple[Parts, Parts]:
        """The parts of the bad configuration, without and with the defect."""
        parts = chosen_parts(self.model, self.bad, self.root)
        return parts, self.defect.plant(parts) if self.defect is not None else parts

    def names(self) -> list[str]:
        """Return every place where a part is used: `embedding`, `moe@layer1`, `moe@layer2`."""
        sites = self.model.sites(self.bad)
        return [
            name for pair in self.model.pairs for name in ([f"{pair}@{at}" for at in sites.get(pair, ())] or [pair])
        ]

    def differing(self) -> dict[str, str]:
        """Return the differences, each with a description: sites of parts first, then fields, then options."""
        if dict(self.good.sizes) != dict(self.bad.sizes):
            raise RequestError(
                f"{self.good.name} and {self.bad.name} have different sizes, so their losses cannot be compared"
            )
        before, after = self._planted
        differences = {}
        for name in self.names():
            good, bad = self._side(self.good, name), self._side(self.bad, name)
            if _part_at(before, name) is not _part_at(after, name):
                assert self.defect is not None
                differences[name] = f"{bad} with the fault '{self.defect.name}'"
            elif good != bad:
                differences[name] = f"{bad} in place of {good}"
        for name in FIELDS:
            good, bad = str(getattr(self.good, name)), str(getattr(self.bad, name))
            if good != bad:
                differences[name] = f"{bad} in place of {good}"
        for name in sorted({*self.good.options, *self.bad.options}):
            if self.good.options.get(name) != self.bad.options.get(name):
                good, bad = (side.options.get(name, "the default") for side in (self.good, self.bad))
                differences[f"option:{name}"] = f"{bad} in place of {good}"
        if not differences:
            raise RequestError(f"{self.good.name} and {self.bad.name} do not differ; there is nothing to bisect")
        return differences

    def mixture(self, taken: frozenset[str]) -> tuple[Config, Defect | None]:
        """Return the good configuration with some differences taken from the bad one, and the defect at those sites."""
        before, after = self._planted
        choice = {name: self._side(self.bad if name in taken else self.good, name) for name in self.names()}
        sited = self.model.sites(self.bad)
        choice |= {pair: self._side(self.good, f"{pair}@{sited[pair][0]}") for pair in sited}
        fields: dict[str, Any] = {name: getattr(self.bad if name in taken else self.good, name) for name in FIELDS}
        options = {}
        for name in (*self.good.options, *self.bad.options):
            side = self.bad if f"option:{name}" in taken else self.good
            if name in side.options:
                options[name] = side.options[name]
        config = replace(self.good, name="mixture", choice=choice, options=options, **fields)
        faulty = [name for name in taken if "@" in name or name in self.model.pairs]
        faulty = [name for name in faulty if _part_at(before, name) is not _part_at(after, name)]
        if not faulty:
            return config, None
        plant = _replaced_parts(after, faulty)
        return config, Defect(name="mixture", run=config, plant=plant)

    def good_side(self, name: str) -> str:
        """Return the implementation that the good configuration has at a site."""
        return self._side(self.good, name)

    def _side(self, config: Config, name: str) -> str:
        pair = load(Locator(name=pair_of(name), root=str(self.root)))
        return side_at(config, name, pair.reference_name)


def endpoints_of(request: EndpointsRequest) -> Endpoints:
    """Return the two configurations that a request names.

    Without `--against`, the good one is the bad one with every part replaced by its reference, on the same mesh.

    Raises:
        RequestError: a name is unknown, or options contradict each other.
        DeclarationError: a configuration cannot be built.
    """
    root = request.root or default_root()
    model = load_model(root)
    known = model.all_configs()
    defect = defect_of(model, request.defect)
    if request.config is None and defect is None:
        raise RequestError("give --config NAME, the training that differs (samebits train --list shows them)")
    bad = defect.config if request.config is None and defect else named("config", request.config, known)
    changes: dict[str, Any] = {"choice": dict(choice_of(text) for text in request.choices)}
    changes |= {name: getattr(request, name) for name in ("mesh", "shard_mode") if getattr(request, name) is not None}
    if defect is not None and request.config is not None:
        changes["options"] = dict(defect.changes)
    bad = bad.having(**changes)
    if request.against is not None:
        good = named("config", request.against, known)
    elif defect is not None:
        good = replace(bad, options={name: x for name, x in bad.options.items() if name not in defect.changes})
    else:
        good = reference_of(bad)
    for config in (good, bad):
        model.check(config)
    require_axes(model, bad.mesh)
    return Endpoints(model=model, root=root, good=good, bad=bad, defect=defect)


def _replaced_parts(parts: Parts, names: list[str]) -> Callable[[Parts], Parts]:
    return lambda others: {**others, **{name: _part_at(parts, name) for name in names}}


def _part_at(parts: Parts, name: str) -> Callable[..., Any]:
    return parts[name] if name in parts else parts[pair_of(name)]

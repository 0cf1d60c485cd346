"""Finds the implementations that a configuration chooses, by the names of their pairs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from samebits.errors import DeclarationError
from samebits.host.environment import platform_of_results
from samebits.programs.catalogue import Locator, load, suggest
from samebits.programs.implementations import implementation
from samebits.schema.model import Config, Model

SAME_RUN = "the same configuration, run twice"
"""Why two runs of one configuration must have equal bits."""


def chosen_parts(model: Model, config: Config, root: Path) -> dict[str, Callable[..., Any]]:
    """Return the chosen function of every pair of a model, and of every site with a choice of its own.

    Args:
        model: the model, which names its pairs.
        config: its `choice` names sides; pairs without a choice use their reference.
        root: the tree with the pairs.

    Raises:
        DeclarationError: a pair or a side is unknown.
    """
    parts = {}
    check_sites(model, config)
    for name in (*model.pairs, *(name for name in config.choice if "@" in name)):
        pair = load(Locator(name=pair_of(name), root=str(root)))
        side = config.choice.get(name, pair.reference_name)
        if side not in pair.sides:
            raise DeclarationError(
                f"config '{config.name}': choice {name}='{side}' is not a side of that pair; "
                f"{suggest(side, list(pair.sides))}"
            )
        parts[name] = implementation(pair, side)
    return parts


def pair_of(name: str) -> str:
    """Return the pair of a name in `choice`: `moe` for `moe@layer2`."""
    return name.partition("@")[0]


def check_sites(model: Model, config: Config) -> None:
    """Check that every choice names a pair of the model, and a site where it is used.

    Raises:
        DeclarationError: one does not.
    """
    sites = model.sites(config)
    for name in config.choice:
        pair, at, site = name.partition("@")
        if pair not in model.pairs:
            known = suggest(pair, list(model.pairs)) if model.pairs else "it has none"
            raise DeclarationError(f"config '{config.name}': choice '{name}' is not a pair of the model; {known}")
        if at and site not in sites.get(pair, ()):
            known = ", ".join(sites.get(pair, ())) or "none; it is used once"
            raise DeclarationError(
                f"config '{config.name}': choice '{name}' names a site that {pair} does not have; its sites are {known}"
            )


def expected_verdict(a: Config, b: Config, root: Path) -> tuple[str, str]:
    """Return the verdict that the contracts of the parts promise for two runs, `bitwise` or `rounding`, and the reason.

    Equal bits are promised if only sides differ, and the contracts promise them for each differing side. Another mesh
    or shard mode changes the order of sums.
    """
    from samebits.train.promises import promises_bits

    if a.digest() == b.digest():
        return "bitwise", SAME_RUN
    fixed = [name for name in ("mesh", "shard_mode", "dtype", "seed") if getattr(a, name) != getattr(b, name)]
    fixed += [name for name in ("sizes", "options") if dict(getattr(a, name)) != dict(getattr(b, name))]
    if fixed:
        return "rounding", f"another {' and '.join(fixed)}"
    weak = []
    for name in sorted({*a.choice, *b.choice}):
        pair = load(Locator(name=pair_of(name), root=str(root))).on(platform_of_results())
        sides = {side_at(config, name, pair.reference_name) for config in (a, b)}
        if len(sides) > 1 and not promises_bits(pair, {pair.reference_name, *sides}, a):
            weak.append(name)
    return ("rounding", f"contracts of {', '.join(weak)}") if weak else ("bitwise", "contracts of all parts")


def side_at(config: Config, name: str, otherwise: str) -> str:
    """Return the side that a configuration uses of a pair, or at one site of it."""
    return config.choice.get(name, config.choice.get(pair_of(name), otherwise))

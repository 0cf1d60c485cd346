"""The implementations that a configuration chose, found by the names of their pairs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from samebits.errors import DeclarationError
from samebits.programs.catalogue import Locator, load, suggest
from samebits.programs.implementations import implementation
from samebits.schema.model import Config, Model


def chosen_parts(model: Model, config: Config, root: Path) -> dict[str, Callable[..., Any]]:
    """The function of every pair that the model is assembled from, and of every site that is chosen apart.

    Args:
        model: it names its pairs.
        config: its `choice` names sides; a pair that it leaves out uses its reference.
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
                f"config '{config.name}': choice {name}='{side}' is no side of that pair; "
                f"{suggest(side, list(pair.sides))}"
            )
        parts[name] = implementation(pair, side)
    return parts


def pair_of(name: str) -> str:
    """The pair that a name in `choice` speaks of: `moe` of `moe@layer2`."""
    return name.partition("@")[0]


def check_sites(model: Model, config: Config) -> None:
    """Refuse a choice of a pair that the model has not, or of a site where it is not used.

    Raises:
        DeclarationError: there is one.
    """
    sites = model.sites(config)
    for name in config.choice:
        pair, at, site = name.partition("@")
        if pair not in model.pairs:
            raise DeclarationError(
                f"config '{config.name}': choice '{name}' is no pair of the model; {suggest(pair, list(model.pairs))}"
            )
        if at and site not in sites.get(pair, ()):
            known = ", ".join(sites.get(pair, ())) or "none; it is used once"
            raise DeclarationError(
                f"config '{config.name}': choice '{name}' names a site that {pair} has not; its sites are {known}"
            )


def expected_verdict(a: Config, b: Config, root: Path) -> tuple[str, str]:
    """What the contracts of the parts promise about two runs: `bitwise` or `rounding`, and why.

    Bits are promised where nothing but sides differ, and the contracts in force promise them of each differing side.
    Another mesh or shard mode adds numbers up in another order.
    """
    from samebits.train.promises import promises_bits

    fixed = [name for name in ("mesh", "shard_mode", "dtype", "seed") if getattr(a, name) != getattr(b, name)]
    fixed += [name for name in ("sizes", "options") if dict(getattr(a, name)) != dict(getattr(b, name))]
    if fixed:
        return "rounding", f"another {' and '.join(fixed)}"
    weak = []
    for name in sorted({*a.choice, *b.choice}):
        pair = load(Locator(name=pair_of(name), root=str(root)))
        sides = {side_at(config, name, pair.reference_name) for config in (a, b)}
        if len(sides) > 1 and not promises_bits(pair, {pair.reference_name, *sides}, a):
            weak.append(name)
    return ("rounding", f"contracts of {', '.join(weak)}") if weak else ("bitwise", "contracts of all parts")


def side_at(config: Config, name: str, otherwise: str) -> str:
    """The side that a configuration uses of a pair, or at one site of it."""
    return config.choice.get(name, config.choice.get(pair_of(name), otherwise))

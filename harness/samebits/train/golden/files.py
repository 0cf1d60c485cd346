"""Reads and writes goldens (atomically, by `samebits.host.sealed_file`), whose rules are verified each time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec

from samebits.errors import DeclarationError
from samebits.host.environment import Environment
from samebits.host.sealed_file import Sealed
from samebits.schema.json_text import content_digest
from samebits.schema.model import Model
from samebits.train.golden.record import SCHEMA, WINDOW, Golden, GoldenEvidence, GoldenStep, recorded_steps


def broken_rule(golden: Golden) -> str | None:
    """Return the first broken rule of a golden, as one line that names the field; None if all hold."""
    return next(_broken(golden), None)


def _broken(golden: Golden) -> Iterator[str]:
    if golden.window < WINDOW:
        yield f"window is {golden.window} steps; expected at least {WINDOW}"
    if [step.step for step in golden.steps] != list(range(1, golden.window + 1)):
        yield f"steps are not 1 to {golden.window}, as window says"
    if golden.environment_digest != golden.environment.digest():
        yield f"environment_digest is not that of environment ({golden.environment.digest()})"
    yield from _steps(golden)
    yield from _evidence(golden.evidence, golden)
    for place, acceptance in (
        ("accepted", golden.accepted),
        *((f"history[{i}]", x) for i, x in enumerate(golden.history)),
    ):
        for name in ("date", "commit", "author", "reason", "last_loss"):
            if not getattr(acceptance, name).strip():
                yield f"{place}.{name} is empty; it is mandatory"


def _steps(golden: Golden) -> Iterator[str]:
    kept, names = recorded_steps(golden.window), golden.steps[0].leaves.keys() if golden.steps else ()
    for index, step in enumerate(golden.steps):
        place = f"steps[{index}]"
        yield from _numbers(step, place)
        if step.step in kept and not step.leaves:
            yield f"{place}.leaves is empty; at step {step.step} every array is recorded"
        if step.step in kept and step.leaves.keys() != names:
            yield f"{place}.leaves are not those of steps[0]: {sorted(step.leaves.keys() ^ names)[0]}"
        for name, leaf in step.leaves.items():
            if not (math.isfinite(leaf.l1) and math.isfinite(leaf.l2)):
                yield f"{place}.leaves.{name} is not finite"


def _numbers(step: GoldenStep, place: str) -> Iterator[str]:
    for name in ("loss", "perplexity", "grad_norm", "param_norm"):
        pair = name in ("loss", "perplexity")
        try:
            exact = float.fromhex(getattr(step, f"{name}_hex" if pair else name))
        except (ValueError, OverflowError):
            yield f"{place}.{name}{'_hex' if pair else ''} is not a hexadecimal float"
            continue
        if not math.isfinite(exact):
            yield f"{place}.{name} is not finite"
        elif pair and exact != getattr(step, name):
            yield f"{place}.{name} is {getattr(step, name)!r} and {name}_hex says {exact!r}"


def _evidence(evidence: GoldenEvidence, golden: Golden) -> Iterator[str]:
    if not evidence.seen:
        yield "evidence.seen is empty; the environment of the run itself belongs there"
    if evidence.runs < 3:
        yield f"evidence.runs is {evidence.runs}; a spread needs at least 3"
    for kind in ("loss", "perplexity"):
        spread, bound = getattr(evidence, f"{kind}_spread"), getattr(evidence, f"{kind}_bound")
        for name, values in ((f"{kind}_spread", spread), (f"{kind}_bound", bound)):
            if len(values) != golden.window:
                yield f"evidence.{name} has {len(values)} numbers; expected one per step, {golden.window}"
        for index, (noise, limit) in enumerate(zip(spread, bound, strict=False)):
            if limit < noise:
                yield (
                    f"evidence.{kind}_bound[{index}] is {limit} ulps, tighter than the spread of {noise} seen at step "
                    f"{index + 1}"
                )
    leaves = golden.steps[0].leaves if golden.steps else {}
    for name in leaves:
        if name not in evidence.leaf_bound or name not in evidence.leaf_spread:
            yield f"evidence.leaf_bound has no '{name}'"
        elif not evidence.leaf_bound[name] >= evidence.leaf_spread[name]:
            yield (
                f"evidence.leaf_bound.{name} is {evidence.leaf_bound[name]:.3g}, tighter than the spread of "
                f"{evidence.leaf_spread[name]:.3g}"
            )


FOLDER = "goldens"


class DamagedGolden(DeclarationError):
    """The file of a golden is damaged: truncated, edited by hand, or of another schema."""


def golden_path(model: Model, here: Environment, matrix: str, config: str) -> Path:
    """Return the file of a golden."""
    return model.origin / FOLDER / here.folder / f"{_stem(matrix, config)}.json"


def require_own_name(path: Path, golden: Golden) -> None:
    """Reject a golden that is in the file of another."""
    if path.stem != _stem(golden.matrix, golden.config):
        expected = path.stem.replace("__", "/", 1)
        raise DamagedGolden(f"golden {path}: config is '{golden.name}'; expected '{expected}', as in the file's name")


def _stem(matrix: str, config: str) -> str:
    return f"{matrix}__{config}" if matrix else config


def golden_paths(model: Model, platform: str | None = None) -> list[Path]:
    """Return the files of all goldens of one platform, or of all; drafts are hidden files and do not count."""
    paths = (model.origin / FOLDER).glob(f"{platform or '*'}/*.json")
    return sorted(path for path in paths if not path.name.startswith("."))


_FILES = Sealed(
    what="golden",
    kind=Golden,
    schema=SCHEMA,
    damaged=DamagedGolden,
    command="samebits golden accept",
    broken=broken_rule,
)


def read_golden(path: Path) -> Golden:
    """Read and verify a golden.

    Raises:
        DamagedGolden: it is truncated, edited, of another schema, or breaks a rule; the message names the field.
        CouldNotRun: it cannot be read.
    """
    return _FILES.read(path)


def sealed(golden: Golden) -> Golden:
    """Return a golden with the digest of its content.

    Raises:
        DamagedGolden: it breaks a rule.
    """
    broken = broken_rule(golden)
    if broken:
        raise DamagedGolden(f"golden '{golden.name}' is not written: {broken}")
    return replace(golden, content=content_digest(msgspec.to_builtins(golden)))


def write_golden(path: Path, golden: Golden) -> None:
    """Write a golden atomically; call it inside `locked(path.parent)`.

    Raises:
        DamagedGolden: it breaks a rule.
        CouldNotRun: the file cannot be written; the old one is unchanged.
    """
    _FILES.write(path, sealed(golden))

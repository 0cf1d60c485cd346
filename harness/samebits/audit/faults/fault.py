"""Planted faults as data: an edit of an implementation or a patch of samebits, and what the check makes of it.

A tree has one file of them for each pair in `suites/faults/`, each with a constant `FAULTS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from samebits.errors import DeclarationError, RequestError
from samebits.host.loading import load_file
from samebits.programs.plan import Request
from samebits.schema.result import VERDICTS


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """A fault that the public check must catch.

    Args:
        name: what went wrong, in a few words.
        pair: the pair whose implementation is edited; for a fault of samebits itself, the one on which it shows.
        side: the edited side, or the side on which it shows.
        old: the text that is replaced; it occurs exactly once in the file of that side. Several edits are a tuple.
        new: the text in its place; as many as `old`.
        patch: for a fault of samebits itself: `module:attribute` and what it is replaced by.
        request: where to look; the honest implementation must pass there. Everything by default.
        verdict: the verdict that must come out, or the name of the exception that must be raised; `different` by
            default.
        kind: the class of difference that must be among those found; None, the default, takes any.
        slow: whether only the slow tests plant it; `samebits audit faults` always does.

    Raises:
        DeclarationError: the verdict is neither one of `VERDICTS` nor the name of an exception.
    """

    name: str
    pair: str
    side: str
    old: str | tuple[str, ...] = ()
    new: str | tuple[str, ...] = ()
    patch: tuple[str, Callable[..., Any]] | None = None
    request: Request = field(default_factory=Request)
    verdict: str = "different"
    kind: str | None = None
    slow: bool = False

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS and not (self.verdict.isidentifier() and self.verdict[0].isupper()):
            raise DeclarationError(
                f"fault '{self.name}' of '{self.pair}': verdict={self.verdict!r}; expected one of "
                f"{', '.join(VERDICTS)}, or the name of an exception"
            )

    @property
    def expected(self) -> str:
        """The verdict and the class of difference that must come out, in words."""
        return f"{self.verdict} ({self.kind})" if self.kind else self.verdict


@dataclass(frozen=True, kw_only=True, slots=True)
class FaultRow:
    """One planted fault, and the result of its check; published, so keys keep their meaning.

    Args:
        pair, side, fault: what was planted where.
        expected: the verdict (and class of difference), or the exception, that must come out.
        caught: whether it came out.
        by: what caught it: `contract`, or `snapshot`, the honest implementation's verdicts in this environment, where
            the contract accepts the result.
        honest: whether the honest implementation passes at the same points.
        said: the first relevant line of the check; that of the honest implementation where that fails.
        results, failed: how many results there were, and how many failed.
        error: why the check did not come to its end, as where its process crashed; then the fields above mean nothing.
    """

    pair: str
    side: str
    fault: str
    expected: str
    caught: bool
    honest: bool
    said: str
    results: int
    failed: int
    by: str = "contract"
    error: str | None = None

    @classmethod
    def of(cls, fault: Fault, *, caught: bool, honest: bool, said: str, **more: Any) -> FaultRow:
        """Return the row of a fault."""
        what = {"pair": fault.pair, "side": fault.side, "fault": fault.name, "expected": fault.expected}
        return cls(**{"results": 0, "failed": 0, **what, **more}, caught=caught, honest=honest, said=said)

    @classmethod
    def without_answer(cls, fault: Fault, error: str) -> FaultRow:
        """Return the row of a fault whose check did not come to its end."""
        return cls.of(fault, caught=False, honest=False, said=error, by="", error=error)


FOLDER = Path("suites") / "faults"


def all_faults(root: Path) -> list[Fault]:
    """Return every planted fault of a tree, file by file."""
    files = sorted(path for path in (root / FOLDER).glob("*.py") if not path.stem.startswith("_"))
    if not files:
        raise RequestError(f"'{root}' plants no faults: expected files with FAULTS = (Fault(...), ...) in {FOLDER}/")
    return [fault for path in files for fault in _faults_of(path)]


def _faults_of(path: Path) -> tuple[Fault, ...]:
    faults = getattr(load_file(path), "FAULTS", None)
    if not isinstance(faults, tuple) or not faults or not all(isinstance(fault, Fault) for fault in faults):
        raise DeclarationError(f"{path} has no faults; expected FAULTS = (Fault(...), ...)")
    return faults

"""Claims of a declaration about the compiled programs of its sides, each with its source."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from samebits.errors import DeclarationError
from samebits.schema.compile_statement import EXAMPLES, Statement
from samebits.schema.target import Target


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """One statement about a compiled variant, checked like a contract.

    Args:
        shows: a comparison of figures of the compiled sides, such as `VARIANT.while_loops == 0`,
            `VARIANT.temp_bytes <= 17e6` (bytes), `VARIANT.temp_bytes <= 0.02 * REFERENCE.temp_bytes`,
            `VARIANT.collectives == {"collective-permute": 2}` or `VARIANT.program == compiled_side("gather").program`.
        source: who says so: a pull request, a paper, or a measurement of one's own.
        variant: a shell pattern of the variants that it applies to; all by default, as with the three below.
        direction: `forward` or `gradient`.
        target: a target such as `tpu7x:*`; `tpu` or `cpu` is every target of that kind. It must match a
            declared target, or fit a known generation.
        versions: of libtpu (of jaxlib for the CPU).
        finding: for a claim that does *not* hold: what was found, with its numbers. It must then come out false.

    Raises:
        DeclarationError: `shows` is not a statement, or source or finding are empty.
    """

    shows: Statement
    source: str
    variant: str = "*"
    direction: str = "*"
    target: str = "*"
    versions: str = "*"
    finding: str | None = None

    def __post_init__(self) -> None:
        shows: object = self.shows  # of any type where no type checker runs
        if not isinstance(shows, Statement):
            got = f"{type(shows).__name__} {shows!r}"
            raise DeclarationError(f"Claim(shows=...) is {got}; expected a comparison such as {EXAMPLES}")
        if not self.source.strip() or (self.finding is not None and not self.finding.strip()):
            raise DeclarationError(
                f"claim '{self.shows}' has an empty source or finding; write who says so, or what was found"
            )

    def speaks_of(self, *, variant: str, direction: str, target: str, version: str | None) -> bool:
        """Whether the claim is about this comparison."""
        pairs = ((variant, self.variant), (direction, self.direction), (version or "", self.versions))
        matches = fnmatchcase(target, self.target) or self.target == Target(name=target).platform
        return matches and all(fnmatchcase(value, pattern) for value, pattern in pairs)

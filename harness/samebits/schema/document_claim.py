"""What a design document says of a change, as data: a row of `samebits audit claims`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from samebits.errors import DeclarationError
from samebits.schema.compile_statement import NUMBERS
from samebits.schema.contract import DIRECTIONS
from samebits.schema.validate import check_known, check_tuple, expected

Holds = Literal["holds", "holds but for rounding", "holds in part", "does not hold", "undecided"]
"""What running a claim gave."""

_ID = re.compile(r"[a-z0-9]+(\.[a-z0-9]+)*")


@dataclass(frozen=True, kw_only=True, slots=True)
class Documented:
    """One statement of a document, found true or not by running what the pair declares anyway.

    Args:
        id: of the claim, such as `3922.5`: pull request and item. Several pairs may refer to one claim.
        document: where it stands, in words.
        says: the claim, in one's own words: what is the same, and what is saved.
        variants: the sides that stand for the change; empty is all of the pair's.
        cases: the cases of the check that belong to the claim; empty is all.
        saves: the figure that the document says becomes less, such as `temp_bytes`; None where it claims no saving.
        real: the real sizes that are compiled for it; empty is all of the pair's.
        directions: those that are compiled for it; empty is both.
        compiled_only: the values stand in the row of another pair, or are shown by tests; here compilers are asked.
        finding: what qualifies the claim and no verdict says, such as a layout that changes; a test must show it.
        tests: tests of the suite file that show the finding, or the values where no verdict does; they are run.
        command: for what no pair stands for, declared by the model: the words of a samebits command.
        exits: the exit code with which that command ends where the claim holds.
        prints: a regular expression of the line that it must then print, and that stands in the row.

    Raises:
        DeclarationError: a word is missing, or a finding has no test.
    """

    id: str
    document: str
    says: str
    variants: tuple[str, ...] = ()
    cases: tuple[str, ...] = ()
    saves: str | None = None
    real: tuple[str, ...] = ()
    directions: tuple[str, ...] = ()
    compiled_only: bool = False
    finding: str | None = None
    tests: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    exits: int = 0
    prints: str = ""

    def __post_init__(self) -> None:
        if not _ID.fullmatch(self.id):
            raise DeclarationError(f"claim '{self.id}': expected an id such as 3922.5, the document and its item")
        where = f"claim '{self.id}'"
        for name in ("variants", "cases", "real", "directions", "tests", "command"):
            check_tuple(where, name, getattr(self, name))
        for name in ("document", "says"):
            if not getattr(self, name).strip():
                raise DeclarationError(f"{where} has an empty {name}; write where it stands, and what it says")
        check_known(where, "direction", self.directions, DIRECTIONS)
        if self.saves is not None and self.saves not in NUMBERS:
            raise DeclarationError(f"{where}: saves='{self.saves}' is not a figure; {expected(self.saves, NUMBERS)}")
        if self.compiled_only and self.saves is None:
            raise DeclarationError(
                f"{where} asks the compilers alone and says of nothing that it is saved; write saves=..."
            )
        if bool(self.command) != bool(self.prints):
            raise DeclarationError(f"{where}: a command and the line that it must print belong together: prints='...'")
        try:
            re.compile(self.prints)
        except re.error as error:
            raise DeclarationError(f"{where}: prints='{self.prints}' is not a valid regex ({error})") from error
        if bool(self.finding) != bool(self.tests) and not (self.tests and self.compiled_only):
            missing = "tests" if self.finding else "finding"
            raise DeclarationError(
                f"{where} has a {'finding' if self.finding else 'test'} and no {missing}: a finding is shown by tests "
                "of the suite file; write finding='...', tests=('test_...',)"
            )

"""One class per situation, so that "differs", "does not repeat" and "could not run" are never confused.

Every class carries the exit code of the command line: 2 when the request or a declaration is wrong,
3 when the harness could not decide. A *difference* is a result, not an exception (see `verdict`).
What the user's own code raises is shown by `user_errors`. Docstrings inside the package do not repeat which function
may raise which of these: any may, with a message that says what to do.
"""

from __future__ import annotations

COULD_NOT_TELL = 3
"""The exit code where nothing can be said about the bits: a crash, a loss, an interruption, or a bug of samebits."""


class SamebitsError(Exception):
    """Root of everything that samebits raises on purpose; its text is the one line that the user sees."""

    exit_code = COULD_NOT_TELL


class DeclarationError(SamebitsError):
    """A pair, case, contract or exemption is wrong as written.

    Common causes: a missing twin file, a duplicate id, an empty product, a contract below `bitwise` without a reason.
    """

    exit_code = 2


class RequestError(SamebitsError):
    """The command line asks for something that does not exist or cannot be had.

    Common causes: a misspelt pair or case, a filter that selects nothing, a report path that cannot be written.
    """

    exit_code = 2


class MeshError(RequestError):
    """A mesh is malformed, names an unknown axis, or needs more devices than there are."""


class CouldNotRun(SamebitsError):
    """A side raised while it was traced, compiled or run, so nothing can be said about its bits."""


class NoExplicitForm(CouldNotRun):
    """The reference cannot be traced where axes of the mesh are explicit: it never says how its results lie."""


class MeshNotSpanned(CouldNotRun):
    """The devices of a mesh cannot be divided evenly among the processes, and one process has not as many."""


class MeshNotUsed(CouldNotRun):
    """The devices or the layout really used are not those that the mesh's label promises."""


class NothingCompared(CouldNotRun):
    """A comparison that compared nothing: no leaf, no element, constant values, or gradients that are all zero."""


class CheckerBroken(CouldNotRun):
    """The comparison did not see a difference that was planted to test it; no verdict of this run can be trusted."""


class NotCovered(CouldNotRun):
    """The walk over a jaxpr met something that has no meaning in its domain; the verdict falls to the rung below.

    Common causes: a Pallas kernel, a primitive without a rule, arithmetic where only movement can be followed.
    """


class MissingRule(NotCovered):
    """A primitive without a rule; `primitive` and `place` say which, and on which line of the program."""

    primitive = ""
    place = ""

    @classmethod
    def of(cls, text: str, primitive: str, place: str) -> MissingRule:
        """The error of an equation.

        Args:
            text: the message.
            primitive: the name of the primitive.
            place: `file:line`, or an empty text.
        """
        error = cls(text)
        error.primitive, error.place = primitive, place
        return error

    @property
    def short(self) -> str:
        """Which primitive, and where."""
        return f"primitive `{self.primitive}`" + (f" at {self.place}" if self.place else "")


class BrokenPromise(NotCovered):
    """An operation is promised something of its indices that is not so, and its result is then undefined.

    `undefined` is what is said of the result where `by_variant`: the reference breaks no promise at the same inputs.
    """

    WORD = "undefined: "
    undefined = ""
    by_variant = False

    @classmethod
    def of(cls, step: object, what: str, place: str) -> BrokenPromise:
        """The error of an equation.

        Args:
            step: the equation, in words.
            what: the promise, and what is so instead.
            place: `file:line`, or an empty text.
        """
        error = cls(f"{step}: {what}")
        error.undefined = f"{cls.WORD}{what}" + (f" ({place})" if place else "")
        return error


class NearTie(NotCovered):
    """Two numbers that decide what happens next are too close to say which is larger; a proof would be a guess."""


def not_interpreted(error: NotCovered) -> str:
    """Why a program could not be interpreted: the primitive and its line, or what the error says."""
    return error.short if isinstance(error, MissingRule) else str(error)

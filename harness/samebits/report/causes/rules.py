"""What a group of failures most likely is, in words: a list of rules, of which the first that fits is taken.

A rule sees the key of the group and its results, and says nothing where the results do not support it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from samebits.report.causes.groups import FORM, LOST, NONFINITE, SPECIAL, Key, error_text, kinds_of
from samebits.schema.finding import Finding
from samebits.schema.line_difference import LineDifference
from samebits.schema.result import ALL_SIZES_REQUIRED


@dataclass(frozen=True, slots=True)
class Group:
    """What a rule sees.

    Args:
        key: of the group.
        results: its failing results, in order.
        only: what restricts them, as `cause.only` says it.
    """

    key: Key
    results: Sequence[Finding]
    only: Sequence[str] = ()

    @property
    def kind(self) -> str:
        """What joins the results: the first word of the key."""
        return self.key[0]

    @property
    def first(self) -> Finding:
        """The first result."""
        return self.results[0]

    @property
    def line(self) -> LineDifference | None:
        """The line that the group is about: the likeliest of the first result that names one."""
        return next((result.named.lines[0] for result in self.results if result.named.lines), None)


Rule = Callable[[Group], str | None]

_LITERAL = re.compile(r"the reference has the literal (\S+)(?: \([^)]*\))?(?: at \S+)? where this has (\S+)")
NARROWEST = 2.0**20
"""How many times larger errors a narrower dtype makes at most: float32 has 2^16 times the precision of bfloat16."""

_SIGNALS = {
    "SIGSEGV": "native code crashed, the compiler's or a kernel's",
    "SIGABRT": "a check in native code failed",
    "SIGKILL": "the system ended it, as it does when memory runs out",
    "SIGBUS": "memory that is mapped could not be read, as on a full disk or /dev/shm",
    "SIGFPE": "an integer was divided by zero in native code",
    "SIGILL": "an instruction that this processor does not have",
}


def likely(group: Group) -> str:
    """The likely cause of a group, in one sentence."""
    return next(words for rule in RULES if (words := rule(group)) is not None)


def _mesh(group: Group) -> str | None:
    if group.kind != "mesh":
        return None
    meshes = ", ".join(dict.fromkeys(result.place.mesh for result in group.results))
    own = [result for result in group.results if result.place.variant == group.key[2]]
    begin = f"the mesh or the compiler, not the variant: on {meshes} the reference itself"
    if own and not any(result.comparison.mismatches or result.comparison.kind for result in own):
        return (
            f"{begin} is {own[0].ruling.verdict}, although its bits are those of one device: {own[0].ruling.evidence}"
        )
    return f"{begin} differs from its result on one device"


def _lost(group: Group) -> str | None:
    if group.kind != "lost":
        return None
    doing, _, why = error_text(group.first).removeprefix(LOST).partition(": ")
    name = why.partition(";")[0].strip()
    if "of memory" in name:
        return f"too much memory while {doing}: {why}; smaller sizes, fewer --workers or a larger --memory"
    if name.startswith("more than"):
        return f"a deadlock or a very slow program while {doing}: it took {name}; --timeout sets the limit"
    if name.startswith("device "):
        return f"while {doing}, {why}; a kernel that reads or writes out of bounds does that"
    hint = _SIGNALS.get(name)
    return f"the process ended ({why}) while {doing}" + (f": {hint}" if hint else "")


def _expected_error(group: Group) -> str | None:
    if group.kind != "expected error":
        return None
    missing = "gave a result" in (group.first.ruling.reason or "")
    begin = "a check of the arguments is missing" if missing else "another error than the documented one"
    return f"{begin}: {group.first.ruling.reason}"


def _error(group: Group) -> str | None:
    if group.kind != "error":
        return None
    text = error_text(group.first)
    if text.startswith("could not tell"):
        return text
    return f"the same error in all of them: {text}" if len(group.results) > 1 else f"an error: {text}"


def _unstable(group: Group) -> str | None:
    if group.kind != "unstable":
        return None
    return (
        f"{group.first.ruling.evidence}: memory that is read before it is written, sums in the order in which threads "
        "or devices finish, or random numbers without a fixed key"
    )


def _fell(group: Group) -> str | None:
    if group.kind != "fell":
        return None
    return "a change since the verdicts were accepted: the bits were equal in this environment, and are not now"


def _unproved(group: Group) -> str | None:
    if group.kind != "unproved":
        return None
    why = group.first.ruling.evidence or group.first.ruling.reason or "no reason is recorded"
    return f"the bits are equal on every input tried, but the contract requires a proof: {why}"


def _other_sizes(group: Group) -> str | None:
    if group.kind != "sizes":
        return None
    why = (group.first.ruling.reason or "").partition(ALL_SIZES_REQUIRED)[2].removeprefix(": ") or "none are shown"
    return f"it holds at the sizes of the case, and {ALL_SIZES_REQUIRED}: {why}"


def _form(group: Group) -> str | None:
    kinds = frozenset[str]().union(*(kinds_of(result) for result in group.results))
    if not all(kinds_of(result) & FORM for result in group.results):
        return None
    words = {
        "structure": "the containers of the outputs",
        "shape": "the shape of an output",
        "dtype": "the dtype of an output: an astype is missing or too much",
        "weak type": "the weak type of an output: a Python number in place of an array",
    }
    detail = (group.first.ruling.evidence or "").partition("; ")[0]
    first = next(words[kind] for kind in ("structure", "shape", "dtype", "weak type") if kind in kinds)
    at = ", ".join(filter(None, (detail, _place(group))))
    return first + (f" ({at})" if at else "")


def _literal(group: Group) -> str | None:
    """A constant that differs, where most results name the same two literals."""
    named = [match for result in group.results if (match := _LITERAL.search(result.ruling.evidence or "")) is not None]
    counts = Counter((match[1], match[2]) for match in named)
    if not counts or 2 * counts.most_common(1)[0][1] < len(group.results):
        return None
    (reference, variant), _ = counts.most_common(1)[0]
    if reference == variant:
        return None
    place = _place(group)
    return f"a constant: {reference} in the reference, {variant} in the variant" + (f" ({place})" if place else "")


def _moved(group: Group) -> str | None:
    first = group.line
    if first is None or first.change != "moved" or any(_loses(result) for result in group.results):
        return None
    return f"the right elements in the wrong order, a permutation: {first}"


def _special(group: Group) -> str | None:
    kinds = frozenset[str]().union(*(kinds_of(result) for result in group.results))
    if not kinds or not kinds <= SPECIAL or not all(kinds_of(result) for result in group.results):
        return None
    words = {
        "sign of zero": "-0.0 for 0.0 (a sum with zero, a product with 0 or a selection by arithmetic does it)",
        "NaN payload": "NaNs with other bits (arithmetic on what should only be moved does it)",
        "subnormal flushed": "zero for a subnormal number (a processor or compiler that flushes them does it)",
    }
    listed = " and ".join(text for kind, text in words.items() if kind in kinds)
    return f"only special values differ, all others are equal: {listed}"


def _nonfinite(group: Group) -> str | None:
    if not all((kinds := kinds_of(result)) and kinds <= NONFINITE for result in group.results):
        return None
    return "only infinities and NaNs differ, other numbers are equal: a mask, an overflow, or memory that nothing wrote"


def _accuracy(group: Group) -> str | None:
    """Rounding that the contract does not accept, or a loss of accuracy."""
    less = [result for result in group.results if _loses(result)]
    if len(less) == len(group.results):
        worst = max((result.accuracy.error_ratio or 0.0) for result in less)
        if worst > NARROWEST:
            return None
        factor = f" (up to {worst:.2g} times the reference's)" if worst else ""
        bias = next((result for result in less if result.accuracy.bias is not None), None)
        text = f"precision is lost{factor}: an intermediate or a sum in a narrower dtype"
        if (line := group.line) is not None and line.change in ("narrower", "accuracy"):
            text = f"precision is lost{factor}: {line}"
        return text if bias is None else f"{text}; the errors point one way, as truncation makes them"
    if all(result.ruling.verdict == "rounding" for result in group.results):
        required = ", ".join(dict.fromkeys(result.ruling.required for result in group.results))
        return f"only rounding, which the contract does not accept (it requires {required})"
    return None


def _loses(result: Finding) -> bool:
    return "loses accuracy" in (result.ruling.evidence or "")


def _named_line(group: Group) -> str | None:
    first = group.line
    if first is None:
        return None
    begin = "another derivative" if "only in the gradients" in group.only else "another computation"
    return f"{begin}: {first}"


def _gradient(group: Group) -> str | None:
    if "only in the gradients" not in group.only:
        return None
    return "the derivative alone, the forward pass agrees: a custom_vjp, stop_gradient or a missing sum over devices"


def _other(group: Group) -> str:
    return group.first.ruling.evidence or group.first.ruling.reason or "other values, and no line is named"


RULES: tuple[Rule, ...] = (
    *(_lost, _expected_error, _error, _unstable, _fell, _mesh, _unproved, _other_sizes),
    *(_form, _literal, _moved, _special, _nonfinite, _accuracy, _named_line),
    *(_gradient, _other),
)


def _place(group: Group) -> str:
    first = group.line
    return "" if first is None else str(first.variant or first.reference)

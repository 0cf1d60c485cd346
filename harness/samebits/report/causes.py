"""What fails in groups, each with its likely cause, its smallest example and what to run: one wrong line is one group.

The key of a group is the strongest fact that its results share: the reference fails as badly at the same point, the
line of the source that the check names, the text of an error without its numbers, or else the kind of difference. A
rule says what a group most likely is; the first that fits is taken.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from samebits.errors import MeshError
from samebits.report.failure import point_block, shown_example
from samebits.report.findings import JUDGING, findings, verdict_words
from samebits.report.page import Failing, Page
from samebits.report.words import State, listed, plural, short_meshes, some, state_of, state_word
from samebits.schema.contract import leaf_words
from samebits.schema.finding import DEPENDENCE, UNDECIDED, Finding
from samebits.schema.line_difference import LineDifference
from samebits.schema.meshes import MeshSpec
from samebits.schema.result import ACCEPTABLE, ALL_SIZES_REQUIRED, VERDICTS, gravest, requirement

_GRAVEST = ("different", "unstable", "rounding", "refused", "error")


_NOUNS = {
    "prove": "leaf",
    "prove model": "output",
    "golden check": "golden",
    "claims": "row",
    "faults": "planted fault",
}
"""What the findings of a command are called; else they are results."""


def causes_of(document: Any, results: Iterable[Finding] | None = None) -> list[Failing]:
    """Return what fails of a document of any command that judges."""
    references = {head.pair: head.reference for head in getattr(document, "pairs", ())}
    return causes(findings(document) if results is None else results, references)


def usual_page(document: Any, words: tuple[str, str] | None = None, wrong: State = "incomplete") -> Page:
    """Return the page of a document without its blocks: what it comes to, what fails, its problems and its notes.

    Args:
        words: for the exit codes 0 and 1, in place of `passed` and `failed`.
        wrong: what a wrong request comes to.
    """
    problems = getattr(document, "problems", ())
    code = getattr(document, "exit_code", gravest(problems))
    return Page(
        command=document.command,
        state=state_of(code, wrong),
        word="" if words is None else state_word(code, *words),
        closing="",
        failing=causes_of(document) if document.command in JUDGING else (),
        problems=problems,
        notes=getattr(document, "notes", ()),
        environment=getattr(document, "environment", None),
    )


def causes(results: Iterable[Finding], references: Mapping[str, str] | None = None) -> list[Failing]:
    """Return the groups of failing results, differences before errors and large groups before small ones.

    Args:
        results: all of a command; those that hold restrict the cause.
        references: by pair, the name of its reference; without it no group is known to be the mesh's.
    """
    every = list(results)
    groups = group_failures(every, references or {})
    return sorted(
        (_cause(key, group, every) for key, group in groups.items()),
        key=lambda cause: (_rank(cause), -len(cause.findings)),
    )


def _cause(key: Key, group: Sequence[Finding], every: Sequence[Finding]) -> Failing:
    # Results that lack only other sizes belong to this cause, but hold where they are: they show where it ends.
    wrong = [result for result in group if not holds_at_its_sizes(result)] or list(group)
    example = min(wrong, key=_size)
    restricted = tuple(only(wrong, every))
    reason = likely(Group(key, wrong, restricted))
    alone = group[0].tool == "check" and len({each.place.whole for each in group}) == 1
    lines = point_block(group) if alone else []
    if lines and key[0] != "error":  # an error is its own explanation
        lines.insert(1, f"  likely    {reason}")
    return Failing(
        kind=key[0],
        title=f"{_subject(group, every)}: {_verdicts(group)}",
        likely=reason,
        where=place_words(wrong),
        only=restricted,
        findings=tuple(group),
        smallest=example,
        example="\n".join(shown_example(example)),
        whole=tuple(lines),
        next_command=next(filter(None, (next_of(each) for each in (example, *wrong))), None),
    )


def next_of(result: Finding) -> str:
    """Return what to type: the command that shows a result again; of what is not proved, the check of both sides."""
    again = result.tool != "prove" or result.refutes or result.proof.method == DEPENDENCE
    if again or "--no-assumptions" in result.replay:
        return result.replay
    if " --arg " in result.replay:  # of two functions
        return result.replay.replace("samebits prove ", "samebits compare ", 1).removesuffix(" --all-sizes")
    if " --compiled " in result.replay:
        return result.replay.replace("samebits prove ", "samebits compile ", 1).replace("--compiled", "--run", 1)
    return result.replay.replace("samebits prove ", "samebits check ", 1)


def _size(result: Finding) -> tuple[int, bool, int]:
    return result.run.devices or 1 << 30, result.place.direction != "forward", result.comparison.elements


def _subject(group: Sequence[Finding], every: Sequence[Finding]) -> str:
    sides = dict.fromkeys((result.place.pair, result.place.variant) for result in group)
    pairs = list(dict.fromkeys(pair for pair, _ in sides))
    if len(sides) == 1:
        whose = "/".join(filter(None, next(iter(sides))))
    elif len(pairs) == 1:
        whose = f"{pairs[0]} ({', '.join(variant for _, variant in sides)})"
    else:
        whose = ", ".join(pairs) if len(pairs) <= 3 else plural(len(pairs), "pair")
    count = plural(len(_beside(group, every)), _NOUNS.get(group[0].tool, "result"))
    return f"{f'{whose}: ' if whose else ''}{len(group)} of {count}"


def _beside(group: Sequence[Finding], every: Iterable[Finding]) -> list[Finding]:
    """Return the results of the sides of a group that ran, the group itself included."""
    side = attrgetter("place.pair", "place.variant")
    sides = set(map(side, group))
    return [result for result in every if side(result) in sides and result.ruling.verdict != "skipped"]


def _verdicts(group: Sequence[Finding]) -> str:
    """Return the verdicts; with what is required where another contract would accept them."""
    counts: Counter[str] = Counter()
    for result in group:
        ruling = result.ruling
        needs = f", required {requirement(ruling.required, ruling.reason)}"
        accepted = ruling.verdict in ("proved", "bitwise") and ruling.required and not result.refutes
        counts[verdict_words(result) + (needs if accepted else "")] += 1
    return ", ".join(verdict if len(counts) == 1 else f"{verdict} {count}" for verdict, count in counts.items())


def _rank(cause: Failing) -> int:
    verdicts = {"different" if result.refutes else result.ruling.verdict for result in cause.findings}
    undecided = len(_GRAVEST) - 1
    return min(_GRAVEST.index(each) if each in _GRAVEST else undecided * (each in UNDECIDED) for each in verdicts)


_LISTED = 4
"""Names of cases or dtypes that are listed; more are counted."""


def only(failing: Sequence[Finding], results: Iterable[Finding]) -> list[str]:
    """Return what restricts a group of failures, each in words and each by results beside it that hold."""
    beside = _beside(failing, results)
    return [
        *_only_value(failing, beside, "direction", lambda value: f"only in the {value}" + _plural_of(value)),
        *_only_value(failing, beside, "dtype", lambda value: f"only with {value}"),
        *_only_value(failing, beside, "mode", lambda value: f"only in mode {value}"),
        *_only_meshes(failing, beside),
        *_only_parts(failing),
        *_only_value(failing, beside, "case", lambda value: f"only in case {value}"),
    ]


def place_words(failing: Sequence[Finding]) -> str:
    """Return where a group lies, in few words: cases; dtypes; meshes; directions."""
    names = {
        noun: list(dict.fromkeys(filter(None, (getattr(result.place, noun) for result in failing))))
        for noun in ("case", "dtype", "mesh", "direction")
    }
    if failing[0].tool != "check":
        leaves = list(dict.fromkeys(leaf_words(each.place.direction, each.place.leaf) for each in failing))
        names = {"leaf": leaves if any(leaves) else [], **names, "direction": []}
    words = {noun: listed(these, noun) for noun, these in names.items()}
    if len(names["mesh"]) <= 2 * _LISTED:
        words["mesh"] = short_meshes(names["mesh"])
    items = some(list(dict.fromkeys(result.place.item for result in failing)), 4)
    return "; ".join(filter(None, (items, *words.values())))


def _plural_of(direction: str) -> str:
    return "s" if direction == "gradient" else " pass"


def _only_value(
    failing: Sequence[Finding], beside: Sequence[Finding], name: str, words: Callable[[str], str]
) -> list[str]:
    """Return the one value that all failures share, if every result that is alike but for it holds."""
    values = {getattr(result.place, name) for result in failing}
    if len(values) != 1:
        return []
    others = [field for field in ("case", "dtype", "direction") if field != name]
    alike = {tuple(getattr(result.place, field) for field in others) for result in failing}
    if name == "case":  # cases differ in much: whatever of the other cases ran has to hold
        control = [result for result in beside if result.place.case not in values]
    else:
        control = [
            result
            for result in beside
            if getattr(result.place, name) not in values
            and tuple(getattr(result.place, field) for field in others) in alike
        ]
    if not control or not all(holds_at_its_sizes(result) for result in control):
        return []
    return [words(values.pop())]


def _only_meshes(failing: Sequence[Finding], beside: Sequence[Finding]) -> list[str]:
    """Return a number of devices or an axis of the mesh that separates the failures from what holds."""
    kind = attrgetter("place.case", "place.dtype", "place.direction")
    alike = set(map(kind, failing))
    holding = [result for result in beside if holds_at_its_sizes(result) and kind(result) in alike]
    bad, good = ({_devices(result.place.mesh) for result in group} - {0} for group in (failing, holding))
    if not bad or not good:
        return []
    if min(bad) > max(good):
        least = min(bad)
        return ["only on meshes of several devices" if least == 2 else f"only on meshes of {least} devices and more"]
    if max(bad) < min(good):
        return ["only on one device" if max(bad) == 1 else f"only on meshes of {max(bad)} devices and fewer"]
    odd = {size % 2 for size in bad} == {1} and {size % 2 for size in good} == {0}
    if odd:
        return ["only where the number of devices is odd"]
    axes = set.intersection(*(_split_axes(result.place.mesh) for result in failing))
    axes -= set().union(*(_split_axes(result.place.mesh) for result in holding))
    if axes:
        return [f"only where the mesh has the axis '{axis}'" for axis in sorted(axes)]
    meshes = dict.fromkeys(result.place.mesh for result in failing)
    apart = len(meshes) <= 2 and not {result.place.mesh for result in holding} & set(meshes)
    return [f"only on {' and '.join(meshes)}"] if apart else []


def _only_parts(failing: Sequence[Finding]) -> list[str]:
    """Name the devices in whose parts of the array elements differ, where those of others are equal everywhere."""
    pictures = [result.comparison.picture for result in failing if result.comparison.picture is not None]
    if not pictures or len(pictures) < len(failing) or any(len(picture.devices) < 2 for picture in pictures):
        return []
    parts = {tuple(devices for devices, count in picture.devices.items() if count) for picture in pictures}
    if len(parts) != 1 or any(all(picture.devices.values()) for picture in pictures):
        return []
    listed = parts.pop()
    if not listed or len(listed) > _LISTED:
        return []
    noun = "device" if len(listed) == 1 and "," not in listed[0] else "devices"
    return [f"only in the {'part' if len(listed) == 1 else 'parts'} of {noun} {' and '.join(listed)}"]


def _devices(mesh: str) -> int:
    try:
        return MeshSpec.parse(mesh).devices
    except MeshError:  # of another version's document
        return 0


def _split_axes(mesh: str) -> set[str]:
    try:
        spec = MeshSpec.parse(mesh)
    except MeshError:
        return set()
    return {axis for axis, size in spec.axes if size > 1}


# --- groups

Key = tuple[str, ...]

FORM = frozenset({"structure", "dtype", "shape", "weak type"})
"""Kinds of difference in what an array is, not in its values."""

SPECIAL = frozenset({"sign of zero", "NaN payload", "subnormal flushed"})
"""Kinds of difference between values that compare equal, or nearly so."""

NONFINITE = frozenset({"NaN vs number", "overflow to infinity"})
"""Kinds of difference that need an infinity or a NaN."""

FELL = "these bits were equal here before"
"""How the reason begins where a snapshot of accepted verdicts fails."""

REFUTED = "not the same mathematics"
"""How the evidence begins where formulas differ."""

LOST = "its process ended while "
"""How the reason begins where a process ended."""

_NUMBER = re.compile(r"0x[0-9a-fA-F]+|(?<![A-Za-z0-9_])[+-]?\d+(\.\d+)?(e[+-]?\d+)?")
_VALUE = re.compile(r"\b(True|False|None)\b")
_LIST = re.compile(r"#(\s*,\s*#)+,?")


def group_failures(results: Iterable[Finding], references: Mapping[str, str]) -> dict[Key, list[Finding]]:
    """Return the failing results by the key of their cause, in the order of the results."""
    every = list(results)
    own = (result for result in every if result.failed and references.get(result.place.pair) == result.place.variant)
    moved = {point_of(result): result for result in own}
    groups: dict[Key, list[Finding]] = {}
    for result in every:
        if result.failed:
            groups.setdefault(_key(result, moved), []).append(result)
    return _joined(groups)


def holds_at_its_sizes(result: Finding) -> bool:
    """Whether a result holds, or fails only because its contract requires other sizes too."""
    return result.ruling.ok or (
        result.ruling.verdict in ACCEPTABLE and ALL_SIZES_REQUIRED in (result.ruling.reason or "")
    )


def point_of(result: Finding) -> Key:
    """Return where a result lies, whatever the side."""
    names = ("pair", "case", "dtype", "mesh", "mode", "direction", "leaf")
    return tuple(str(getattr(result.place, name)) for name in names)


def kinds_of(result: Finding) -> frozenset[str]:
    """Return the kinds of difference of a result; of several, all of them."""
    if result.comparison.differences:
        return frozenset(difference.kind for difference in result.comparison.differences)
    return frozenset() if result.comparison.kind is None else frozenset({result.comparison.kind.partition(" (")[0]})


def without_numbers(text: str) -> str:
    """Return a text with `#` for each number, truth value and list of these, on one line."""
    return _LIST.sub("#", _VALUE.sub("#", _NUMBER.sub("#", " ".join(text.split()))))


def error_text(result: Finding) -> str:
    """Return the error of a result without the point at which it was raised."""
    text = " ".join((result.ruling.reason or result.ruling.evidence or "no reason is recorded").split())
    begin, raised, rest = text.partition(" raised ")
    return rest if raised and f"'{result.place.case}'" in begin else text


def _is_of_mesh(result: Finding, moved: Mapping[Key, Finding]) -> bool:
    """Whether the reference's own failure at a point explains a result: what is worse, or located, is the variant's."""
    own = moved.get(point_of(result))
    if own is None or own.ruling.verdict not in ("rounding", "different"):
        return False  # what lacks only a proof, or could not be told, moves nothing
    if own.place.variant == result.place.variant:
        return True
    is_worse = VERDICTS.index(result.ruling.verdict) > VERDICTS.index(own.ruling.verdict)
    return not (is_worse or result.named.lines or (result.ruling.evidence or "").startswith(REFUTED))


def _key(result: Finding, moved: Mapping[Key, Finding]) -> Key:
    pair, variant, ruling = result.place.pair, result.place.variant, result.ruling
    if result.tool == "prove" and ruling.verdict != "different":
        return ("alike", pair, ruling.verdict, without_numbers(ruling.reason or ""))
    if result.tool not in ("check", "prove"):
        # What a check says of a planted fault is another text for each.
        text = "" if result.tool == "faults" else without_numbers(_without_names(result, ruling.evidence or ""))
        return ("alike", pair, variant, ruling.verdict, text)
    if result.ruling.verdict == "error":
        return _error_key(result)
    if result.ruling.verdict == "unstable":
        return ("unstable", pair, without_numbers(result.ruling.evidence or variant))
    if result.ruling.required == "refused":
        return ("expected error", pair, without_numbers(result.ruling.reason or ""))
    if (result.ruling.reason or "").startswith(FELL):
        return ("fell", pair, variant)
    if _is_of_mesh(result, moved):
        return ("mesh", pair, moved[point_of(result)].place.variant)
    if holds_at_its_sizes(result):
        return ("sizes", pair, variant)
    if result.ruling.verdict in ("proved", "bitwise"):
        return ("unproved", pair, variant)
    if result.named.lines:
        first = result.named.lines[0]
        # Variants, and pairs, may call one function: the line alone is the cause.
        return ("line", str(first.variant or first.reference))
    return (_family(result), pair, variant)


def _family(result: Finding) -> str:
    """Return the kinds of difference of a result as one word."""
    kinds = kinds_of(result)
    families = (("form", bool(kinds & FORM)), ("special", kinds <= SPECIAL), ("nonfinite", kinds <= NONFINITE))
    usual = "rounding" if result.ruling.verdict == "rounding" else "values"
    return next((name for name, fits in families if fits and kinds), usual)


def _error_key(result: Finding) -> Key:
    text = error_text(result)
    if text.startswith(LOST):
        _, _, why = text.removeprefix(LOST).partition(": ")
        return ("lost", without_numbers(why.partition(";")[0]))
    return ("error", without_numbers(_without_names(result, text)))


def _without_names(result: Finding, text: str) -> str:
    place = result.place
    for name in filter(None, (place.pair, place.variant, place.case, place.dtype, place.mesh, place.item)):
        text = re.sub(rf"(?<![\w.]){re.escape(name)}(?![\w.])", "*", text)
    return text


def _joined(groups: dict[Key, list[Finding]]) -> dict[Key, list[Finding]]:
    """Return the same groups, where results without a named line join the only named line that can explain them."""
    lines = [_Line(key, results) for key, results in groups.items() if key[0] == "line"]
    joined: dict[Key, list[Finding]] = {key: [] for key in groups}
    for key, results in groups.items():
        joins = key[0] in ("values", "special", "nonfinite", "rounding", "unproved", "sizes")
        for result in results:
            target = _explained_by(result, key[0], lines) if joins else None
            joined[key if target is None else target].append(result)
    return {key: results for key, results in joined.items() if results}


class _Line:
    """A group with a named line: what other results are compared with, so that thousands of them take no time."""

    def __init__(self, key: Key, results: Sequence[Finding]) -> None:
        self.key = key
        self.moves = results[0].named.lines[0].change == "moved"
        self.family = _family(results[0])
        self.sides = {(known.place.pair, known.place.variant) for known in results}
        self.cases = {known.place.case for known in results}
        self.directions = {(known.place.case, known.place.direction) for known in results}
        self.points = {point_of(known)[:-1] for known in results}


def _explained_by(result: Finding, family: str, lines: Iterable[_Line]) -> Key | None:
    """Find the one line that can explain a result; the nearest counts: of its case and direction, case, or side.

    Elements in another order differ in any way; another computation in its own. What lacks only its proof is explained
    by a leaf of the same point, and what lacks only other sizes by a line that is wrong at one of these.
    """
    own = [line for line in lines if (result.place.pair, result.place.variant) in line.sides]
    if family == "unproved":
        return next((line.key for line in own if point_of(result)[:-1] in line.points), None)
    own = [line for line in own if family in ("values", "sizes") or line.moves or line.family == family]
    narrowed = (
        [line.key for line in own if (result.place.case, result.place.direction) in line.directions],
        [line.key for line in own if result.place.case in line.cases],
        [line.key for line in own],
    )
    return next((keys[0] for keys in narrowed if len(keys) == 1), None)


# --- the likely cause


@dataclass(frozen=True, slots=True)
class Group:
    """What a rule sees.

    Args:
        only: what restricts them, as `cause.only` says it.
    """

    key: Key
    results: Sequence[Finding]
    only: Sequence[str] = ()

    @property
    def kind(self) -> str:
        """Return what joins the results: the first word of the key."""
        return self.key[0]

    @property
    def first(self) -> Finding:
        """Return the first result."""
        return self.results[0]

    @property
    def line(self) -> LineDifference | None:
        """Return the line that the group is about: the likeliest of the first result that names one."""
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
    """Return the likely cause of a group, in one sentence."""
    of_kind = _OF_KIND.get(group.kind)
    return of_kind(group) if of_kind else next(words for rule in RULES if (words := rule(group)) is not None)


_HINTS = {
    ("train", "different"): "more than rounding",
    ("train", "rounding"): "other bits, and the same were expected",
    ("prove model", "different"): "another computation",
    ("prove model", "error"): "neither shown nor refuted",
    ("golden check", "missing"): "no golden is recorded for this run here; `samebits golden accept` records it",
    ("golden check", "unused"): "a golden of a run that the model does not have any more",
    ("golden check", "damaged"): "the file is damaged",
    ("golden check", "not run"): "the run could not be made",
    ("faults", "not caught"): (
        "the check does not see this class of difference here: a case, a mesh or a direction is missing"
    ),
    ("faults", "no answer"): "the check did not come to its end",
    ("faults", "caught, and the honest form fails too"): (
        "the honest implementation differs at the same points, so that what was caught says nothing"
    ),
}
"""What a verdict of a command most likely is."""


def _alike(group: Group) -> str:
    """Explain results of other commands than check, which their verdict and its text join."""
    ruling = group.first.ruling
    if group.first.tool == "prove":
        if ruling.reason is None and ruling.verdict == "rounding":
            return "the formulas are equal, which does not make the bits equal; a check runs both sides"
        return ruling.reason or "proof alone does not decide; a check runs both sides"
    hint = _HINTS.get((group.first.tool, ruling.verdict), "")
    expected = ": ".join(filter(None, (ruling.required, ruling.reason)))
    return "; ".join(filter(None, (hint, expected and f"expected {expected}")))


def _mesh(group: Group) -> str:
    meshes = ", ".join(dict.fromkeys(result.place.mesh for result in group.results))
    own = [result for result in group.results if result.place.variant == group.key[2]]
    begin = f"the mesh or the compiler, not the variant: on {meshes} the reference itself"
    if own and not any(result.comparison.mismatches or result.comparison.kind for result in own):
        return (
            f"{begin} is {own[0].ruling.verdict}, although its bits are those of one device: {own[0].ruling.evidence}"
        )
    return f"{begin} differs from its result on one device"


def _lost(group: Group) -> str:
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


def _expected_error(group: Group) -> str:
    missing = "gave a result" in (group.first.ruling.reason or "")
    begin = "a check of the arguments is missing" if missing else "another error than the documented one"
    return f"{begin}: {group.first.ruling.reason}"


def _error(group: Group) -> str:
    text = error_text(group.first)
    if text.startswith("could not tell"):
        return text
    return f"the same error in all of them: {text}" if len(group.results) > 1 else f"an error: {text}"


def _unstable(group: Group) -> str:
    return (
        f"{group.first.ruling.evidence}: memory that is read before it is written, sums in the order in which threads "
        "or devices finish, or random numbers without a fixed key"
    )


def _fell(group: Group) -> str:
    return "a change since the verdicts were accepted: the bits were equal in this environment, and are not now"


def _unproved(group: Group) -> str:
    why = group.first.ruling.evidence or group.first.ruling.reason or "no reason is recorded"
    return f"the bits are equal on every input tried, but the contract requires a proof: {why}"


def _other_sizes(group: Group) -> str:
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
    """Name a constant that differs, where most results name the same two literals."""
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
    """Explain rounding that the contract does not accept, or a loss of accuracy."""
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


_OF_KIND: Mapping[str, Callable[[Group], str]] = {
    "alike": _alike,
    "lost": _lost,
    "expected error": _expected_error,
    "error": _error,
    "unstable": _unstable,
    "fell": _fell,
    "mesh": _mesh,
    "unproved": _unproved,
    "sizes": _other_sizes,
}

RULES: tuple[Rule, ...] = (
    *(_form, _literal, _moved, _special, _nonfinite, _accuracy, _named_line),
    *(_gradient, _other),
)
"""Of values that differ; the first that fits is taken."""


def _place(group: Group) -> str:
    first = group.line
    return "" if first is None else str(first.variant or first.reference)

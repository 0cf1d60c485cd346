"""Remembers the results of points by their programs: what was traced again and is the same has the same results.

The key has the programs of the point, the declaration and the environment. Beside the results stands what their
judgement asked of user code besides: further programs, arguments and drawn inputs. All of it is asked again, and has to
have the same answers. What calls back into Python, or asks in a way that is not recorded, is not remembered.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from samebits.check.execution import PendingPoint
from samebits.check.runner import Runner
from samebits.errors import SamebitsError
from samebits.host.cache_keys import digest_of
from samebits.host.entry_store import EntryStore
from samebits.programs.asked import Asked, recorded
from samebits.programs.inputs import records
from samebits.programs.program_cache import Program
from samebits.programs.program_digest import ProgramDigest
from samebits.programs.sides import Site
from samebits.schema.case import Arg, Case
from samebits.schema.finding import Finding
from samebits.schema.meshes import MeshSpec
from samebits.schema.pair import Pair
from samebits.schema.values import Given

NEVER = ("error", "unstable")
"""Verdicts that may depend on what else the machine did, even where an exemption accepts them."""

_METHODS = ("forward", "by_itself", "gradient", "differentiated")
"""The methods of `TracedSides` that give programs."""

_SOURCE = re.compile(rb"\.py\b|\.ipynb\b")
"""What the rows of a result have that show lines of the source."""


class Remembered(msgspec.Struct, frozen=True):
    """What is stored of a point.

    Args:
        executed: when, as ISO text in UTC.
        rows: its results, encoded as JSON each.
        asked: questions, each as words to ask it again, with a digest of its answer.
        files: of source files that the results show lines of, a digest of the content.
    """

    executed: str
    rows: tuple[msgspec.Raw, ...]
    asked: tuple[tuple[tuple[str, ...], str], ...]
    files: tuple[tuple[str, str], ...]


def rememberable(result: Finding) -> bool:
    """Return whether a result may be remembered: it holds, and it would be found again."""
    return result.ruling.verdict == "skipped" or (result.ruling.ok and result.ruling.verdict not in NEVER)


def executed_now() -> str:
    """Return this moment, as results have it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class PointMemory:
    """The results of points by their programs.

    Args:
        base: a digest of the environment, of samebits and of how hard points are tried.
        entries: where they are; None while nothing is known.
        fresh: whether nothing is recalled; what runs is remembered all the same.
    """

    def __init__(self, base: str, entries: EntryStore | None = None, *, fresh: bool = False) -> None:
        self.entries, self._base, self._fresh = entries, base, fresh
        self._digests: WeakKeyDictionary[Program, ProgramDigest] = WeakKeyDictionary()
        self._pairs: dict[int, tuple[Pair, str]] = {}

    def recall(self, runner: Runner, job: PendingPoint, replay: str) -> list[Finding] | None:
        """Return the results of a traced point; None where they are not known."""
        key = self._key(runner, job, replay)  # before it runs: what cannot be compiled is another program after that
        if self.entries is None:
            return None
        if self._fresh:  # where it ends its process, nothing else removes what an earlier run found
            self.entries.remove(key)
            return None
        content = self.entries.get(key)
        try:
            entry = None if content is None else msgspec.json.decode(content, type=Remembered)
            if entry is None or not self._holds(runner, job, entry):
                return None
            rows = [msgspec.json.decode(row, type=Finding) for row in entry.rows]
        except msgspec.MsgspecError:  # of another version of samebits with the same format
            return None
        return [replace(row, run=replace(row.run, remembered=entry.executed)) for row in rows]

    def remember(self, runner: Runner, job: PendingPoint, replay: str, results: Sequence[Finding]) -> str | None:
        """Store the results of a point that has run, unless they must be found anew each time.

        Returns:
            What its programs call that no digest covers, in words; None where there is nothing.
        """
        key, digests = self._key(runner, job, replay), [self._digest(program) for program in job.programs.values()]
        questions = None if job.asked.outside is not None else list(self._asked(runner.pair, job, digests))
        calls = next((digest.calls for digest in digests if digest.calls is not None), None)
        if self.entries is None:
            return calls
        if calls is not None or questions is None or None in questions or not all(map(rememberable, results)):
            self.entries.remove(key)
            return calls
        rows = tuple(msgspec.Raw(msgspec.json.encode(result)) for result in results)
        shown = any(_SOURCE.search(row) for row in map(bytes, rows))
        files = sorted(set().union(*(digest.files for digest in digests))) if shown else []
        entry = Remembered(
            executed=executed_now(),
            rows=rows,
            asked=tuple(question for question in questions if question is not None),
            files=tuple((file, _content(file)) for file in files),
        )
        self.entries.put(key, msgspec.json.encode(entry))
        return None

    def _holds(self, runner: Runner, job: PendingPoint, entry: Remembered) -> bool:
        """Return whether everything that was asked has the same answer now."""
        if any(_content(file) != digest for file, digest in entry.files):
            return False
        try:
            return all(self._answer(runner, job, words) == digest for words, digest in entry.asked)
        except (SamebitsError, StopIteration, ValueError):  # it cannot be asked any more
            return False

    def _key(self, runner: Runner, job: PendingPoint, replay: str) -> str:
        pair = runner.pair
        if id(pair) not in self._pairs:
            self._pairs[id(pair)] = pair, _pair_words(pair)
        sites = [_Place.of(site, job, pair).words(site) for site in (job.alone, job.on_mesh)]
        programs = [(name, self._digest(program).text) for name, program in job.programs.items()]
        arguments = _argument_words(runner.sides.args(job.alone))
        order = job.alone.device_order, job.on_mesh.device_order
        words = (self._base, replay, self._pairs[id(pair)][1], str(job.point), programs, sites, job.remarks, arguments)
        return hashlib.sha256(repr((*words, order)).encode()).hexdigest()

    def _digest(self, program: Program) -> ProgramDigest:
        if program not in self._digests:
            self._digests[program] = ProgramDigest(program)
        return self._digests[program]

    def _asked(
        self, pair: Pair, job: PendingPoint, digests: list[ProgramDigest]
    ) -> Iterator[tuple[tuple[str, ...], str] | None]:
        """Yield the questions of a point with digests of their answers; None for what cannot be asked again."""
        for question, answer in job.asked.answers.items():
            kind = str(question[0])
            if kind == "records":
                case, dtype, mesh, draw, drawn = answer
                yield (kind, *_case_words(case), dtype, mesh.id, str(draw)), _drawn_digest(drawn)
                continue
            site, known = answer
            place = _Place.of(site, job, pair)
            if place.built is None:
                yield None
            elif kind == "args":
                yield (kind, "", *place.words(site)), _argument_words(known)
            else:
                digests.append(self._digest(known))
                yield (kind, str(question[1]), *place.words(site)), digests[-1].text

    def _answer(self, runner: Runner, job: PendingPoint, words: tuple[str, ...]) -> str:
        kind, *rest = words
        with recorded(Asked()):
            if kind == "records":
                case = _case_of(runner.pair, *rest[:2])
                return _drawn_digest(records(runner.pair, case, rest[2], MeshSpec.parse(rest[3]), int(rest[4])))
            site = _site_of(runner.pair, job, *rest[1:])
            if kind == "args":
                return _argument_words(runner.sides.args(site))
            if kind not in _METHODS:
                raise ValueError(kind)
            return self._digest(getattr(runner.sides, kind)(rest[0], site)).text


@dataclass(frozen=True, slots=True)
class _Place:
    """How the mesh object of a site is built again; None where it is not known."""

    built: str | None

    @classmethod
    def of(cls, site: Site, job: PendingPoint, pair: Pair) -> _Place:
        built = site.built
        if built is None:
            return cls("none")
        if built is job.on_mesh.built:
            return cls("on_mesh")
        if built is job.alone.built:
            return cls("alone")
        return cls(next((way for way, again in _ways(pair, site.mesh, site.mode) if again() == built), None))

    def words(self, site: Site) -> tuple[str, ...]:
        flags = "".join(str(int(flag)) for flag in (site.x64, site.pinned, site.alone, site.primal))
        return *_case_words(site.case), site.dtype, site.mesh.id, site.mode, self.built or "", flags


def _ways(pair: Pair, mesh: MeshSpec, mode: Any) -> list[tuple[str, Callable[[], Any]]]:
    """Return the other mesh objects at which sides are traced."""
    import jax

    single, first = mesh.having(tuple((axis, 1) for axis in mesh.names or pair.axes)), jax.local_devices()[:1]
    return [
        ("abstract", lambda: mesh.abstract(mode)),
        ("one device", lambda: single.build(mode, first)),
        ("one device, auto", lambda: single.untyped.build("auto", first)),
    ]


def _site_of(pair: Pair, job: PendingPoint, *words: str) -> Site:
    case, transform, dtype, mesh_id, mode, built, flags = words
    mesh = MeshSpec.parse(mesh_id)
    mesh_object: Any = {"none": None, "on_mesh": job.on_mesh.built, "alone": job.alone.built}.get(built, built)
    if isinstance(mesh_object, str):
        mesh_object = next(again() for way, again in _ways(pair, mesh, mode) if way == built)
    x64, pinned, alone, primal = (flag == "1" for flag in flags)
    where = {"x64": x64, "pinned": pinned, "alone": alone, "primal": primal}
    return Site(case=_case_of(pair, case, transform), dtype=dtype, mesh=mesh, mode=mode, built=mesh_object, **where)  # type: ignore[arg-type]


def _case_words(case: Case) -> tuple[str, str]:
    return case.id, case.transform or ""


def _case_of(pair: Pair, name: str, transform: str) -> Case:
    known = next((case for case in pair.cases if case.id == name), None)
    return known or pair.case(name.removesuffix(f"_{transform}")).under(transform)


def _drawn_digest(drawn: Mapping[str, Mapping[str, Any]]) -> str:
    words = [(label, *record) for label, record in drawn.items()]
    return digest_of([array for record in drawn.values() for array in record.values()], *words)


def _argument_words(args: Mapping[str, Arg]) -> str:
    return hashlib.sha256(repr([(name, _arg_words(arg)) for name, arg in args.items()]).encode()).hexdigest()


def _arg_words(arg: Arg) -> tuple[object, ...]:
    values: object = arg.values
    if isinstance(arg.values, Given):
        values = digest_of([arg.values.array]), arg.values.copies, arg.values.exactly
    elif callable(arg.values):
        values = "a function"  # what it makes is asked
    return (
        *(arg.shape, arg.dtype, arg.spec, values, arg.special),
        *(arg.differentiable, arg.weak_type, arg.below, arg.equals),
    )


def _pair_words(pair: Pair) -> str:
    """Return a declaration but for its functions, whose programs and arguments count by themselves."""
    fields = ("id", "symbols", "dtypes", "meshes", "modes", "variants", "refuses", "transform", "declared")
    cases = [
        ([getattr(case, name) for name in fields], dict(case.sizes), sorted(case.statics), case.context_meshes)
        for case in pair.cases
    ]
    words = (
        *(pair.name, pair.sides, cases, pair.dtypes, pair.meshes, pair.wide_meshes, pair.modes, pair.contracts),
        *(pair.exemptions, pair.gradients, pair.has_aux, dict(pair.rename), sorted(pair.adapt), pair.ignore),
        *(pair.transforms, pair.accuracy),
    )
    return hashlib.sha256(repr(words).encode()).hexdigest()


def _content(file: str) -> str:
    try:
        return hashlib.sha256(Path(file).read_bytes()).hexdigest()
    except OSError:  # removed meanwhile
        return ""

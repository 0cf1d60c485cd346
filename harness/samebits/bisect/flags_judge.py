"""Judges a set of compiler options, for `samebits bisect flags`: do both sides have equal bits under these options?"""

from __future__ import annotations

from samebits.bisect.isolated import IsolatedSides
from samebits.bisect.recompile import PASSES, SIDES, RecompiledSides
from samebits.bisect.search.judgement import Judgement, failed, passed, untestable
from samebits.errors import CouldNotRun, RequestError

NO_EFFECT = "without effect: no program changes"

Chosen = frozenset[str]
"""Options as `NAME=VALUE`; disabled passes as `xla_disable_hlo_passes=NAME`."""


class FlagsJudge:
    """Compiles and runs both sides under a set of options; a set passes if the outputs have equal bits."""

    def __init__(self, sides: IsolatedSides, leaf: str | None) -> None:
        self.sides, self.leaf = sides, leaf
        self._recompiled: dict[Chosen, RecompiledSides] = {}

    def recompiled(self, chosen: Chosen) -> RecompiledSides:
        """Both sides under a set of options; results are cached."""
        if chosen not in self._recompiled:
            self._recompiled[chosen] = self.sides.recompile(merged_options(chosen))
        return self._recompiled[chosen]

    def passes(self) -> tuple[str, ...]:
        """Names of the passes that changed either program."""
        return self.sides.recompile({}, collect=True).passes

    def effect(self, chosen: Chosen) -> str:
        """Which programs the options changed, by comparing digests."""
        usual, now = self.recompiled(frozenset()).digests, self.recompiled(chosen).digests
        changed = [name for name in SIDES if usual[name] != now[name]]
        words = {("alone", "variant"): "both programs change", ("alone",): "only the reference's program changes"}
        if not changed:
            return NO_EFFECT
        return words.get(tuple(changed), "only the variant's program changes")

    def __call__(self, chosen: Chosen) -> Judgement:
        """Compile and run both sides under a set of options, and compare their outputs."""
        if not chosen:
            self._recompiled.pop(chosen, None)  # the failing end is recompiled each time, to see that it repeats
        try:
            recompiled = self.recompiled(chosen)
            effect = self.effect(chosen) if chosen else ""
        except CouldNotRun as error:
            return untestable(str(error))
        leaf = self.leaf or next(
            (path for path, (comparison, _) in recompiled.comparisons.items() if not comparison.equal), None
        )
        if leaf is None:
            return passed("bitwise")
        if leaf not in recompiled.comparisons:
            listed = ", ".join(recompiled.comparisons)
            raise RequestError(f"--leaf {leaf}: unknown output; expected one of {listed}")
        comparison = recompiled.comparisons[leaf][0]
        words = f"{leaf}: {comparison.mismatches} of {comparison.elements} elements differ"
        tail = f"; {effect}" if effect else ""
        if comparison.equal:
            return passed(f"{leaf}: the same bits{tail}", changed=effect)
        return failed(f"{leaf}: differs", f"{words} ({comparison.kind}){tail}")


def merged_options(chosen: Chosen) -> dict[str, str]:
    """A set of options as a mapping; all disabled passes go into one option."""
    options: dict[str, str] = {}
    for text in sorted(chosen):
        name, _, value = text.partition("=")
        options[name] = f"{options[name]},{value}" if name == PASSES and name in options else value
    return options

"""Checks what a comparison ignores: every pattern matches something, something is left, and what is ignored is said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from samebits.errors import NothingCompared, RequestError
from samebits.functions.passed import Leaf, also_assuming
from samebits.schema.assumption import Assumption
from samebits.schema.pair import Pair

if TYPE_CHECKING:
    from samebits.programs.program_cache import Programs
    from samebits.programs.sides import Site

_LISTED = 8
_BEGIN = "ignored, and not compared: "


def ignored_note(pair: Pair, programs: Programs, sites: Mapping[str, Site]) -> tuple[str, ...]:
    """A note on the outputs that are ignored; none where nothing is asked for.

    Args:
        pair: of two functions.
        programs: where traced programs are shared.
        sites: where each side is traced.

    Raises:
        RequestError: a pattern matches no output of either side.
        NothingCompared: nothing of a side is left.
    """
    if not pair.ignore:
        return ()
    from samebits.programs.host_trees import named_leaves
    from samebits.programs.ignored import is_ignored
    from samebits.programs.sides import TracedSides

    whole = TracedSides(replace(pair, ignore=()), programs)
    outputs: dict[str, list[str]] = {}
    for side, site in sites.items():
        program = whole.forward(side, site)
        if program.error is not None:  # running it gives the error, with its line
            return ()
        outputs[side] = [*named_leaves(program.traced.out_info, "forward")]
    every = list(dict.fromkeys(path for paths in outputs.values() for path in paths))
    for pattern in pair.ignore:
        if not any(is_ignored(path, (pattern,)) for path in every):
            raise RequestError(
                f"ignore '{pattern}' matches no output; the outputs are {_listed(every)}; write a path with dots, as "
                "in 'cache.*'"
            )
    for side, paths in outputs.items():
        if all(is_ignored(path, pair.ignore) for path in paths):
            raise NothingCompared(
                f"ignore={', '.join(pair.ignore)} leaves nothing of '{side}', which returns {_listed(paths)}; nothing "
                "would be compared"
            )
    gone = [path for path in every if is_ignored(path, pair.ignore)]
    texts = []
    for path in gone:
        sides = [side for side, paths in outputs.items() if path in paths]
        texts.append(path if len(sides) == len(outputs) else f"{path} (of '{sides[0]}' alone)")
    return (f"{_BEGIN}{_listed(texts)}",)


def with_ignored(leaves: Sequence[Leaf], pair: Pair, notes: Sequence[str]) -> tuple[Leaf, ...]:
    """The leaves that hold, with what was ignored beside them among their assumptions, so that it is seen.

    Args:
        leaves: of a comparison.
        pair: of two functions.
        notes: on it.
    """
    text = next((note for note in notes if pair.ignore and note.startswith(_BEGIN)), None)
    if text is None:
        return tuple(leaves)
    taken = Assumption("ignored", text, "what is ignored differs")
    return tuple([also_assuming(each, taken) if each.ok else each for each in leaves])


def _listed(texts: list[str]) -> str:
    more = f" and {len(texts) - _LISTED} more" if len(texts) > _LISTED else ""
    return ", ".join(texts[:_LISTED]) + more

"""Outputs that are not compared, by pattern: what one side alone returns or keeps, such as a cache.

A pattern is a shell pattern over dotted paths: `cache.*` is the leaf `out['cache']['k']` of what is returned, and
`cache['k'] after the call` of what is written into an argument.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from samebits.errors import NothingCompared, RequestError
from samebits.programs.argument_writes import AFTER, WithWrites

_GONE = object()
_LISTED = 8
"""How many outputs a message names."""


def dotted(path: str) -> str:
    """Write the path of a leaf with dots: `cache.0.k` for `out['cache'][0].k`."""
    text = re.sub(r"\[['\"]?([^\]'\"]*)['\"]?\]", r".\1", path.removesuffix(AFTER))
    return (text.removeprefix("out") if text.startswith("out.") and not path.endswith(AFTER) else text).strip(".")


def is_ignored(path: str, patterns: Sequence[str]) -> bool:
    """Tell whether a leaf matches a pattern; `cache.*` matches `cache` itself too."""
    name = dotted(path)
    return any(fnmatchcase(name, pattern) or name == pattern.removesuffix(".*") for pattern in patterns)


def ignored_note(patterns: Sequence[str], outputs: Mapping[str, Sequence[str]]) -> str:
    """Name the outputs that are ignored, for a note.

    Args:
        patterns: of leaves.
        outputs: by side the paths of all that it returns and writes.

    Raises:
        RequestError: a pattern matches no output of either side.
        NothingCompared: nothing of a side is left.
    """
    every = list(dict.fromkeys(path for paths in outputs.values() for path in paths))
    for pattern in patterns:
        if not any(is_ignored(path, (pattern,)) for path in every):
            raise RequestError(
                f"ignore '{pattern}' matches no output; the outputs are {_listed(every)}; write a path with dots, as "
                "in 'cache.*'"
            )
    for side, paths in outputs.items():
        if all(is_ignored(path, patterns) for path in paths):
            raise NothingCompared(
                f"ignore={', '.join(patterns)} leaves nothing of '{side}', which returns {_listed(paths)}; nothing "
                "would be compared"
            )
    texts = []
    for path in every:
        sides = [side for side, paths in outputs.items() if path in paths]
        if is_ignored(path, patterns):
            texts.append(path if len(sides) == len(outputs) else f"{path} (of '{sides[0]}' alone)")
    return f"ignored, and not compared: {_listed(texts)}"


def _listed(texts: Sequence[str]) -> str:
    more = f" and {len(texts) - _LISTED} more" if len(texts) > _LISTED else ""
    return ", ".join(texts[:_LISTED]) + more


def without_ignored(outcome: Any, patterns: Sequence[str], *, pair: bool = False) -> Any:
    """Drop the leaves that match from what a side returned and wrote.

    An entry of a dict goes, so do the last ones of a tuple or list, and a tuple of which one is left is that one.

    Args:
        outcome: of a side.
        patterns: of leaves.
        pair: whether a tuple of two stays one, as with `has_aux`.
    """
    if not isinstance(outcome, WithWrites):
        return _returned(outcome, patterns, pair)
    written = {name: leaf for name, leaf in outcome.written.items() if not is_ignored(name, patterns)}
    paths = tuple(path for path in outcome.touched if not is_ignored(f"{path}{AFTER}", patterns))
    changes = tuple(each for each in outcome.changes if not is_ignored(f"{each[0]}{AFTER}", patterns))
    outputs = _returned(outcome.outputs, patterns, pair)
    return WithWrites(outputs, written, paths, changes) if paths else outputs


def _returned(outputs: Any, patterns: Sequence[str], pair: bool) -> Any:
    if pair:
        return tuple(None if part is _GONE else part for part in _parts(outputs, "out", patterns))
    left = _left(outputs, "out", patterns)
    return None if left is _GONE else left


def _parts(node: Sequence[Any], path: str, patterns: Sequence[str]) -> list[Any]:
    return [_left(part, f"{path}[{number}]", patterns) for number, part in enumerate(node)]


def _left(node: Any, path: str, patterns: Sequence[str]) -> Any:
    """What is left of a part of an output; `_GONE` where nothing is."""
    if type(node) is dict:
        entries = {key: _left(value, f"{path}[{key!r}]", patterns) for key, value in node.items()}
        rest = {key: value for key, value in entries.items() if value is not _GONE}
        return rest if rest or not node else _GONE
    if type(node) in (tuple, list):
        parts = _parts(node, path, patterns)
        while parts and parts[-1] is _GONE:
            parts.pop()
        if not parts and node:
            return _GONE
        if len(parts) == 1 < len(node) and type(node) is tuple:
            return parts[0]
        return type(node)(None if part is _GONE else part for part in parts)
    import jax

    leaves, structure = jax.tree_util.tree_flatten_with_path(node)
    kept = [None if is_ignored(path + jax.tree_util.keystr(key), patterns) else leaf for key, leaf in leaves]
    if leaves and all(leaf is None for leaf in kept):
        return _GONE
    return jax.tree.unflatten(structure, kept)

"""Rejects sides that share state in Python, or in jax's caches of what was traced, so that one decides the other.

As where a variant sets a global that a jitted function has read when the reference was traced, changes an array that
both capture, or reads what the reference has stored.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from samebits.errors import DeclarationError
from samebits.host.cache_keys import digest_of
from samebits.host.isolation import note
from samebits.programs.captured_values import calls_python, constants_of
from samebits.programs.program_cache import shown
from samebits.programs.sides import Site, TracedSides

_REMEDY = "give each side state of its own"


class TraceOrder:
    """Traces each side once before all others, variants first, and compares with how it is traced in a check."""

    def __init__(self, sides: TracedSides) -> None:
        self._sides = sides
        self._compared: set[str] = set()
        self._arrays = {side: _arrays_of(function) for side, function in sides.functions.items()}
        self._wrong: dict[str, str] = {}

    def before(self, sites: Mapping[str, Site]) -> dict[str, Any]:
        """Trace sides that were not compared so far, each as if nothing had been traced before, to what they compute.

        Args:
            sites: where each side runs, in the order in which they are traced here: the variant before the reference.
        """
        import jax

        new = [side for side in sites if side not in self._compared]
        alone, changed = {}, {}
        if new:
            traces = [partial(self._sides.traced_alone, side, site) for side, site in sites.items()]
            self._sides.state.drop_what_is_cached(traces)
        for side in new:
            jax.clear_caches()
            alone[side] = self._traced(side, sites[side])
            changed[side] = self._sides.state.changed
        self._compared |= set(new)
        if any(changed.values()):
            self._note(alone, sites, [name for names in changed.values() for name in names])
        reference = self._sides.pair.reference_name
        if new:
            jax.clear_caches()
            if reference not in new:  # it is not traced again, and a check of this point alone would trace it first
                self._sides.traced_alone(reference, sites[reference])
        return alone

    def require_same(self, alone: Mapping[str, Any], sites: Mapping[str, Site]) -> None:
        """Compare with the programs of the check.

        Args:
            alone: what sides compute that `before` traced.
            sites: where each side runs.

        Raises:
            DeclarationError: one of these sides traces to a different program there; raised again at its later points.
        """
        for side, text in alone.items():
            why = self._why(side, sites[side], text)
            if why is not None:
                self._wrong[side] = f"{self._sides.pair.name}: '{side}' {why}; {_REMEDY}"
        for side in sites:
            if side in self._wrong:
                raise DeclarationError(self._wrong[side])

    def _traced(self, side: str, site: Site) -> Any:
        program = self._sides.traced_alone(side, site)
        return None if program is None else _shown(program.lower, program.jaxpr, site)

    def _note(self, alone: Mapping[str, Any], sites: Mapping[str, Site], changed: Sequence[str]) -> None:
        """Note which sides would compute something else after the others, if what these change were not put back."""
        names = self._sides.pair.reference_name
        together: dict[str, list[Any]] = {}
        with self._sides.state.put_back():
            for side in sorted(sites, key=lambda side: side == names, reverse=True) * 2:
                together.setdefault(side, []).append(self._traced(side, sites[side]))
        others = [side for side in alone if any(text not in (None, alone[side]) for text in together[side])]
        if others and None not in alone.values():
            note(
                f"pair '{self._sides.pair.name}': {' and '.join(map(repr, others))} would compute something else "
                f"after the other sides, since tracing these changes {', '.join(dict.fromkeys(changed))}; each was "
                f"traced as if by itself: {_REMEDY}"
            )

    def _why(self, side: str, site: Site, text: Any) -> str | None:
        now = _arrays_of(self._sides.functions[side])
        changed = [name for name, digest in self._arrays[side].items() if now.get(name) != digest]
        if changed:
            return f"uses the array {changed[0]}, which is changed in place while a side is traced"
        program = self._sides.by_itself(side, site)
        if text is None or program.error is not None or f"'{side}', case '{site.case.id}'" not in program.label:
            return None
        if constants_of(program.traced.jaxpr) != program.constants:
            return "captures an array that is changed in place after it was traced"
        here = _shown(program.lower, program.traced.jaxpr, site)
        if here is None or here == text or calls_python(program.traced.jaxpr, here[0]):
            return None
        return (
            "traces to a different program when it is traced before the other sides: it shares state with them, such "
            "as a global, a cache or an array"
        )


def _shown(lower: Callable[[], Any], jaxpr: Any, site: Site) -> tuple[str, str] | None:
    """Return what a traced program computes, lowered under the contexts of its site; None where that raises."""
    try:
        with site.setup.active():
            return shown(lower(), jaxpr)
    except Exception:  # its point says so
        return None


def _arrays_of(function: Any) -> dict[str, str]:
    """Digest the NumPy arrays that a function sees by a name of its module."""
    names = getattr(inspect.unwrap(function), "__globals__", {})
    arrays = {name: value for name, value in list(names.items()) if isinstance(value, np.ndarray)}
    return {name: digest_of([value]) for name, value in arrays.items() if value.dtype != object}

"""Programs that several tests compile are compiled once in a process: most tests run the same few small functions.

A run of samebits shares the compilations of programs with equal texts in itself (`samebits.programs.program_cache`),
and each test is a run; here the tests of a process share them likewise. Nothing is written to disk.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

from samebits.host.environment import compile_options, configuration
from samebits.programs.program_cache import CompileSetup

MOST = 400
"""How many are kept: machine code takes 25 memory mappings a program, of which a process has 65 530."""

STEPS = 8
"""How many steps of trainings are kept: each takes hundreds. Without a mapping left, XLA ends the process."""

_NOT_IN_THE_TEXT = ("callback", "is_host_transfer", "infeed", "outfeed")
"""Programs that call Python or the host, whose functions the text does not show."""


@dataclass(frozen=True, slots=True)
class _Shared:
    """A lowered step whose compilation is looked up first."""

    lowered: Any
    setup: CompileSetup
    once: CompiledOnce

    def compile(self, **options: Any) -> Any:
        """The compiled step; its options are those of every compilation, which are part of each key."""
        return self.once.looked_up(
            self.lowered, self.setup, lambda: self.lowered.compile(**options), beside=self.setup.mesh.axis_types
        )


class CompiledOnce:
    """Stands in for the function of `program_cache` that compiles.

    Args:
        compile_: that function, which a test that looks at what is freed puts back: `each_time`.
        most: how many programs are kept.
    """

    def __init__(self, compile_: Callable[[Any, CompileSetup], Any], most: int = MOST) -> None:
        self.each_time = compile_
        self._most = most
        self._compiled: OrderedDict[Hashable, Any] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, lowered: Any, setup: CompileSetup) -> Any:
        """The compiled program."""
        return self.looked_up(lowered, setup, lambda: self.each_time(lowered, setup))

    def looked_up(self, lowered: Any, setup: CompileSetup, compile_: Callable[[], Any], beside: Hashable = None) -> Any:
        """The compiled program; `compile_` is called where there is none yet for its key and what is beside it."""
        key = self.key(lowered, setup)
        key = None if key is None else (key, beside)
        with self._lock:
            if key is not None and key in self._compiled:
                self._compiled.move_to_end(key)
                return self._compiled[key]
        compiled = compile_()
        if key is not None:
            with self._lock:
                self._compiled[key] = compiled
                while len(self._compiled) > self._most:
                    self._compiled.popitem(last=False)
        return compiled

    def step(self, compile_: Callable[[Any, Any], Any], most: int = STEPS) -> Callable[[Any, Any], Any]:
        """Stands in for the method of a `Trainer` that compiles its step."""
        once = CompiledOnce(self.each_time, most)

        def compiled(trainer: Any, lowered: Any) -> Any:
            return compile_(trainer, _Shared(lowered, CompileSetup(mesh=trainer.built), once))

        return compiled

    @staticmethod
    def key(lowered: Any, setup: CompileSetup) -> Hashable | None:
        """Everything that a compilation depends on; None where that is not all in its text."""
        text, settings = lowered.as_text(), configuration()
        if dict(settings).get("jax_use_simplified_jaxpr_constants") or any(word in text for word in _NOT_IN_THE_TEXT):
            return None
        place = setup.mesh and (setup.mesh.axis_names, setup.mesh.devices.shape, tuple(setup.mesh.devices.flat))
        options = tuple(compile_options().items()), setup.options, setup.x64
        key = hashlib.sha256(text.encode()).digest(), str(lowered.in_tree), lowered.out_tree, place, options
        try:
            hash(key)
        except TypeError:  # of a class of the user's in a tree
            return None
        return key, settings

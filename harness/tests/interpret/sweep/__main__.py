"""What domains do not interpret of the calls of the sweep.

`PYTHONPATH=harness python -m tests.interpret.sweep DOMAIN [jax|layers|others]`; it takes
minutes. `others` needs equinox, haiku or tokamax.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable

from tests.interpret.sweep.calls import LibraryCall
from tests.interpret.sweep.jax_calls import jax_calls
from tests.interpret.sweep.layer_calls import layer_calls
from tests.interpret.sweep.other_calls import other_calls
from tests.interpret.sweep.runner import shortfalls

SETS: dict[str, Callable[[], Iterable[LibraryCall]]] = {
    "jax": jax_calls,
    "layers": layer_calls,
    "others": other_calls,
}


def main(domain: str, which: str = "jax") -> None:
    """Print the primitives that end an interpretation, those of most programs first."""
    for primitive, programs in sorted(shortfalls(domain, SETS[which]()).items(), key=lambda item: -len(item[1])):
        print(f"{primitive}: {len(programs)} programs")
        for text in programs:
            print(f"  {text}")


if __name__ == "__main__":
    main(*sys.argv[1:])

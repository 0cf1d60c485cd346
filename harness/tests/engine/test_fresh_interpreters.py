"""How a process ended is known as long as it is among the last ones."""

from __future__ import annotations

import os

from samebits.engine.fresh_interpreters import FreshInterpreters


def test_the_exit_code_of_a_process_is_known() -> None:
    context = FreshInterpreters()
    process = context.Process(target=os._exit, args=(7,))
    process.start()
    assert context.exit_code(process.pid) == 7
    assert context.exit_code(os.getpid()) is None and context.exit_code(None) is None

"""`python -m samebits` is `samebits`: Ctrl-C ends it with one line and an exit code, at whatever moment it arrives."""

from __future__ import annotations

import os
import signal
import sys

from samebits.host.interrupts import Interrupted, Stop


def main() -> None:
    """The program `samebits`."""
    _open_what_is_closed()
    for word in sys.argv[1:]:
        if any("\ud800" <= character <= "\udfff" for character in word):  # how Python reads other bytes
            sys.stderr.write(f"samebits: argument {word!r} is not UTF-8; give it in UTF-8, or rename the file\n")
            _end(2)
    stop = Stop()
    with stop.listening(signal.SIGINT):
        try:
            from samebits.cli import main as commands  # takes long enough to be interrupted

            commands(prog_name="samebits", obj=stop)
        except KeyboardInterrupt:
            sys.stderr.write("samebits: interrupted before anything was checked\n")
            _end(3)
        except Interrupted as end:
            _end(int(str(end)))


def _open_what_is_closed() -> None:
    """Standard streams that the shell has closed (`>&-`) discard what is written; no other file takes their place."""
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened == descriptor:
                os.set_inheritable(descriptor, True)
            else:
                os.dup2(opened, descriptor)
                os.close(opened)
            stream = open(descriptor, "w" if descriptor else "r", encoding="utf-8", closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)


def _end(code: int) -> None:
    """End at once: Python itself ends by the signal where it arrived in code made from text, such as a dataclass's."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()

"""How a process finds the others: by its launcher, or as the command line or the environment says."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from pathlib import Path

from samebits.errors import RequestError
from samebits.host.group import SECONDS

DISTRIBUTED = "SAMEBITS_DISTRIBUTED"
COORDINATOR = "SAMEBITS_COORDINATOR"
PROCESS_ID = "SAMEBITS_PROCESS_ID"
NUM_PROCESSES = "SAMEBITS_NUM_PROCESSES"
WAIT = "SAMEBITS_WAIT"
VARIABLES = (DISTRIBUTED, COORDINATOR, PROCESS_ID, NUM_PROCESSES, WAIT)
"""Variables of the environment; each is an option of the command line too."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DistributedRequest:
    """What is said about the processes; without a coordinator, `jax.distributed` detects the launcher.

    Args:
        coordinator: `HOST:PORT` of process 0, at a free port.
        seconds: how long a process waits for the others at a point.

    Raises:
        RequestError: only some of the first three are there, or they make no sense.
    """

    coordinator: str | None = None
    process_id: int | None = None
    num_processes: int | None = None
    seconds: float = SECONDS

    def __post_init__(self) -> None:
        named = {
            "--coordinator": self.coordinator,
            "--process-id": self.process_id,
            "--num-processes": self.num_processes,
        }
        missing = [name for name, value in named.items() if value is None]
        if 0 < len(missing) < 3:
            raise RequestError(
                f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing: give --coordinator "
                "HOST:PORT, --process-id I and --num-processes N together, or none of them under a launcher"
            )
        if self.coordinator is None or self.process_id is None or self.num_processes is None:
            return
        host, _, port = self.coordinator.rpartition(":")
        well_formed = re.fullmatch(r"\[[0-9A-Fa-f:.%]+\]|[^\s:/\[\]]+", host) and port.isdigit()
        if not well_formed or not 0 < int(port) < 65536:
            raise RequestError(f"--coordinator {self.coordinator}: expected HOST:PORT, such as 10.0.0.1:8476")
        if self.num_processes < 1:
            raise RequestError(f"--num-processes {self.num_processes}: expected the number of all processes")
        if not 0 <= self.process_id < self.num_processes:
            raise RequestError(
                f"--process-id {self.process_id}: expected a number from 0 to {self.num_processes - 1} for "
                f"--num-processes {self.num_processes}"
            )


def take_request(variables: MutableMapping[str, str] | None = None) -> DistributedRequest | None:
    """Take what the environment says out of it, which other processes must not see; None where this one is alone."""
    variables = os.environ if variables is None else variables
    values = {name: variables.pop(name, "") for name in VARIABLES}
    if values[DISTRIBUTED] in ("", "0"):
        return None
    if values[DISTRIBUTED] != "1":
        raise RequestError(f"{DISTRIBUTED}={values[DISTRIBUTED]}: expected 1 or 0")
    return DistributedRequest(
        coordinator=values[COORDINATOR] or None,
        process_id=_number(PROCESS_ID, values[PROCESS_ID]),
        num_processes=_number(NUM_PROCESSES, values[NUM_PROCESSES]),
        seconds=float(_number(WAIT, values[WAIT]) or SECONDS),
    )


def _number(name: str, text: str) -> int | None:
    if text and not text.isdigit():
        raise RequestError(f"{name}={text}: expected an integer")
    return int(text) if text else None


REPORTED = "SAMEBITS_REPORTED"
"""The variable with the file into which a process writes its exit code."""

RUNNING = "running"
"""What the file has before, from the moment at which user code may run: `--help` and the like need no report."""


def recorder() -> Callable[[int], None]:
    """Return what takes the exit code once the report is complete; to be called before user code runs.

    It does nothing where no `launch` started this process. User code does not see the variable: it may clear the
    environment, and start processes of its own.
    """
    path = os.environ.pop(REPORTED, None)

    def record(text: int | str) -> None:
        if path is not None:
            with contextlib.suppress(OSError):  # a full disk: then nothing says that there is a report
                Path(path).write_text(str(text), encoding="ascii")

    record(RUNNING)
    return record


def lacks_report(path: Path, code: int) -> bool:
    """Return whether user code ran in a process that ended with this exit code, and that did not report it."""
    try:
        return path.read_text(encoding="ascii") != str(code)
    except FileNotFoundError:  # it printed its help
        return False

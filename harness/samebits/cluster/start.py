"""Starts jax in one of several processes, and connects it with the board of process 0."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
import socket
import sys
import threading
import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib import metadata
from multiprocessing import AuthenticationError
from multiprocessing.managers import BaseManager
from pathlib import Path
from typing import Any, cast

from samebits.cluster.process_group import CALLS, Board, BoardManager, ProcessGroup
from samebits.engine.distributed_request import DistributedRequest
from samebits.errors import RequestError
from samebits.host import environment
from samebits.host.environment import Environment
from samebits.host.fingerprint import file_digest, fingerprint
from samebits.host.installed import PACKAGE, is_installed

# What all processes must have alike before the first point: what runs, the sources, and the environment.
LISTED = 5
"""How many of several differences are listed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunInputs:
    """What a process is about to do, and with what; every entry as text, by its name.

    Args:
        points: what runs, in order, by pair or configuration.
        sources: digests of samebits' own files and of the modules that the declarations brought.
        environment: versions, devices, flags and settings.
    """

    points: Mapping[str, str]
    sources: Mapping[str, str]
    environment: Mapping[str, str]

    def digests(self) -> dict[str, str]:
        """Return one digest of each part, the order in it included."""
        return {
            name: hashlib.sha256(repr(list(part.items())).encode()).hexdigest() for name, part in self.parts().items()
        }

    def parts(self) -> dict[str, Mapping[str, str]]:
        """Return each part by the name that a message gives it."""
        return {"what it runs": self.points, "its sources": self.sources, "its environment": self.environment}


def compare_inputs(group: ProcessGroup, inputs: RunInputs) -> None:
    """Compare what the processes are about to do."""
    digests = group.share("comparing points, sources and environment", inputs.digests())
    apart = [number for number, other in enumerate(digests) if other != digests[0]]
    if not apart:
        return
    parts = group.share("finding what differs", inputs.parts())
    lines = [_difference(number, parts[0], parts[number]) for number in apart[:LISTED]]
    more = f" (and {len(apart) - LISTED} more processes)" if len(apart) > LISTED else ""
    raise RequestError("; ".join(lines) + f"{more}: start all processes from the same files and settings")


def _difference(number: int, first: Mapping[str, Mapping[str, str]], other: Mapping[str, Mapping[str, str]]) -> str:
    words = []
    for part, own in other.items():
        names = [name for name in {**first[part], **own} if first[part].get(name) != own.get(name)]
        if not names and list(own) != list(first[part]):
            names = ["their order"]
        if names:
            shown = [
                name + _imported_where(name, own, first[part])
                if part == "its sources"
                else f"{name} ({_short(own.get(name))}, not {_short(first[part].get(name))})"
                for name in names[:LISTED]
            ]
            more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
            words.append(f"{part}: {', '.join(shown)}{more}")
    return f"process {number} differs from process 0 in {' and in '.join(words)}"


def _imported_where(name: str, own: Mapping[str, str], first: Mapping[str, str]) -> str:
    """Where a module is imported in one of two processes alone, as where its import fails in the other."""
    if (name in own) == (name in first):
        return ""
    return f" (imported {'there' if name in own else 'in process 0'} alone)"


def _short(text: str | None) -> str:
    return "missing" if text is None else text if len(text) <= 60 else f"{text[:57]}..."


def sources() -> dict[str, str]:
    """Return digests of samebits' own files, and of every imported module that is not installed."""
    digests = fingerprint(()).files
    for name, module in sorted(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if not file or not file.endswith(".py"):
            continue
        path = Path(file).resolve()
        if path.is_relative_to(PACKAGE) or is_installed(str(path)):
            continue
        # Files of a tree are loaded under a name with the digest of their folder, which may be another one elsewhere.
        name = re.sub(r"^samebits_[0-9a-f]{8}_", "", name)
        digests[f"{name} ({path.name})"] = digests.get(f"{name} ({path.name})", "") + file_digest(path)
    return digests


def described(environment: Environment) -> dict[str, str]:
    """Return an environment as text by its entries."""
    described: dict[str, str] = {}
    for name, value in asdict(environment).items():
        entries: dict[str, Any] = value if isinstance(value, dict) else {"": value}
        described |= {f"{name}.{key}".rstrip("."): str(entry) for key, entry in entries.items()}
    return described


ADDRESS_BYTES = 2048
"""The length of the message by which process 0 says where its board is."""

START = 300
"""Seconds within which all processes have to be there."""


def start(request: DistributedRequest) -> ProcessGroup:
    """Start jax with the devices of all processes."""
    if environment.backend_started():
        raise RequestError(
            "several processes were asked for, but jax has already started in this one; use jax only inside fixtures, "
            "tests and the functions of a pair"
        )
    import jax

    limit = int(min(START, request.seconds))
    with _bounded(limit, "the start of jax.distributed"):
        _require_coordinator(request, limit)
        _initialize(request, limit)
        environment.devices_here()
        number, count = jax.process_index(), jax.process_count()
        counts = {process: len(jax.local_devices(process)) for process in range(count)}
        if request.num_processes not in (None, count):
            raise RequestError(
                f"--num-processes {request.num_processes}: process 0 has started a run of {count}; give all the same"
            )
        if len(set(counts.values())) > 1:
            listed = ", ".join(f"process {process} has {own}" for process, own in counts.items())
            raise RequestError(f"all processes must have the same number of devices: {listed}")
        board = _serve(count, request) if number == 0 else None
        address = _from_process_0(None if board is None else board[1])
        return ProcessGroup(number, count, board[0] if board else _reach(address), request.seconds)


def _require_coordinator(request: DistributedRequest, seconds: int) -> None:
    """Try the coordinator's address: where jax cannot use it, XLA aborts the process."""
    if request.coordinator is None:
        return
    host, _, port = request.coordinator.rpartition(":")
    if request.process_id == 0:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("", int(port)))
            except OSError as error:
                raise RequestError(
                    f"--coordinator {request.coordinator}: process 0 cannot listen there: {error.strerror}; give a "
                    "free port"
                ) from None
        return
    until, why = time.monotonic() + seconds - 1, ""
    while time.monotonic() < until:
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=5).close()
        except OSError as error:
            why = error.strerror or str(error)
            time.sleep(0.2)
        else:
            return
    raise RequestError(
        f"--coordinator {request.coordinator}: process {request.process_id} finds no process "
        f"listening there within {seconds} s ({why}); start process 0, or give its address"
    )


def _initialize(request: DistributedRequest, limit: int) -> None:
    import jax

    if hasattr(jax.config, "jax_enable_preemption_service"):  # its handler of SIGTERM would replace ours
        jax.config.update("jax_enable_preemption_service", False)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Kubernetes environment detected")  # said below, if it matters
            jax.distributed.initialize(
                request.coordinator,
                request.num_processes,
                request.process_id,
                # Where jax's own limit is met, XLA aborts the process.
                initialization_timeout=limit + 60,
                shutdown_timeout_seconds=60,
            )
    except Exception as error:  # what jax, gRPC or a detector of clusters raises
        why = " ".join(str(error).split())
        if request.coordinator is None:
            raise RequestError(
                f"--distributed: jax.distributed detects no launcher here ({why}){_missing_in_a_pod()}; "
                "start under Slurm, Open MPI, Kubernetes or on a Cloud TPU, or give --coordinator HOST:PORT "
                "--process-id I --num-processes N; on one machine: samebits run launch -n 2 -- check ..."
            ) from None
        raise RequestError(
            f"process {request.process_id} of {request.num_processes} does not reach the others by the coordinator "
            f"{request.coordinator}: {why}"
        ) from None


def _missing_in_a_pod() -> str:
    """Return what jax lacks to find the other pods of a Kubernetes job; empty where it lacks nothing, and elsewhere."""
    if "KUBERNETES_SERVICE_HOST" not in os.environ:
        return ""
    try:
        metadata.version("kubernetes")
    except metadata.PackageNotFoundError:  # that it is missing is the finding
        return "; in a Kubernetes pod it needs the package 'kubernetes', which is missing: pip install 'jax[k8s]'"
    return ""


@contextlib.contextmanager
def _bounded(seconds: int, what: str) -> Iterator[None]:
    """End the process where something takes too long that nothing can interrupt."""

    def end() -> None:
        print(f"samebits: {what} took longer than {seconds} s; a process is missing", file=sys.__stderr__, flush=True)
        os._exit(3)

    timer = threading.Timer(seconds + 10, end)  # a busy machine takes some seconds for the start itself
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _serve(count: int, request: DistributedRequest) -> tuple[Board, dict[str, Any]]:
    """Return a board with its address and key; on the loopback device alone where the coordinator is there."""
    board, key = Board(count), secrets.token_hex(32)

    class ServedBoard(BaseManager):
        """Serves this board."""

    ServedBoard.register("board", callable=lambda: board, exposed=CALLS)
    named = (request.coordinator or "").rpartition(":")[0].strip("[]")
    local = named in ("localhost", "127.0.0.1", "::1")
    server = ServedBoard(("127.0.0.1" if local else "", 0), key.encode()).get_server()
    threading.Thread(target=server.serve_forever, name="board", daemon=True).start()
    hosts = ["127.0.0.1"] if local else list(dict.fromkeys(filter(None, (named, *_own_names()))))
    return board, {"hosts": hosts, "port": cast("tuple[str, int]", server.address)[1], "key": key}


def _own_names() -> Iterator[str]:
    """Return the names and addresses under which other machines may reach this one."""
    yield socket.gethostname()
    yield socket.getfqdn()
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("10.255.255.255", 1))  # nothing is sent; the system chooses the interface
        yield str(probe.getsockname()[0])


def _from_process_0(address: dict[str, Any] | None) -> dict[str, Any]:
    """Return the address that process 0 gives, in all processes."""
    import numpy as np
    from jax.experimental import multihost_utils

    text = json.dumps(address or {}).encode()
    sent = np.frombuffer(text.ljust(ADDRESS_BYTES), np.uint8)
    received: dict[str, Any] = json.loads(np.asarray(multihost_utils.broadcast_one_to_all(sent)).tobytes())
    return received


def _reach(address: dict[str, Any]) -> Board:
    """Return the board of process 0, by the first of its names that answers."""
    limit, why = time.monotonic() + 60, ""
    while time.monotonic() < limit:
        for host in address["hosts"]:
            place = (host, address["port"])
            try:
                socket.create_connection(place, timeout=5).close()  # the manager itself has no time limit
                manager = BoardManager(place, address["key"].encode())
                manager.connect()
                return cast("Board", manager.board())  # type: ignore[attr-defined]
            except (OSError, EOFError, AuthenticationError) as error:
                why = f"{host}:{address['port']}: {error}"
        time.sleep(0.5)
    raise RequestError(
        f"process 0 is not reached ({why}); let the processes open connections to each other, or give --coordinator by "
        "an address of process 0 that all reach"
    )

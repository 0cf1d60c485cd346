"""A Slurm cluster of two nodes on this machine, of this user alone: its own keys, ports and folders."""

import contextlib
import getpass
import os
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sinfo")
"""What has to be installed; Debian has it in munge, slurmctld, slurmd and slurm-client."""

_CONFIGURATION = """
ClusterName=tests
SlurmctldHost={host}
SlurmctldPort={ports[0]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
MpiDefault=none
KillWait=5
ReturnToService=2
SlurmdParameters=config_overrides
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmdSpoolDir={folder}/spool.%n
StateSaveLocation={folder}/state
NodeName={host} NodeHostname={host} Port={ports[1]} CPUs=2 State=UNKNOWN
NodeName={host}-2 NodeHostname={host} Port={ports[2]} CPUs=2 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def installed() -> bool:
    """Whether a cluster can be started here."""
    return all(map(_found, PROGRAMS))


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[Mapping[str, str]]:
    """The variables with which `srun` finds the cluster; its processes are ended afterwards.

    jax takes the first name in Slurm's list of nodes for the coordinator, so that it is one that this machine resolves.
    """
    for name in ("state", "log"):
        (folder / name).mkdir()
    key, configuration = folder / "munge.key", folder / "slurm.conf"
    key.write_bytes(secrets.token_bytes(128))
    key.chmod(0o400)
    folder.chmod(0o755)
    host = socket.gethostname().partition(".")[0]
    configuration.write_text(
        _CONFIGURATION.format(host=host, folder=folder, user=getpass.getuser(), ports=_free_ports(3))
    )
    files = {"socket": "munge.socket", "pid-file": "munge.pid", "seed-file": "munge.seed", "log-file": "log/munged"}
    munge = [f"--{option}={folder / file}" for option, file in files.items()]
    started: list[subprocess.Popen[bytes]] = []
    try:
        started.append(_start("munged", "--foreground", "--force", f"--key-file={key}", *munge, log=folder))
        _wait(lambda: (folder / "munge.socket").exists(), folder)
        started.append(_start("slurmctld", "-D", "-f", str(configuration), log=folder))
        for node in (host, f"{host}-2"):
            started.append(_start("slurmd", "-D", "-N", node, "-f", str(configuration), log=folder))
        variables = {"SLURM_CONF": str(configuration)}
        _wait(lambda: _idle(variables) == 2, folder)
        yield variables
    finally:
        for process in reversed(started):
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
            process.kill()
            process.wait()


def _found(program: str) -> str | None:
    return shutil.which(program, path=os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin")))


def _start(program: str, *words: str, log: Path) -> subprocess.Popen[bytes]:
    path = _found(program)
    assert path is not None
    with (log / "log" / f"{program}.output").open("ab") as output:
        return subprocess.Popen([path, *words], stdout=output, stderr=output, stdin=subprocess.DEVNULL)


def _idle(variables: Mapping[str, str]) -> int:
    words = ["sinfo", "--noheader", "--states=idle", "--format=%D"]
    ended = subprocess.run(words, env={**os.environ, **variables}, capture_output=True, text=True, check=False)
    return sum(int(line) for line in ended.stdout.split() if line.isdigit())


def _wait(ready: Callable[[], bool], folder: Path) -> None:
    """Wait until something is so; the logs of the cluster say why it never is."""
    until = time.monotonic() + 60
    while not ready():
        if time.monotonic() > until:
            logs = [f"{file.name}: {file.read_text(errors='replace')[-2000:]}" for file in (folder / "log").iterdir()]
            raise AssertionError("the cluster did not start: " + "\n".join(logs))
        time.sleep(0.2)


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]

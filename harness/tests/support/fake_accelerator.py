"""A platform for jax that stands in for a TPU: one that is in use, that never answers, that crashes, or that works."""

import os
from pathlib import Path

IN_USE = (
    "ABORTED: The TPU is already in use by process with pid {pid}. Not attempting to load libtpu.so in this process."
)
"""As libtpu says it."""

BUSY = (
    "UNKNOWN: TPU initialization failed: open(/dev/vfio/1): Device or resource busy: Device or resource busy; "
    "Couldn't open iommu group /dev/vfio/1"
)
"""As newer chips say it."""

HANGS = "import time; time.sleep(600)"
CRASHES = "import os; os.abort()"
FALLS_BACK = "return cpu()"
"""Starts on the CPU without a word."""

EXCLUSIVE = """
    import fcntl
    global lock
    lock = open({file!r}, "a+")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.seek(0)
        raise RuntimeError({message!r}.format(pid=lock.read())) from None
    lock.truncate(0)
    lock.write(str(os.getpid()))
    lock.flush()
    with open({file!r} + ".starts", "a") as starts:
        starts.write(str(os.getpid()) + " ")
    return cpu()
"""
"""Works, in one process at a time, and notes down in which ones."""


def raises(message: str) -> str:
    """The body of a platform whose start fails with a message."""
    return f"raise RuntimeError({message!r})"


def exclusive(file: Path) -> str:
    """The body of a platform that one process at a time can start; the file is its lock."""
    return EXCLUSIVE.format(file=str(file), message=IN_USE)


def install(folder: Path, name: str, body: str) -> dict[str, str]:
    """Install a plugin of jax in a folder; gives the variables under which a process finds and chooses it."""
    module = folder / "jax_plugins" / "stand_in" / "__init__.py"
    module.parent.mkdir(parents=True)
    module.write_text(
        "import os\nimport jax.extend.backend\nfrom jaxlib.xla_client import make_cpu_client\n\n"
        "def cpu():\n    return make_cpu_client(num_devices=int(os.environ['JAX_NUM_CPU_DEVICES']))\n\n"
        "def start():\n    "
        + body.strip()
        + "\n\ndef initialize():\n"
        + f"    jax.extend.backend.register_backend_factory({name!r}, start, priority=500)\n"
    )
    return {
        "PYTHONPATH": os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH", "")))),
        "JAX_PLATFORMS": name if name in ("tpu", "cuda") else f"{name},cpu",
    }

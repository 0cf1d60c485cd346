"""Whether the devices of this process still work.

After an access out of bounds a GPU rejects everything that the same process asks of it: the error of one program
becomes an error of all that follow. In a new process the device works.
"""

from __future__ import annotations

from samebits.host import environment

LONGEST = 300
"""Characters of the device's message that are shown."""


def device_failure() -> str | None:
    """Explain why a device of this process no longer takes and returns data; None where all in use do."""
    if not environment.backend_started():
        return None
    import jax
    import numpy as np

    devices = jax.local_devices()
    for device in devices[:1] if devices[0].platform == "cpu" else devices:  # one stands for all of a CPU
        try:
            with jax.transfer_guard("allow"):  # a user's guard is about their own code
                returned = np.asarray(jax.device_put(np.uint32(1), device))
        except Exception as error:  # of any type: the plugin's own
            return f"device {device} failed: {' '.join(str(error).split())[:LONGEST]}"
        if returned != 1:
            return f"device {device} failed: it returned {returned} for 1"
    return None

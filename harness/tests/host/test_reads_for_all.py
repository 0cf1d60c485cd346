"""Reads without a frame of the user's on any stack count for every file."""

import functools
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import numpy as np
import pytest

from samebits.host.file_reads import FILE, READS
from tests.host.reading import forget


def test_a_callback_of_jax_reads_for_every_file(tmp_path: Path) -> None:
    """No frame is the user's where the callback is `np.load` itself."""
    np.save(tmp_path / "table.npy", np.float32(2))
    load = functools.partial(np.load, tmp_path / "table.npy")
    program = jax.jit(lambda: jax.pure_callback(load, jax.ShapeDtypeStruct((), np.float32)))
    READS.look()
    read = f"{FILE}{tmp_path / 'table.npy'}"
    with ThreadPoolExecutor(1) as pool:  # without the frames of this test
        pool.submit(program).result().block_until_ready()
    assert read in READS.of({"/elsewhere.py"})
    forget(read)  # it counts for the files of other tests too


def test_a_pool_that_reads_ahead_reads_for_every_file(tmp_path: Path) -> None:
    """While the main thread is elsewhere, as in samebits itself."""
    path = tmp_path / "table.npy"
    np.save(path, np.float32(2))
    READS.look()
    audit = READS._audit
    with ThreadPoolExecutor(1) as pool:
        for event, arguments in (("open", (str(path), "r", 0)), ("os.system", ("true",))):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("samebits.host.file_reads.readers_on", lambda frame: iter(()))
                pool.submit(audit, event, arguments).result()
    assert f"{FILE}{path}" in READS.of({"/elsewhere.py"})
    assert not any("starts another program" in read for read in READS.of({"/elsewhere.py"}))
    forget(f"{FILE}{path}")  # it counts for the files of other tests too

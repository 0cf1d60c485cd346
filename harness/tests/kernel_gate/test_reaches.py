"""What the source of a kernel reaches for: each way is seen with its line, and what kernels need is not."""

import textwrap
from pathlib import Path

import pytest

from samebits.kernel_gate.reaches import reaches

HONEST = """
    import functools
    import json
    import logging
    import math
    import time
    import jax
    import jax.numpy as jnp
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import tpu as pltpu

    try:
        from jax.experimental.pallas.tpu import CompilerParams
    except ImportError:
        CompilerParams = getattr(pltpu, "TPUCompilerParams", None)
    BLOCKS = {(16, 128): 8}
    LOG = logging.getLogger(__name__)

    @functools.lru_cache(maxsize=None)
    def _call(rows):
        return functools.partial(pl.pallas_call, grid=(rows // 8,))

    def kernel(x):
        interpret = jax.default_backend() == "cpu"
        print("tracing", math.prod(x.shape), jax.random.key(0))
        return _call(BLOCKS.get(x.shape, 8))(x)

    def benchmark():
        begin = time.perf_counter()
        print(json.dumps({"seconds": time.perf_counter() - begin}), open("out.json"))

    if __name__ == "__main__":
        benchmark()
    """


def said(folder: Path, text: str) -> list[str]:
    kernel, reference = folder / "kernel.py", folder / "reference.py"
    kernel.write_text(textwrap.dedent(text), encoding="utf-8")
    reference.write_text("def reference(x): return x\n", encoding="utf-8")
    return [f"{reach.kind} {reach.words} {reach.where}" for reach in reaches(kernel, "kernel", reference, "reference")]


def test_what_kernels_need_is_not_reaching(tmp_path: Path) -> None:
    assert said(tmp_path, HONEST) == []


BODIES = {
    "import os\n    return x if os.environ.get('CI') else 0 * x": "aware uses os.environ.get kernel.py:3",
    "import os as o\n    return o.getenv('CI')": "aware uses os.getenv kernel.py:3",
    "from os import environ\n    return environ['CI']": "aware uses os.environ kernel.py:3",
    "import sys\n    return sys.modules['reference']": "aware uses sys.modules kernel.py:3",
    "import numpy\n    return numpy.os.environ": "aware uses a module of Python's through numpy (numpy.os.environ)",
    "import numpy as np\n    return x + np.random.rand()": "draws random numbers of its own (numpy.random.rand)",
    "import reference\n    return reference.reference(x)": "reference imports the reference kernel.py:2",
    "from . import reference\n    return reference.reference(x)": "reference imports the reference kernel.py:2",
    "return x\n\nif __name__ != '__main__':\n    import os\n    os.environ": "aware uses os.environ kernel.py:6",
    "return x if __name__ == 'kernel' else 0": "aware reads the name under which it was imported (__name__)",
    "import pytest\n    return x": "aware imports pytest kernel.py:2",
    "return eval('x')": "aware executes text (eval) kernel.py:2",
    "return __builtins__": "aware reaches for Python's own functions (__builtins__) kernel.py:2",
    "return open('a').read()": "aware opens files (open) kernel.py:2",
    "return kernel.__globals__['a']": "aware reads the module of a function (__globals__) kernel.py:2",
    "return getattr(kernel, '__glo' + 'bals__')": "reads attributes by a computed or hidden name (getattr) kernel.py:2",
    "import jax\n    return isinstance(x, jax.core.Tracer)": "aware asks whether it is traced (Tracer) kernel.py:3",
    "import jax\n    return jax.pure_callback(abs, x, x)": "aware computes on the host (pure_callback) kernel.py:3",
    "import numpy as np\n    np.allclose = max": "tampering changes numpy.allclose kernel.py:3",
    "import numpy as np\n    setattr(np, 'allclose', max)": "tampering changes numpy.allclose kernel.py:3",
    "global last\n    last = x": "kept assigns names of its module (last) kernel.py:2",
    "return helper(x)\n\ndef helper(x):\n    import time\n    return time.time()": "aware uses time.time kernel.py:6",
}


@pytest.mark.parametrize("body", BODIES)
def test_each_way_to_reach_further_is_seen(body: str, tmp_path: Path) -> None:
    assert any(BODIES[body] in line for line in said(tmp_path, f"def kernel(x):\n    {body}\n"))


def test_a_reference_in_the_same_file_is_seen(tmp_path: Path) -> None:
    file = tmp_path / "both.py"
    file.write_text("def reference(x): return x\n\ndef kernel(x):\n    return reference(x)\n", encoding="utf-8")
    (reach,) = reaches(file, "kernel", file, "reference")
    assert (reach.kind, reach.words, reach.where) == ("reference", "calls its reference (reference)", "both.py:4")


def test_files_beside_a_kernel_are_read_too(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("import time\n\n\ndef wait(x):\n    return time.time()\n", encoding="utf-8")
    assert said(tmp_path, "from beside import wait\ndef kernel(x): return wait(x)\n") == [
        "aware uses time.time beside.py:5"
    ]

"""Gate the kernels of a public suite, or some of the tests': `python benchmarks/kernel_gate.py [CHECKOUT [TASK...]]`.

The layout is JAXBench's: a folder for each task, with a reference in `baseline.py` and a candidate in `optimized.py`,
each a function `workload`, and `create_inputs` for both. Inputs are made smaller where they are large.
"""

import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "harness"))

import samebits
from samebits.errors import SamebitsError
from tests.kernel_gate.specimens import REFERENCES
from tests.kernel_gate.specimens import SPECIMENS as KERNELS

REFERENCE, CANDIDATES = "baseline.py", ("optimized.py", "pallas.py")


SPECIMENS = ("rms_norm_vjp", "softmax_online", "matmul_tiles", "attention_flash", "weight_ignored", "bfloat16_inside")
"""Kernels of the tests that are gated where no checkout is named."""


SECONDS = 20.0
"""That each process of a gate may take for a task of a suite: a minute in all."""


def gated(name: str, candidate: str | Path, reference: str | Path, **options: Any) -> str:
    """Gate one kernel, print its time and verdict, and return the verdict in a word."""
    begin = time.perf_counter()
    try:
        outcome = samebits.gate(candidate, reference, **options)
        word = {0: "passes", 1: f"refuted ({', '.join(outcome.refuted)})"}.get(outcome.exit_code, "undecided")
        said = outcome.claim
    except SamebitsError as error:
        word, said = "not judged", str(error)
    print(f"{name:44} {time.perf_counter() - begin:8.1f}  {word}: {said[:200]}", flush=True)
    return word.partition(" (")[0]


def of_tests() -> list[str]:
    words = []
    for specimen in KERNELS:
        if specimen.name in SPECIMENS:
            with tempfile.TemporaryDirectory() as folder:
                file = Path(folder) / f"{specimen.name}.py"
                file.write_text(specimen.source(), encoding="utf-8")
                of = f"{REFERENCES}:{specimen.reference}"
                inputs = f"{REFERENCES}:{specimen.inputs}"
                words.append(gated(specimen.name, f"{file}:{specimen.function}", of, inputs=inputs))
    return words


def of_checkout(checkout: Path, names: list[str]) -> list[str]:
    tasks = [
        (file.parent.name, file, file.parent / other)
        for file in sorted(checkout.rglob(REFERENCE))
        for other in CANDIDATES
        if (file.parent / other).is_file() and (not names or file.parent.name in names)
    ]
    if not tasks:
        raise SystemExit(f"{checkout}: no folder with {REFERENCE} and {' or '.join(CANDIDATES)}")
    return [gated(name, candidate, reference, seconds=SECONDS) for name, reference, candidate in tasks]


def main() -> None:
    print(f"{'kernel':44} {'seconds':>8}  verdict")
    words = of_checkout(Path(sys.argv[1]), sys.argv[2:]) if len(sys.argv) > 1 else of_tests()
    print(f"{len(words)} kernels: " + ", ".join(f"{count} {word}" for word, count in Counter(words).items()))


if __name__ == "__main__":
    main()

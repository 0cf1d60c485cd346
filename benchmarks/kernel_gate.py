"""Gate the kernels of a public suite: run as `python benchmarks/kernel_gate.py CHECKOUT [TASK...]`.

The layout is JAXBench's: a folder for each task, with a reference in `baseline.py` and a candidate in `optimized.py`,
each a function `workload`, and `create_inputs` for both. Inputs are made smaller where they are large.
"""

import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "harness"))

import samebits
from samebits.errors import SamebitsError

REFERENCE, CANDIDATES = "baseline.py", ("optimized.py", "pallas.py")


def main() -> None:
    if len(sys.argv) < 2:
        raise SystemExit("expected the folder of a checkout, and names of tasks if not all")
    checkout, names = Path(sys.argv[1]), sys.argv[2:]
    tasks = [
        (file.parent.name, file, file.parent / other)
        for file in sorted(checkout.rglob(REFERENCE))
        for other in CANDIDATES
        if (file.parent / other).is_file() and (not names or file.parent.name in names)
    ]
    if not tasks:
        raise SystemExit(f"{checkout}: no folder with {REFERENCE} and {' or '.join(CANDIDATES)}")
    counts: Counter[str] = Counter()
    print(f"{'task':44} {'seconds':>8}  verdict")
    for name, reference, candidate in tasks:
        begin = time.perf_counter()
        try:
            found = samebits.gate(candidate, reference)
            word = {0: "passes", 1: f"refuted ({', '.join(found.refuted)})"}.get(found.exit_code, "undecided")
            said = found.claim
        except SamebitsError as error:
            word, said = "not judged", str(error)
        counts[word.partition(" (")[0]] += 1
        print(f"{name:44} {time.perf_counter() - begin:8.1f}  {word}: {said[:200]}", flush=True)
    print(f"{len(tasks)} tasks: " + ", ".join(f"{count} {word}" for word, count in counts.items()))


if __name__ == "__main__":
    main()

"""Writes the public kernels that were put to proof, and their planted faults: `make kernels`.

In: `tests.interpret.library_kernels`. Out: what a proof says of each kernel against its plain form, and of each fault,
in `kernels.json` and `docs/findings/kernels.md`.

`python docs/make_kernels.py [WORD]...` proves again only kernels whose name holds one of the words.
"""

from __future__ import annotations

import datetime
import json
import os
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["JAX_NUM_CPU_DEVICES"] = "2"

from samebits.host import environment
from samebits.report.markdown import escaped, markdown_table
from tests.interpret.library_kernels.kernel import LibraryKernel
from tests.interpret.library_kernels.kernels import KERNELS, UNDECIDED

HERE = Path(__file__).resolve().parent / "findings"
SEEN, PAGE = HERE / "kernels.json", HERE / "kernels.md"
LONGEST = 220
"""The most characters of a reason that are shown."""

HEAD = """# Kernels put to proof

Made by `make kernels`: each public Pallas kernel of jax below is proved against a plain function on a CPU, by
`samebits.prove`, at small sizes with several blocks or steps of the grid. `rounding` says that both are the same
formulas, which round differently; the number is the probability that this is false by accident. Each fault is a change
of the kernel's source; a fault counts as refuted where the proof gives `different`, or an error that says what is
wrong. The sources of the table, plain functions and faults included, are `harness/tests/interpret/library_kernels/`.

"""

LEFT = """## What is undecided

Of these no verdict is given; the reason is the tool's own.

"""


def said(shown: Any, direction: str) -> str:
    """The verdicts of a direction, with the largest error probability."""
    leaves = [leaf for leaf in shown.leaves if leaf.place.direction == direction]
    verdicts = ", ".join(dict.fromkeys(leaf.ruling.verdict for leaf in leaves))
    chances = [leaf.proof.log2_error for leaf in leaves if leaf.proof.log2_error is not None]
    return f"{verdicts}, 2^{max(chances):.0f}" if chances else verdicts


def row(kernel: LibraryKernel) -> dict[str, Any]:
    """What is said of a kernel and of each of its faults."""
    start = time.perf_counter()
    shown = kernel.proof()
    seconds = time.perf_counter() - start
    return {
        "of": [kernel.name, kernel.module, kernel.against, kernel.dtype],
        "forward": said(shown, "forward"),
        "gradient": said(shown, "gradient"),
        "ok": shown.ok,
        "faults": {fault: str(kernel.proof(fault).verdict) for fault in kernel.faults},
        "seconds": round(seconds, 1),
        "environment": "; ".join(environment.capture().lines()[:2]),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }


def page(rows: dict[str, Any], left: dict[str, str]) -> str:
    """The page as Markdown."""
    refuted = {
        name: sum(verdict in ("different", "error") for verdict in each["faults"].values())
        for name, each in rows.items()
    }
    lines = [
        (
            *each["of"],
            each["forward"],
            each["gradient"] or "-",
            f"{refuted[name]} of {len(each['faults'])}",
            str(each["seconds"]),
        )
        for name, each in rows.items()
    ]
    heads = ("kernel", "module", "compared with", "dtype", "forward", "gradient", "faults refuted", "seconds")
    total = sum(len(each["faults"]) for each in rows.values())
    proved = sum(each["ok"] for each in rows.values())
    dates = sorted(each["date"] for each in rows.values())
    head = f"{proved} of {len(rows)} rows are proved, and {sum(refuted.values())} of {total} faults refuted."
    machines = "\n".join(dict.fromkeys(f"{escaped(each['environment'])}." for each in rows.values()))
    when = " to ".join(dict.fromkeys((dates[0], dates[-1])))
    faults = markdown_table(
        ("kernel", "dtype", "fault", "verdict"),
        [
            (each["of"][0], each["of"][3], fault, verdict)
            for each in rows.values()
            for fault, verdict in each["faults"].items()
        ],
    )
    undecided = markdown_table(("kernel", "reason"), list(left.items()))
    parts = [f"{head} {machines} {when}.", markdown_table(heads, lines), f"{LEFT}{undecided}", f"## Faults\n\n{faults}"]
    return HEAD + "\n\n".join(parts) + "\n"


def reason(shown: Any) -> str:
    """Why a proof has no verdict."""
    text = next(str(leaf.ruling.reason) for leaf in shown.leaves if leaf.ruling.reason)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def main(words: Sequence[str]) -> int:
    """Prove the kernels, each row being kept as soon as it is known."""
    warnings.simplefilter("ignore")
    seen = json.loads(SEEN.read_text(encoding="utf-8")) if SEEN.exists() else {"rows": {}, "undecided": {}}
    rows, left = seen["rows"], seen["undecided"]
    for kernel in KERNELS:
        if not words or any(word in str(kernel) for word in words):
            rows[str(kernel)] = row(kernel)
            print(
                kernel,
                rows[str(kernel)]["forward"],
                rows[str(kernel)]["gradient"],
                rows[str(kernel)]["faults"],
                flush=True,
            )
        write(rows, left)
    for kernel in UNDECIDED:
        if not words or any(word in str(kernel) for word in words):
            left[str(kernel)] = reason(kernel.proof())
        write(rows, left)
    return 0


def write(rows: dict[str, Any], left: dict[str, str]) -> None:
    """Write the data in the order of the table, and the page."""
    rows = {str(kernel): rows[str(kernel)] for kernel in KERNELS if str(kernel) in rows}
    left = {str(kernel): left[str(kernel)] for kernel in UNDECIDED if str(kernel) in left}
    SEEN.write_text(json.dumps({"rows": rows, "undecided": left}, indent=1) + "\n", encoding="utf-8")
    if rows:
        PAGE.write_text(page(rows, left), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

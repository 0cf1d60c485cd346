"""Writes the known faults of compilers, as they are here: `make known`.

In: `samebits.compile.known_faults`. Out: what each of its functions gives with the compilers that are installed, beside
what others gave earlier, in `known_faults.json` and `docs/findings/known_faults.md`.
"""

from __future__ import annotations

import datetime
import json
import os
import sys
from pathlib import Path

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["JAX_NUM_CPU_DEVICES"] = "4"

import samebits  # after the devices are set
from samebits.compile.devices import NoCompiler
from samebits.compile.known_faults import KNOWN, SEEN, TARGETS, KnownFault, compiler_of, seen
from samebits.report.markdown import markdown_table
from samebits.schema.target import Target

PAGE = Path(__file__).resolve().parent / "findings" / "known_faults.md"

HEAD = """# Known faults of compilers

Made by `make known`: each function in `samebits/compile/known_faults.py` was compiled for the target, run on a CPU and
compared with what was written. `samebits compile` warns by name where a program has what one of them leaves behind,
unless the installed version was seen to be right.

"""


def verdict(fault: KnownFault, target: str, *, healed: bool) -> str:
    """Return what `run_compiled` says of the function of a fault."""
    args, more = fault.call(healed=healed)
    return str(samebits.run_compiled(*args, target=target, name="known_fault", **more).verdict)


def main() -> int:
    """Compile and run each function with each compiler that is installed."""
    table = seen()
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    for fault in KNOWN:
        rows = table.setdefault(fault.issue, {})
        for target in TARGETS:
            try:
                now = {"verdict": verdict(fault, target, healed=False), "healed": verdict(fault, target, healed=True)}
            except NoCompiler as error:
                print(f"left out: {error}", file=sys.stderr)
                continue
            compiler = compiler_of(Target(name=target))
            before = rows.get(compiler, {})
            rows[compiler] = {**now, "date": before["date"] if before == {**before, **now} else today}
    SEEN.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    lines = [
        (fault.issue, fault.effect, name, row["verdict"], row["healed"], fault.cure, row["date"])
        for fault in KNOWN
        for name, row in table[fault.issue].items()
    ]
    heads = ("report", "what is wrong", "compiler", "verdict", "healed", "how", "seen")
    PAGE.write_text(f"{HEAD}{markdown_table(heads, lines)}\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

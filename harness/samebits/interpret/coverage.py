"""Which primitives the interpreter covers, by abstract domain: the table of `docs/reference/primitives.md`.

`python -m samebits.interpret.coverage` prints it; `tests/interpret/sweep/share.py` adds the share of jax's primitives.
"""

from __future__ import annotations

from samebits.interpret.arrays import OF_PARTS
from samebits.interpret.collectives import COLLECTIVES
from samebits.interpret.composite_primitives import AS_FORMULAS, EVERYWHERE, UNBOUNDED
from samebits.interpret.control_flow import CONTROL
from samebits.interpret.data_movement import MOVES, STILL
from samebits.interpret.field.domain import Field
from samebits.interpret.interpreter import CALLS
from samebits.interpret.labels import LabelDomain
from samebits.interpret.oracle import Oracle
from samebits.interpret.rounding_error.domain import RoundingDomain
from samebits.interpret.sorting import ORDERED

DOMAINS = ("labels", "field", "oracle", "rounding")

HEAD = """# Primitives that the interpreter covers

Made by `{command}`; a test holds it against the code.

The columns are the abstract domains of `samebits.interpret`:

- `moves`: one rule moves data in all four.
- `interpreter`: the interpreter evaluates it (calls, control flow, `shard_map`, collectives), or writes it in others.
- `yes`: the domain has a rule of its own.
- `constants`: it is computed where no input is involved.
- `integers`: integers and booleans are computed in every domain.
- `executed`: its rounding has no derived bound, so both sides are run in float64 and their errors measured.
- `no`: not followed.

Anything else ends a proof, which names the primitive and its source line, and the verdict rests on execution. Complex
numbers are pairs of real ones. Random bits and keys are known numbers, so a proof is for these keys. A factorisation
such as `eigh` is an unknown function of its whole matrix.
"""


def table() -> dict[str, tuple[str, ...]]:
    """For each primitive, how it is covered in each domain, in the order of `DOMAINS`."""
    rules = (LabelDomain().covers, Field().covers, Oracle().covers, RoundingDomain().covers)
    rows: dict[str, tuple[str, ...]] = {}
    bounded = rules[-1]
    for name in (*STILL, *MOVES):
        rows[name] = ("moves",) * 4
    for name in (*CALLS, *CONTROL, *COLLECTIVES, *EVERYWHERE, "shard_map"):
        rows[name] = ("interpreter",) * 4
    for name in AS_FORMULAS:
        rows[name] = ("constants", "interpreter", "interpreter", "executed" if name in UNBOUNDED else "interpreter")
    for name in ORDERED:
        rows[name] = ("constants", "yes", "yes", "yes")
    for name in ("complex", "conj", "imag", "real"):
        rows[name] = ("interpreter",) * 4
    for name in ("eig", "fft"):
        rows[name] = ("no", "interpreter", "interpreter", "executed")
    for name in sorted(name for name in set().union(*rules) if not name.endswith(OF_PARTS)):
        cells = ["yes" if name in covers else "" for covers in rules]
        cells[0] = cells[0] or "constants"
        if cells[1] and name not in bounded:
            cells[3] = "executed"
        rows.setdefault(name, tuple(cell or "integers" for cell in cells))
    return dict(sorted(rows.items()))


def markdown(command: str = "python -m samebits.interpret.coverage") -> str:
    """The table, below a text that names the command by which the page is made."""
    lines = [HEAD.format(command=command), f"| primitive | {' | '.join(DOMAINS)} |", "|---" * (1 + len(DOMAINS)) + "|"]
    lines += [f"| `{name}` | {' | '.join(cells)} |" for name, cells in table().items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(markdown(), end="")

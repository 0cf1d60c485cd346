"""Which primitives the interpreter covers by domain, their share of jax's, and the page that says so.

`PYTHONPATH=harness python -m tests.interpret.sweep.share > docs/reference/primitives.md`
"""

import warnings
from collections.abc import Iterable, Mapping

import jax
import jax.extend.core.primitives
from jax.extend.core import Primitive

from samebits.interpret.arrays import OF_PARTS
from samebits.interpret.composite_primitives import AS_FORMULAS, EVERYWHERE, UNBOUNDED
from samebits.interpret.control_flow import CONTROL
from samebits.interpret.data_movement import MOVES, STILL
from samebits.interpret.field.domain import Field
from samebits.interpret.interpreter import CALLS
from samebits.interpret.labels import LabelDomain
from samebits.interpret.oracle import Oracle
from samebits.interpret.rounding_error.domain import RoundingDomain
from samebits.interpret.shard_map import COLLECTIVES
from samebits.interpret.sorting import ORDERED
from tests.interpret.sweep.calls import produced
from tests.interpret.sweep.jax_calls import jax_calls
from tests.interpret.sweep.layer_calls import layer_calls

MADE = "PYTHONPATH=harness python -m tests.interpret.sweep.share > docs/reference/primitives.md"

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


def markdown() -> str:
    """The table, below a text that names the command by which the page is made."""
    lines = [HEAD.format(command=MADE), f"| primitive | {' | '.join(DOMAINS)} |", "|---" * (1 + len(DOMAINS)) + "|"]
    lines += [f"| `{name}` | {' | '.join(cells)} |" for name, cells in table().items()]
    return "\n".join(lines) + "\n"


EVALUATED = frozenset({"yes", "moves", "interpreter"})
"""Cells of the table that say that a domain follows a primitive on what depends on the inputs."""


def registered() -> frozenset[str]:
    """The primitives that `jax.extend.core.primitives` publishes."""
    values = vars(jax.extend.core.primitives).values()
    return frozenset(value.name for value in values if isinstance(value, Primitive))


def covered(names: Iterable[str], domain: str) -> frozenset[str]:
    """Those of some primitives that a domain evaluates, or that only integers and keys go into."""
    known, column = table(), DOMAINS.index(domain)
    return frozenset(name for name in names if name in known and known[name][column] in EVALUATED | {"integers"})


def sections(found: Mapping[str, list[str]]) -> str:
    """The share, by domain, and what is not covered with a function that produces it."""
    version = jax.__version__
    groups = {
        f"that the sweep produces, of {_programs(found)} programs": set(found),
        "that jax publishes": registered(),
    }
    lines = [
        f"## The share of jax {version}",
        "",
        "The sweep calls every public function of `jax.numpy`, `jax.nn`, `jax.lax`, `jax.scipy` and `jax.random` that "
        "some small arguments fit, layers of flax, and optimisers and losses of optax, each with its gradient.",
        "",
        f"| primitives | count | {' | '.join(DOMAINS[1:])} |",
        "|---" * (1 + len(DOMAINS)) + "|",
    ]
    for name, group in groups.items():
        cells = [f"{len(covered(group, domain))} ({_percent(covered(group, domain), group)})" for domain in DOMAINS[1:]]
        lines.append(f"| {name} | {len(group)} | {' | '.join(cells)} |")
    lines += [
        "",
        "A primitive counts where the domain has a rule for some of its uses: "
        "`bitcast_convert_type`, only for integers.",
    ]
    missing = sorted(set(found) - covered(found, "field"))
    lines += ["", "Not covered in the fields, with a function that produces it:", ""]
    lines += [f"- `{name}`: {found[name][0]}" for name in missing]
    return "\n".join(lines) + "\n"


def _programs(found: Mapping[str, list[str]]) -> int:
    return len({program for programs in found.values() for program in programs})


def _percent(part: Iterable[str], whole: Iterable[str]) -> str:
    return f"{100 * len(set(part)) // len(set(whole))} %"


def page() -> str:
    """The whole page."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of deprecated functions, which pytest would make errors
        return markdown() + "\n" + sections(produced([*jax_calls(), *layer_calls()]))


if __name__ == "__main__":
    print(page(), end="")

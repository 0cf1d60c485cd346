"""The share of jax's primitives that the interpreter covers, and the page that says so.

`PYTHONPATH=harness python -m tests.interpret.sweep.share > docs/reference/primitives.md`
"""

import warnings
from collections.abc import Iterable, Mapping

import jax
import jax.extend.core.primitives
from jax.extend.core import Primitive

from samebits.interpret.coverage import DOMAINS, markdown, table
from tests.interpret.sweep.calls import produced
from tests.interpret.sweep.jax_calls import jax_calls
from tests.interpret.sweep.layer_calls import layer_calls

MADE = "PYTHONPATH=harness python -m tests.interpret.sweep.share > docs/reference/primitives.md"

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
        return markdown(MADE) + "\n" + sections(produced([*jax_calls(), *layer_calls()]))


if __name__ == "__main__":
    print(page(), end="")

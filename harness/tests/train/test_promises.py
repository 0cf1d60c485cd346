"""What two training runs with different sides must give: equal bits exactly where the contracts promise them."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from samebits.schema.contract import Contract, Exemption
from samebits.schema.domain import Domain
from samebits.schema.model import Config
from samebits.schema.pair import Pair
from samebits.train.parts import SAME_RUN, expected_verdict, promises_bits
from tests.support.foreign import AXES, write_pair
from tests.support.toys import toy

RUN = Config(name="run", mesh="data2")
ROUNDING = Contract(lowest="rounding", reason="sums in another order")


def flip(x: Any, *, factor: float = 2.0) -> Any:
    return x[::-1]


def flip_by_index(x: Any, *, factor: float = 2.0) -> Any:
    import jax.numpy as jnp

    return jnp.flip(x, 0)


def total(x: Any, *, factor: float = 2.0) -> Any:
    return (x * x).sum(1)


def total_backwards(x: Any, *, factor: float = 2.0) -> Any:
    return (x * x)[:, ::-1].sum(1)


def outputs(x: Any, *, factor: float = 2.0) -> Any:
    return {"moved": x[::-1], "total": x.sum(1)}


MOVING = dataclasses.replace(toy(flip, other=flip_by_index), meshes=("data2", "data4"))
COMPUTING = dataclasses.replace(toy(total, other=total_backwards), meshes=("data2", "data4"))
LEAVES = toy(outputs, other=lambda x, *, factor=2.0: outputs(x))
BY_LEAF = (Contract(leaf="out?'moved'?", direction="forward"), Contract(leaf="out?'total'?", direction="forward"))

PROMISED: dict[str, Pair] = {
    "proved": dataclasses.replace(COMPUTING, contracts=(Contract(lowest="proved"),)),
    "nothing declared, data moves": MOVING,
    "a lower contract that another overrules": dataclasses.replace(COMPUTING, contracts=(ROUNDING, Contract())),
    "a lower contract on another mesh": dataclasses.replace(
        COMPUTING, contracts=(Contract(), dataclasses.replace(ROUNDING, mesh="data4"))
    ),
    "a lower contract of another side": dataclasses.replace(
        COMPUTING,
        variants={"other": total_backwards, "third": total},
        contracts=(Contract(), dataclasses.replace(ROUNDING, variant="third")),
    ),
    "finite inputs": dataclasses.replace(COMPUTING, contracts=(Contract(domain=Domain(finite=("x",))),)),
    "every leaf by name": dataclasses.replace(LEAVES, contracts=BY_LEAF, gradients=False),
}
NOT_PROMISED: dict[str, Pair] = {
    "rounding": dataclasses.replace(COMPUTING, contracts=(ROUNDING,)),
    "nothing declared, floats are added": COMPUTING,
    "declared forward only": dataclasses.replace(COMPUTING, contracts=(Contract(direction="forward"),)),
    "rounding of the reference's own": dataclasses.replace(
        MOVING, contracts=(Contract(), dataclasses.replace(ROUNDING, variant="flip"))
    ),
    "one of two leaves": dataclasses.replace(LEAVES, contracts=BY_LEAF[:1], gradients=False),
    "a known difference": dataclasses.replace(MOVING, exemptions=(Exemption(reason="the last row is lost"),)),
    "no -0.0": dataclasses.replace(MOVING, contracts=(Contract(domain=Domain(no_negative_zero=("x",))),)),
}


@pytest.mark.parametrize("what", [*PROMISED, *NOT_PROMISED])
def test_bits_are_promised_where_the_contracts_promise_them(what: str) -> None:
    pair = {**PROMISED, **NOT_PROMISED}[what]
    assert promises_bits(pair, (pair.reference_name, "other"), RUN) == (what in PROMISED)


def test_a_run_that_is_repeated_is_promised_its_bits(tmp_path: Path) -> None:
    assert expected_verdict(RUN, RUN.having(name="again"), tmp_path) == ("bitwise", SAME_RUN)
    assert expected_verdict(RUN, RUN.having(name="again", seed=1), tmp_path) == ("rounding", "another seed")


@pytest.mark.parametrize(
    ("optimized", "extra", "expected"),
    [
        ("def fast(x):\n    return 2 * x\n", 'contracts=(Contract(lowest="proved"),),', "bitwise"),
        ("def fast(x):\n    return 2 * x * 1.0\n", "", "rounding"),
    ],
    ids=["proved", "none declared"],
)
def test_two_runs_are_held_to_it(tmp_path: Path, optimized: str, extra: str, expected: str) -> None:
    """A contract of `proved` promises bits; none promises rounding of what computes."""
    write_pair(tmp_path, "part", optimized=optimized, axes=AXES, extra=extra)
    found = expected_verdict(RUN, RUN.having(name="other", choice={"part": "fast"}), tmp_path)
    assert found == (expected, "contracts of all parts" if expected == "bitwise" else "contracts of part")

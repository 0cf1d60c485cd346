"""`check --no-assumptions`: verdicts that rest on assumptions fall back to what execution alone shows."""

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import pytest

from samebits.report.check import read_document
from samebits.schema.case import Arg
from samebits.schema.contract import Contract
from samebits.schema.finding import Finding, exit_code
from samebits.schema.pair import Pair
from samebits.schema.point import Effort
from samebits.schema.values import Integers
from tests.support.foreign import SUM, SUM_BACKWARDS, write_pair
from tests.support.invoke import samebits
from tests.support.toys import alone, run, toy

NONE = Effort(assuming=False)
CONTRACT = 'contracts=(Contract(lowest="rounding", reason="summed backwards: 3 ulps", error_ratio=8.0),),'


def total(x: Any, *, factor: float = 2.0) -> Any:
    return x * x.sum(1, keepdims=True)


def backwards(x: Any, *, factor: float = 2.0) -> Any:
    found = 0.0
    for column in range(x.shape[1] - 1, -1, -1):
        found = found + x[:, column : column + 1]
    return x * found


def taken(x: Any, rows: Any, *, factor: float = 2.0) -> Any:
    return x[rows]


def chosen(x: Any, rows: Any, *, factor: float = 2.0) -> Any:
    return jnp.take(x, rows, axis=0, mode="clip")


ROUNDS = toy(total, other=backwards)
ROUTED = toy(taken, other=chosen)
ROWS = {
    "x": Arg(shape=("rows", "columns"), spec=(None, "data")),
    "rows": Arg(shape=("rows",), values=Integers(high=8), dtype="int32"),
}
ROUNDING = (Contract(lowest="rounding", reason="sums in another order", error_ratio=8.0),)


def variants(pair: Pair, **changes: Any) -> list[Finding]:
    return run(pair, alone("other"), **changes)


def test_rounding_by_proof_is_undecided_without_its_assumptions() -> None:
    (usual,) = variants(ROUNDS, contracts=ROUNDING)
    assert (usual.ruling.verdict, usual.ruling.ok) == ("rounding", True)
    assert "; assumes range)" in str(usual.ruling.evidence)
    (strict,) = variants(ROUNDS, contracts=ROUNDING, effort=NONE)
    assert (strict.ruling.verdict, strict.ruling.ok) == ("error", False)
    assert str(strict.ruling.reason).startswith("could not tell without assumptions (range): the same formulas")
    assert strict.replay.endswith(" --no-assumptions")
    assert (exit_code([usual]), exit_code([strict])) == (0, 3)


def test_a_proof_for_one_routing_falls_to_bits() -> None:
    strictest = {"args": ROWS, "contracts": (Contract(lowest="proved"),), "meshes": ("data2",)}
    (usual,) = variants(ROUTED, **strictest)
    assert (usual.ruling.verdict, usual.ruling.ok) == ("proved", True), usual
    (strict,) = variants(ROUTED, **strictest, effort=NONE)
    assert (strict.ruling.verdict, strict.ruling.ok) == ("bitwise", False)
    assert str(strict.ruling.evidence).startswith("proved only under assumptions (values): both sides only move data")


def test_bits_that_were_seen_and_proofs_for_all_inputs_stay() -> None:
    for effort in (Effort(), NONE):
        (seen,) = variants(toy(total, other=lambda x, *, factor=2.0: total(x)), contracts=ROUNDING, effort=effort)
        assert (seen.ruling.verdict, seen.ruling.ok) == ("bitwise", True)
        moved = toy(lambda x, *, factor=2.0: x[::-1], other=lambda x, *, factor=2.0: x[::-1, :])
        (proof,) = variants(moved, contracts=(Contract(lowest="proved"),), effort=effort)
        assert (proof.ruling.verdict, proof.ruling.ok) == ("proved", True)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("words", "code"), [((), 0), (("--no-assumptions",), 3)], ids=["usual", "no assumptions"])
def test_the_command_ends_with_could_not_tell(tmp_path: Path, words: tuple[str, ...], code: int) -> None:
    write_pair(tmp_path, "rounds", reference=SUM, optimized=SUM_BACKWARDS, extra=CONTRACT)
    file = tmp_path / "r.json"
    asked = ("--root", tmp_path, "--variant", "fast", "--direction", "forward")
    ended = samebits("check", "rounds", *asked, "--json", file, *words)
    assert ended.code == code, ended
    said = " ".join(f"{one.ruling.reason} {one.ruling.evidence}" for one in read_document(file).results)
    assert ("could not tell without assumptions (" in said) == bool(words) and "assumes " in said

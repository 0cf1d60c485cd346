"""Faults planted in compiled programs are caught by the public command; each of its checks has a mutant."""

import dataclasses
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from samebits.compile import compared_case, pair, selftest
from samebits.compile import compiler as compiled_module
from samebits.hlo import counts
from samebits.hlo.canonical import ProgramDigests
from samebits.schema.program_facts import CompiledSide, SideBySide
from tests.support.real_tree import OPTIMIZED, compiled, write_real_pair

HONEST = "jnp.flip(x, axis=0) * 0.5"
"""The body of `turned`, which faults replace."""
LOOP = "jax.lax.map(lambda row: x[63 - row] * 0.5, jnp.arange(64))"
GATHER = "x[jnp.arange(64)[::-1]] * 0.5"

SENT = """
    import jax
    from jax.sharding import PartitionSpec


    def exchanged(x, times):
        def body(x):
            number = jax.lax.axis_size("data")
            for step in range(1, times + 1):
                x = jax.lax.ppermute(x * 1.5, "data", [(one, (one + step) % number) for one in range(number)])
            return x

        return jax.shard_map(body, in_specs=PartitionSpec(None, "data"), out_specs=PartitionSpec(None, "data"))(x)


    def once(x):
        return exchanged(x, 1)
    """
PERMUTES = 'shows=VARIANT.collectives == {"collective-permute": 1}'


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One change of the optimized file, and what the claim about it says then."""

    claim: str
    line: str
    body: str


FAULTS = {
    "a loop": Fault(
        claim="shows=VARIANT.while_loops == 0", line="FAILS: turned: while_loops == 0 (got 1; us)", body=LOOP
    ),
    "a gather": Fault(claim="shows=VARIANT.gathers == 0", line="FAILS: turned: gathers == 0 (got 1; us)", body=GATHER),
    "the reference's program": Fault(
        claim="shows=VARIANT.program != REFERENCE.program",
        line="FAILS: turned: other program than reference (got the same program; us)",
        body=GATHER,
    ),
    "a turn more": Fault(
        claim="shows=VARIANT.loop_turns <= 0", line="FAILS: turned: loop_turns <= 0 (got 64; us)", body=LOOP
    ),
    "traffic": Fault(
        claim="shows=VARIANT.bytes_accessed <= REFERENCE.bytes_accessed",
        line="FAILS: turned: bytes_accessed <= 1 x reference (got 0.0 MB, 3 x reference; us)",
        body="jnp.sort(jnp.flip(x, axis=0), axis=0) * 0.5",
    ),
    "what was found is no longer so": Fault(
        claim='shows=VARIANT.gathers == 0, finding="one gather is left"',
        line="FAILS: it is true now: turned: gathers == 0 (got 0; us; one gather is left)",
        body="jnp.flip(x, axis=0) * 0.5",
    ),
}

pytestmark = pytest.mark.usefixtures("own_cache")


def planted(root: Path, name: str, body: str) -> Path:
    """The tree with only `turned`, its body replaced."""
    assert HONEST in OPTIMIZED
    return write_real_pair(
        root, claims=[FAULTS[name].claim], optimized=OPTIMIZED.replace(HONEST, body), variants=("turned",)
    )


def forward(root: Path) -> tuple[int, list[str], dict[str, Any]]:
    ended, document = compiled(root, "--direction", "forward")
    assert ended.err == "", ended.err
    return ended.code, [line.strip() for line in ended.out.splitlines()], document


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_fails_with_what_was_found(name: str, tmp_path: Path) -> None:
    fault = FAULTS[name]
    honest = HONEST if fault.body != HONEST else GATHER
    code, lines, document = forward(planted(tmp_path / "honest", name, honest))
    assert (code, document["summary"]["failed"]) == (0, 0), lines
    code, lines, document = forward(planted(tmp_path / "faulty", name, fault.body))
    assert code == 1 and fault.line in lines, lines
    assert "1 claim: 1 not as declared; " in lines[-2]
    assert lines[-1].startswith("next: samebits compile reorder --target cpu:8 --case real --variant turned ")
    [judged] = [one for each in document["comparisons"] for one in each["expectations"]]
    assert judged["ok"] is False and document["summary"]["failed"] == 1


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("times", "code", "state"), [(1, 0, "holds"), (2, 1, "FAILS")])
def test_one_exchange_more(times: int, code: int, state: str, tmp_path: Path) -> None:
    """A claim in the other direction fails there alone, and the next command names that direction."""
    optimized = textwrap.dedent(SENT) + f"\n\ndef sent(x):\n    return exchanged(x, {times})\n"
    write_real_pair(
        tmp_path,
        claims=[f'{PERMUTES}, direction="gradient"'],
        reference=SENT,
        reference_name="once",
        optimized=optimized,
        variants=("sent",),
    )
    ended, document = compiled(tmp_path)
    assert (ended.code, ended.err) == (code, "")
    line = f'{state}: sent: collectives == {{"collective-permute": 1}} (got collective-permute {times}; us)'
    assert ended.out.count(line) == 1
    sent = [one["collectives"] for one in document["results"] if one["side"] == "sent"]
    assert sent == [{"collective-permute": times}] * 2
    ratios = [one["wire_ratio"] for one in document["comparisons"]]
    assert ratios == [times] * 2
    again = [line for line in ended.out.splitlines() if line.startswith("next: ")]
    assert len(again) == code and all("--variant sent --direction gradient" in line for line in again)


def test_a_figure_that_the_compiler_does_not_give_is_not_known(tmp_path: Path) -> None:
    write_real_pair(tmp_path, claims=["shows=VARIANT.optimal_seconds <= 1"], variants=("turned",))
    code, lines, document = forward(tmp_path)
    got = "got the compiler gives no figure for optimal_seconds; us"
    assert code == 3 and f"NOT KNOWN: turned: optimal_seconds <= 1 ({got})" in lines
    assert "1 claim: 1 without a figure; " in "".join(lines)
    assert document["summary"]["unknown"] == 1 and document["summary"]["failed"] == 0


def test_a_failed_claim_outweighs_an_unknown_one(tmp_path: Path) -> None:
    claims = ["shows=VARIANT.optimal_seconds <= 1", "shows=VARIANT.temp_bytes > 1e9"]
    write_real_pair(tmp_path, claims=claims, variants=("turned",))
    code, lines, _ = forward(tmp_path)
    assert code == 1 and "FAILS: turned: temp_bytes > 1000 MB (got 0.0 MB; us)" in lines


# --- what finds them, broken -----------------------------------------------------------------------------------------


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """One claim that fails, one side that is the same program, and one that is not."""
    claims = ['variant="looped", shows=VARIANT.while_loops == 0']
    return write_real_pair(tmp_path, claims=claims, variants=("again", "quarter", "looped"))


EXPECTED = (1, ["FAILS: looped: while_loops == 0 (got 1; us)"], ["again"])


def seen(root: Path) -> tuple[int, list[str], list[str]]:
    """What the tests above look at: the exit code, the claims that fail, and what is proved."""
    code, lines, document = forward(root)
    proved = [one["variant"] for one in document["comparisons"] if one["verdict"] == "proved"]
    return code, [line for line in lines if line.startswith("FAILS")], proved


def _without_loops(opcode: str) -> str | None:
    return None if opcode == "while" else _once(opcode)


def _constant(*_: Any, **__: Any) -> ProgramDigests:
    return ProgramDigests(ordered="0" * 32, unordered="0" * 32)


def _with_itself(reference: CompiledSide, variant: CompiledSide, *others: Any, **more: Any) -> SideBySide:
    return _beside(reference, dataclasses.replace(reference, side=variant.side), *others, **more)


_once, _beside = counts._once, compared_case.compare_sides


@pytest.mark.slow
def test_a_region_is_of_the_sides_that_it_names(tmp_path: Path) -> None:
    """`again` has the program of the reference: the source of the reference's instructions is its own all the same."""
    _, document = compiled(write_real_pair(tmp_path), "--direction", "forward", "--no-cache")
    regions = {one["variant"]: one["region"] for one in document["comparisons"]}
    assert regions["again"] is None
    for variant in ("turned", "quarter", "looped"):
        sources = {line["reference_source"] for line in regions[variant]["lines"]}
        assert any(source is not None and "; gather in reorder.py" in source for source in sources), (variant, sources)
        assert not any("again" in (source or "") for source in sources), (variant, sources)


BREAKAGES = {
    "loops are not counted": (counts, "_once", _without_loops, (0, [], ["again"])),
    "every program has one digest": (
        compiled_module, "identity", _constant, (1, EXPECTED[1], ["again", "quarter", "looped"])
    ),
    "the reference is held against itself": (
        compared_case, "compare_sides", _with_itself, (1, EXPECTED[1], ["again", "quarter", "looped"])
    ),
}  # fmt: skip


@pytest.fixture
def unguarded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the planted programs that every run looks at first."""
    monkeypatch.setattr(pair, "check_compiled", lambda: None)
    monkeypatch.setattr(selftest, "check_compiled", lambda: None)


@pytest.mark.sampled(1)
@pytest.mark.usefixtures("unguarded")
@pytest.mark.parametrize("name", BREAKAGES)
def test_a_broken_machinery_is_noticed_here(name: str, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module, function, broken, wrong = BREAKAGES[name]
    assert seen(tree) == EXPECTED
    monkeypatch.setattr(module, function, broken)
    assert seen(tree) == wrong != EXPECTED


@pytest.mark.parametrize("name", ["loops are not counted", "every program has one digest"])
def test_a_broken_machinery_gives_no_verdict(name: str, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module, function, broken, _ = BREAKAGES[name]
    monkeypatch.setattr(module, function, broken)
    ended, document = compiled(tree, "--direction", "forward")
    assert ended.code == 3 and document["results"] == document["comparisons"] == []
    assert len(ended.lines) == 1 and ended.lines[0].startswith("samebits: pair 'reorder': "), ended.lines
    assert "PROVED" not in ended.out and "holds" not in ended.out

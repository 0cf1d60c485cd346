"""Shaking the compiler: bits that an option changes are found, and an option without effect is not evidence."""

import importlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from samebits.check.shake import (
    LEFT_OUT,
    OPTIONS,
    TOGETHER,
    AcceptedOptions,
    ShakeOption,
    code_digest,
    flag_options,
    object_files,
    outcomes_under,
    together,
    why_not,
    with_shaken,
)
from samebits.numerics.difference_kinds import Kind
from samebits.schema.contract import Contract
from samebits.schema.finding import Finding, shake_of, standing
from samebits.schema.pair import Pair
from samebits.schema.point import Effort
from samebits.schema.result import ShakenLeaf
from tests.support.documents import toy_result
from tests.support.toys import of, run, toy

APART = ShakeOption(settings=(("xla_disable_hlo_passes", "algsimp"),), moves="sums of sums stay as they are written")
"""Not among the options of `check --shake`; here it moves rounding on every machine."""
IGNORED = ShakeOption(settings=(("xla_cpu_max_isa", "AVX"),), moves="nothing: XLA reads it once per process")
ROUNDING = Contract(lowest="rounding", reason="for this test", error_ratio=100.0)


def shaken(pair: Pair, monkeypatch: pytest.MonkeyPatch, *options: ShakeOption, **changes: Any) -> list[Finding]:
    """The results of a toy under these options alone."""
    shake_options = importlib.import_module("samebits.check.shake")  # `samebits.check` itself is a function
    monkeypatch.setattr(shake_options, "accepted", lambda platform: AcceptedOptions(options=options, refused=()))
    return run(pair, effort=Effort(shake=True), gradients=False, meshes=("data1",), **changes)


def one(results: list[Finding], variant: str) -> tuple[Finding, dict[str, ShakenLeaf]]:
    (found,) = of(results, variant=variant, direction="forward")
    return found, {each.option: each for each in found.shaken}


def whole(x: Any, *, factor: float = 2.0) -> Any:
    """One sum over two axes."""
    return jnp.sum(x.reshape(-1, 4, 4), axis=(1, 2))


def twofold(x: Any, *, factor: float = 2.0) -> Any:
    """A sum of sums, which the compiler's simplifier makes one sum."""
    return jnp.sum(jnp.sum(x.reshape(-1, 4, 4), axis=1), axis=1)


def test_bits_that_an_option_moves_apart_are_fragile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal only because a pass merges two sums; `rounding` is required, so the contract holds and it is said."""
    results = shaken(toy(whole, twofold=twofold), monkeypatch, APART, IGNORED, contracts=(ROUNDING,))
    result, by_option = one(results, "twofold")
    assert (result.ruling.verdict, result.ruling.ok) == ("proved", True)  # one program on one device, here
    moved = by_option[APART.name]
    assert (moved.outcome, moved.verdict) == ("fragile", "rounding")
    assert 0 < moved.mismatches <= result.comparison.elements
    assert by_option[IGNORED.name].outcome == "no effect"
    assert standing(result) == "fragile"


def test_a_contract_that_an_option_breaks_fails_and_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted wrong contract: `bitwise` for bits that only one pass of the compiler makes equal."""
    promised = (Contract(lowest="bitwise"),)
    results = shaken(toy(whole, twofold=twofold), monkeypatch, APART, contracts=promised)
    result, by_option = one(results, "twofold")
    assert (result.ruling.verdict, result.ruling.ok, result.failed) == ("proved", False, True)
    assert by_option[APART.name].outcome == "broken"
    assert result.ruling.reason is not None
    assert result.ruling.reason.startswith("proved as usual, rounding under xla_disable_hlo_passes=algsimp (")
    assert result.ruling.reason.endswith("the contract requires 'bitwise', which only this compiler gives")
    assert all(each.ruling.ok for each in run(toy(whole, twofold=twofold), meshes=("data1",), gradients=False))


def test_an_honest_pair_is_robust_when_its_program_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two ways to write a sum of the same terms in the same order."""
    unoptimised = ShakeOption(settings=(("xla_backend_optimization_level", 0),), moves="no LLVM optimisation")

    def added(x: Any, *, factor: float = 2.0) -> Any:
        return x * factor + x

    def swapped(x: Any, *, factor: float = 2.0) -> Any:
        return x + factor * x

    results = shaken(toy(added, swapped=swapped), monkeypatch, unoptimised)
    result, by_option = one(results, "swapped")
    assert result.ruling.ok
    assert by_option[unoptimised.name].outcome == "robust"


def test_what_labels_prove_is_not_shaken(monkeypatch: pytest.MonkeyPatch) -> None:
    def turned(x: Any, *, factor: float = 2.0) -> Any:
        return x[::-1]

    def rolled(x: Any, *, factor: float = 2.0) -> Any:
        return jnp.stack([x[i] for i in reversed(range(x.shape[0]))])

    results = shaken(toy(turned, rolled=rolled), monkeypatch, APART)
    assert [(r.ruling.verdict, r.shaken) for r in of(results, variant="rolled")] == [("proved", ())]


def test_an_option_that_does_not_compile_is_no_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    unknown = ShakeOption(settings=(("xla_cpu_no_such_option", True),), moves="nothing")
    result, by_option = one(shaken(toy(whole, twofold=twofold), monkeypatch, unknown), "twofold")
    assert result.ruling.ok
    assert by_option[unknown.name].outcome == "error"
    assert "No such compile option: 'xla_cpu_no_such_option'" in str(by_option[unknown.name].why)
    assert "No such compile option" in str(why_not(unknown))
    assert why_not(APART) is None


@pytest.mark.parametrize(
    ("under", "changed", "moved", "outcome"),
    [
        (None, False, False, "no effect"),
        (None, True, False, "robust"),
        (None, False, True, "robust"),
        ({"verdict": "rounding", "mismatches": 3, "ok": False}, True, True, "broken"),
        ({"verdict": "rounding", "mismatches": 3, "required": "rounding"}, True, True, "fragile"),
        ({"verdict": "different", "mismatches": 3, "required": "rounding", "ok": False}, True, True, "broken"),
        ({"verdict": "unstable", "ok": False}, True, True, "broken"),
        ({"verdict": "error", "ok": False, "reason": "it died"}, True, True, "error"),
    ],
)
def test_each_outcome(under: dict[str, Any] | None, changed: bool, moved: bool, outcome: str) -> None:
    usual = toy_result(required="rounding" if under and under.get("required") == "rounding" else "bitwise")
    there = {} if under is None else {"out": toy_result(**under)}
    found = outcomes_under(APART, [usual], there, {"out": moved}, changed)
    assert found["out"].outcome == outcome


@pytest.mark.parametrize(("kind", "outcome"), [("sign of zero", "robust"), ("other", "broken")])
def test_only_the_kind_that_an_option_may_change_is_set_aside(kind: Kind, outcome: str) -> None:
    option = ShakeOption(settings=APART.settings, moves="", aside=("sign of zero",))
    after = toy_result(verdict="different", mismatches=1, kind=kind, ok=False)
    assert outcomes_under(option, [toy_result()], {"out": after}, {}, True)["out"].outcome == outcome


def test_replicas_that_differ_under_an_option_break_the_contract() -> None:
    replica = toy_result(leaf="out (replica on device 3)", verdict="different", mismatches=2, ok=False)
    found = outcomes_under(APART, [toy_result()], {replica.place.leaf: replica}, {"out": True}, True)
    assert found["out"].outcome == "broken"


def test_counts_say_which_options_are_no_evidence() -> None:
    options = [ShakenLeaf(option="a", outcome="no effect", verdict="bitwise")]
    options.append(ShakenLeaf(option="b", outcome="fragile", verdict="rounding", mismatches=2, reference_moved=True))
    shake = shake_of([with_shaken(toy_result(required="rounding"), options), toy_result()], {"c": "unknown"}, LEFT_OUT)
    assert [(row.option, row.effect, row.reference_moved) for row in shake.options] == [("a", False, 0), ("b", True, 1)]
    assert shake.leaves == {"fragile": 1}
    assert shake.not_accepted == {"c": "unknown"}


def test_the_combination_has_every_option_that_combines() -> None:
    (both,) = together(OPTIONS["cpu"])
    assert both.name == TOGETHER
    assert ("xla_allow_excess_precision", False) in both.settings
    assert not any(name == "xla_backend_optimization_level" for name, _ in both.settings)
    for options in OPTIONS.values():
        names = [option.name for option in options]
        assert len(set(names)) == len(names)
        assert not set(names) & set(LEFT_OUT)
    assert together([APART]) == ()


def test_a_missing_instruction_set_cannot_be_disabled() -> None:
    assert [o.name for o in flag_options("cpu", ("avx", "avx2", "fma", "avx512f"))] == [
        "xla_cpu_max_isa=AVX2",
        "xla_cpu_max_isa=AVX",
    ]
    assert [o.name for o in flag_options("cpu", ("avx", "avx2", "fma"))] == ["xla_cpu_max_isa=AVX"]
    assert flag_options("cpu", ("asimd",)) == ()
    assert flag_options("tpu", ()) == ()


def test_the_digest_of_a_program_is_of_its_machine_code() -> None:
    """LLVM's optimisation level shows in no HLO; an ignored option must not look like a change."""
    lowered = jax.jit(lambda x, y, z: x * y + z).lower(*[np.ones((64, 33), np.float32)] * 3)
    several: list[dict[str, Any]] = [{}, {"xla_cpu_max_isa": "AVX"}, {"xla_backend_optimization_level": 0}]
    usual, idle, plain = (lowered.compile(compiler_options=options) for options in several)
    assert code_digest(usual) == code_digest(idle)
    assert code_digest(usual) is not None
    executable: Any = usual.runtime_executable()
    if jax.default_backend() == "cpu" and object_files(executable.serialize()):
        assert code_digest(usual) != code_digest(plain)


def test_object_files_are_cut_where_their_headers_say() -> None:
    head = bytearray(64)
    head[:4] = b"\x7fELF"
    head[40:48] = (100).to_bytes(8, "little")
    head[58:60], head[60:62] = (64).to_bytes(2, "little"), (2).to_bytes(2, "little")
    whole = bytes(head) + bytes(228 - 64)
    assert object_files(b"before" + whole + b"between" + whole + b"after") == [whole, whole]
    assert object_files(b"none") == []
    assert object_files(whole[:100]) == []

"""Wrong input to `samebits compile`: one clear line on stderr, the right exit code, no traceback."""

import importlib.metadata
import re
from pathlib import Path

import pytest

from samebits.programs.catalogue import Locator, load
from samebits.testing.compile_claims import check_compiled_claims
from tests.hlo.programs import V5E, needs_libtpu
from tests.support.foreign import write_pair
from tests.support.invoke import samebits, samebits_process
from tests.support.real_tree import OPTIMIZED, SUITE, compiled, where, write_real_pair

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tree")
    write_pair(root, "plain")  # without production shapes
    return write_real_pair(root, variants=("turned", "again"))


SIDES = "gather, turned, again"
TARGETS = "expected cpu, cpu:16, or a slice such as v5e:2x2 or tpu7x:4x4x4"
OPTION = "expected NAME=VALUE, or SIDE:NAME=VALUE for one side only"
MESSAGES = {
    "malformed target": (("--target", "v5e"), f"target 'v5e' is malformed; {TARGETS}"),
    "no target": (("--target", ""), f"target '' is malformed; {TARGETS}"),
    "no devices": (("--target", "cpu:0"), f"target 'cpu:0' is malformed; {TARGETS}"),
    "another machine": (("--target", "cpu", "--target", "h100"), f"target 'h100' is malformed; {TARGETS}"),
    "the newest by another name": (
        ("--target", "v7x:2x2x1"),
        "target 'v7x:2x2x1' is unknown; did you mean 'tpu7x:2x2x1'?",
    ),
    "a script without a run": (("--script", "wrong.py"), "--script goes with --run, which says what differs"),
    "products without a run": (("--products", "bf16"), "--products belongs to `samebits compile PAIR --run`"),
    "other products": (
        ("--run", "--target", "cpu:8", "--products", "tf32"),
        "--products tf32; expected full or bf16",
    ),
    "a run without a target": (("--run",), "--run takes one --target, such as v5p:2x2x1; got none"),
    "a run for two targets": (
        ("--run", "--target", "cpu", "--target", "cpu:8"),
        "--run takes one --target, such as v5p:2x2x1; got cpu, cpu:8",
    ),
    "a run with an option": (
        ("--run", "--target", "cpu:8", "--option", "xla_cpu_enable_fast_math=true"),
        "--run takes --target, --case, --variant and --direction; leave out --option and --tune",
    ),
    "a run on no mesh of that size": (
        ("reorder", "--run", "--target", "cpu:8"),
        "pair 'reorder' has no mesh of the 8 devices of target 'cpu:8'; its meshes are data1",
    ),
    "unknown pair": (("reordr",), "pair 'reordr' is unknown; did you mean reorder?"),
    "unknown pair and a case": (("reordr", "--case", "real"), "pair 'reordr' is unknown; did you mean reorder?"),
    "without real sizes": (
        ("plain",),
        "pair 'plain' declares no production shapes to compile; write compiled=(RealSize(...),) in its declaration",
    ),
    "unknown case": (
        ("reorder", "--case", "rael"),
        "--case rael: no pair has it; expected some of real; did you mean 'real'?",
    ),
    "a case of the sweep": (("--case", "small"), "--case small: no pair has it; expected some of real"),
    "unknown variant": (
        ("--variant", "turnd"),
        f"--variant turnd: no pair has it; expected some of {SIDES}; did you mean 'turned'?",
    ),
    "unknown direction": (
        ("--direction", "backward"),
        "--direction backward: no pair has it; expected some of forward, gradient",
    ),
    "side of an option": (
        ("--option", "agian:xla_a=1"),
        f"--option agian:xla_a: no pair has this side; expected some of {SIDES}; did you mean 'again'?",
    ),
    "option without a value": (("--option", "xla_a"), f"--option xla_a: {OPTION}"),
    "option without a name": (("--option", "=1"), f"--option =1: {OPTION}"),
    "option without a side": (("--option", ":xla_a=1"), f"--option :xla_a=1: {OPTION}"),
    "side without an option": (("--option", "again:=1"), f"--option again:=1: {OPTION}"),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_wrong_request(tree: Path, name: str) -> None:
    words, message = MESSAGES[name]
    ended = samebits("compile", "--root", tree, *words)
    assert (ended.code, ended.lines) == (2, [f"samebits: {message}"])
    assert "reorder" not in ended.out, "nothing is compiled"


@pytest.mark.sampled(1)
@needs_libtpu
@pytest.mark.parametrize("name", ["v9:2x2", "v5e:3x5"])
def test_an_unknown_slice_does_not_stop_the_others(tree: Path, name: str) -> None:
    words = ("--variant", "turned", "--direction", "forward")
    ended, document = compiled(tree, "reorder", "--target", name, "--target", "cpu:8", *words)
    assert (ended.code, len(ended.lines)) == (2, 1), ended
    line = f"samebits: pair 'reorder': target '{name}': the TPU compiler does not give this slice: "
    assert ended.lines[0].startswith(line)
    assert ended.lines[0].endswith("sizes as in v5e:2x2, v5p:2x2x1, tpu7x:4x4x4")
    assert [(one["side"], one["target"]) for one in document["results"]] == [("gather", "cpu:8"), ("turned", "cpu:8")]


def test_pairs_without_real_sizes_are_left_out_with_a_note(tree: Path) -> None:
    ended, document = compiled(tree, "--variant", "turned", "--direction", "forward")
    assert (ended.code, ended.err) == (0, "")
    assert document["notes"] == ["left out: pair 'plain' declares no production shapes"]
    assert "left out: pair 'plain' declares no production shapes" in ended.out


def test_a_layout_that_does_not_fit_leaves_the_other_targets(tmp_path: Path) -> None:
    write_real_pair(tmp_path, layout="data8", targets=("cpu:4", "cpu:8"), variants=("turned",))
    ended, document = compiled(tmp_path, "--direction", "forward")
    text = "pair 'reorder', case 'real' on cpu:4: layout 'data8' does not fit 4 devices; its fixed axes need 8"
    assert (ended.code, ended.lines) == (2, [f"samebits: {text}"])
    assert {one["target"] for one in document["results"]} == {"cpu:8"}


def test_nothing_that_can_be_compiled(tmp_path: Path) -> None:
    write_real_pair(tmp_path, layout="data8", targets=("cpu:4",))
    ended, document = compiled(tmp_path)
    assert ended.code == 2 and len(ended.lines) == 1
    assert document["results"] == [] and len(document["problems"]) == 1


def test_no_pair_has_real_sizes(tmp_path: Path) -> None:
    write_pair(tmp_path, "plain")
    ended = samebits("compile", "--root", tmp_path)
    assert ended.code == 2 and ended.lines[0].startswith(
        "samebits: pair 'plain' declares no production shapes to compile; "
    )


def test_a_process_of_its_own_says_the_same(tree: Path) -> None:
    ended = samebits_process("compile", "reorder", "--root", tree, "--target", "v7x:2x2x1")
    assert (ended.code, ended.out) == (2, "")
    assert ended.lines == ["samebits: target 'v7x:2x2x1' is unknown; did you mean 'tpu7x:2x2x1'?"]


# --- without the TPU compiler ----------------------------------------------------------------------------------------

NOWHERE = "v4:2x2x4"
"""A slice that no other test asks for: what was once given is remembered."""


def without_libtpu(monkeypatch: pytest.MonkeyPatch) -> None:
    original = importlib.metadata.version

    def version(package: str) -> str:
        if package == "libtpu":
            raise importlib.metadata.PackageNotFoundError(package)
        return original(package)

    monkeypatch.setattr(importlib.metadata, "version", version)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("targets", [(NOWHERE,), (NOWHERE, "cpu:8"), ("cpu:8", NOWHERE)], ids=" ".join)
def test_without_libtpu(targets: tuple[str, ...], tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_libtpu(monkeypatch)
    words = [word for target in targets for word in ("--target", target)]
    ended, document = compiled(tree, "reorder", *words, "--variant", "turned", "--direction", "forward")
    text = f"target '{NOWHERE}' needs the TPU compiler, which is not installed: pip install 'samebits[tpu]'"
    assert (ended.code, ended.lines) == (3, [f"samebits: pair 'reorder': {text}"])
    assert {one["target"] for one in document["results"]} == {*targets} - {NOWHERE}
    assert document["environment"]["versions"]["libtpu"] is None
    assert samebits("compile", "reorder", "--root", tree, "--direction", "forward").code == 0, "CPUs need none"


def test_under_pytest_claims_about_it_are_skipped(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_libtpu(monkeypatch)
    pair = load(Locator(name="reorder", root=str(tree)))
    with pytest.raises(pytest.skip.Exception, match=f"'{NOWHERE}' needs the TPU compiler"):
        check_compiled_claims(pair, "real", NOWHERE, "forward")


# --- sides that raise ------------------------------------------------------------------------------------------------

RAISING = OPTIMIZED.replace("return jnp.flip(x, axis=0) * 0.5", "raise ValueError('no kernel for this shape')")


def test_a_side_that_raises_is_named_once(tmp_path: Path) -> None:
    claims = [
        'variant="again", shows=VARIANT.program == REFERENCE.program',
        'variant="turned", shows=VARIANT.gathers == 0',
    ]
    write_real_pair(tmp_path, claims=claims, optimized=RAISING, variants=("turned", "again"))
    ended, document = compiled(tmp_path)
    where_ = f"({tmp_path}/optimized_impls/reorder.py:7)"
    text = "'turned', case 'real', float32, forward, mesh 'data8' (auto): raised ValueError: no kernel for this shape"
    assert (ended.code, ended.lines) == (3, [f"samebits: pair 'reorder': reorder: {text} {where_}"])
    assert [(one["side"], one["direction"]) for one in document["results"]] == [
        (side, direction) for direction in ("forward", "gradient") for side in ("gather", "again")
    ]
    assert {one["verdict"] for one in where(document["comparisons"], variant="again")} == {"proved"}
    assert ended.out.splitlines()[-1].count("2 claims: as declared where judged; 1 problem; ") == 1


@needs_libtpu
def test_both_sides_of_a_program_that_does_not_compile_are_named(tmp_path: Path) -> None:
    optimized = OPTIMIZED + "\n\n    def same(x):\n        return jnp.flip(x, axis=0) * 0.5\n"
    args = '{"x": Arg(shape=("rows", 1 << 20), spec=(None, "data"))}'
    variants = ("turned", "same", "again")
    write_real_pair(tmp_path, optimized=optimized, args=args, sizes={"rows": 1 << 16}, variants=variants)
    ended, document = compiled(tmp_path, "--target", V5E, "--direction", "forward", "--variant", "*e*")
    assert (ended.code, document["results"]) == (3, [])
    lines = [line for line in ended.lines if "RESOURCE_EXHAUSTED: " in line]
    for side, line in zip(("gather", "turned", "same"), lines, strict=True):
        text = f"reorder: '{side}', case 'real', float32, forward, mesh 'data4' (auto) on {V5E}: raised "
        assert line.startswith(f"samebits: pair 'reorder': {text}")


def test_a_reference_that_raises(tmp_path: Path) -> None:
    reference = "def gather(x):\n    raise RuntimeError('not on this machine')\n"
    write_real_pair(tmp_path, reference=reference, variants=("turned",), claims=["shows=VARIANT.gathers == 0"])
    ended, document = compiled(tmp_path, "--direction", "forward")
    assert ended.code == 3 and len(ended.lines) == 1
    assert "reorder: 'gather', case 'real', float32, forward, " in ended.lines[0]
    assert [one["side"] for one in document["results"]] == ["turned"]
    assert document["comparisons"] == []


def test_a_pair_that_does_not_load_leaves_the_others(tree: Path, tmp_path: Path) -> None:
    write_real_pair(tmp_path, variants=("turned",))
    write_pair(tmp_path, "broken", suite="PAIR = 3\n")
    ended, document = compiled(tmp_path, "--direction", "forward")
    suite = tmp_path / "suites" / "test_broken.py"
    text = f"pair 'broken': {suite} has a int under the name 'PAIR'; expected PAIR = Pair(...)"
    assert (ended.code, ended.lines) == (2, [f"samebits: {text}"])
    assert len(document["results"]) == 2


# --- wrong declarations ----------------------------------------------------------------------------------------------

CLAIM = "real size 'real', claim 'gathers == 0'"
DECLARATIONS = {
    "claim": (
        {"claims": ['shows="faster"']},
        "Claim(shows=...) is str 'faster'; expected a comparison such as VARIANT.while_loops == 0, ",
    ),
    "figure of a claim": (
        {"claims": ["shows=VARIANT.temp_byte <= 1"]},
        "'temp_byte' is not a figure of a compiled side; expected some of ",
    ),
    "two comparisons in one": (
        {"claims": ["shows=0 <= VARIANT.gathers <= 1"]},
        "'gathers >= 0' has no truth value before the sides are compiled; write two claims instead of ",
    ),
    "finding": (
        {"claims": ['shows=VARIANT.gathers == 0, finding=" "']},
        "claim 'gathers == 0' has an empty source or finding; write who says so, or what was found",
    ),
    "side of a claim": (
        {"claims": ['shows=VARIANT.program == compiled_side("agian").program']},
        "pair 'reorder', real size 'real', claim 'same program as agian': expected some of ",
    ),
    "variant of a claim": ({"claims": ['variant="turnd", shows=VARIANT.gathers == 0']}, f"pair 'reorder', {CLAIM}"),
    "direction of a claim": ({"claims": ['direction="back", shows=VARIANT.gathers == 0']}, f"pair 'reorder', {CLAIM}"),
    "target": ({"targets": ("v7x:2x2x1",)}, "real size 'real': target 'v7x:2x2x1' is unknown; did you mean 'tpu7x:"),
    "no target": ({"targets": ()}, "real size 'real' names no targets; write targets=('tpu7x:2x2x1',)"),
    "layout": ({"layout": "data"}, "real size 'real': mesh 'data' is malformed"),
    "variants of a case": (
        {"case": ', variants=("nobody",)'},
        "pair 'reorder', real size 'real': variant 'nobody' is unknown; expected some of ",
    ),
    "ids": (
        {
            "more": 'RealSize(case=Case(id="real", sizes={"rows": 64}), layout="data*", dtype="float32", '
            'targets=("cpu",)),'
        },
        "pair 'reorder' declares real size 'real' twice; ids must differ",
    ),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", DECLARATIONS)
def test_wrong_declaration(name: str, tmp_path: Path) -> None:
    changes, message = DECLARATIONS[name]
    write_real_pair(tmp_path, **changes)  # type: ignore[arg-type]
    write_real_pair(tmp_path, "sound", variants=("turned",))
    ended, document = compiled(tmp_path, "--direction", "forward")
    assert ended.code == 2 and len(ended.lines) == 1, ended
    assert ended.lines[0].startswith("samebits: pair 'reorder'")
    assert message in ended.lines[0], ended.lines
    assert {one["pair"] for one in document["results"]} == {"sound"}, "the other pair goes on"


def test_real_sizes_are_a_tuple(tmp_path: Path) -> None:
    assert re.search(r"compiled=\(\n", SUITE)
    write_real_pair(tmp_path)
    file = tmp_path / "suites" / "test_reorder.py"
    file.write_text(file.read_text().replace("compiled=(", "compiled=[").replace("\n    ),\n)", "\n    ],\n)"))
    ended = samebits("compile", "--root", tmp_path)
    assert ended.code == 2 and len(ended.lines) == 1
    assert "compiled is of type list; expected a tuple" in ended.lines[0]

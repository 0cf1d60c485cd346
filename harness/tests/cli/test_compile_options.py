"""`samebits compile --option` and `compile model`: programs and steps side by side, and what changed."""

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from tests.hlo.programs import TPU7X, V5E, needs_libtpu
from tests.support.invoke import Ended, samebits
from tests.support.real_tree import compiled, where, write_real_pair
from tests.support.toy_model import write_tree

UNFUSED = "xla_disable_hlo_passes=fusion"
IGNORED = "xla_disable_hlo_passes=nothing-of-this-name"
IDLE = "xla_allow_excess_precision=False"
FAST = "xla_cpu_enable_fast_math=True"
NOTHING = "the program is the same with and without; the option changes nothing here"


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    root = tmp_path_factory.mktemp("options")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SAMEBITS_CACHE_DIR", str(root / "cache"))
        claims = ['variant="turned", shows=VARIANT.gathers == 0']
        yield write_real_pair(root, claims=claims, variants=("turned", "again"))


def forward(tree: Path, *options: str, variant: str = "*") -> tuple[Ended, dict[str, Any]]:
    words = [word for option in options for word in ("--option", option)]
    return compiled(tree, "--direction", "forward", "--variant", variant, *words)


def sides(ended: Ended) -> list[str]:
    """The first column of the table."""
    lines = [line.strip() for line in ended.out.splitlines()]
    begin = next(number for number, line in enumerate(lines) if line.startswith("side "))
    names: list[str] = []
    for line in lines[begin + 1 :]:
        words = line.split()
        if not words or words[0].endswith(":"):
            return names
        names.append(" ".join(words[:3]) if words[1:3] == ["+", "options"] else words[0])
    raise AssertionError(ended.out)


@pytest.mark.slow
def test_an_option_for_every_side(tree: Path) -> None:
    ended, document = forward(tree, UNFUSED)
    assert (ended.code, ended.err) == (0, ""), ended
    assert sides(ended) == [name for side in ("gather", "turned", "again") for name in (side, f"{side} + options")]
    given = {"xla_disable_hlo_passes": "fusion"}
    assert [(one["side"], one["options"]) for one in document["results"]] == [
        (side, options) for side in ("gather", "turned", "again") for options in ({}, given)
    ]
    assert [one["side"] for one in document["options"]] == ["gather", "turned", "again"]
    for one in document["options"]:
        without, with_it = where(document["results"], side=one["side"])
        assert (one["changed"], one["options"]) == (True, given)
        assert without["program"] != with_it["program"]
        assert all(with_it[name] == value for name, value in one["after"].items())
        assert all(without[name] == value for name, value in one["before"].items())
        assert list(one["before"]) == list(one["after"]) != []
        counts = [[each["operations"].get(name, 0) for each in (without, with_it)] for name in one["operations"]]
        assert list(one["operations"].values()) == counts != []
        assert f"  {one['side']}: {UNFUSED}: another program: " in ended.out


@pytest.mark.slow
def test_comparisons_are_between_the_programs_with_the_option(tree: Path) -> None:
    ended, document = forward(tree, UNFUSED)
    with_it = {one["side"]: one for one in document["results"] if one["options"]}
    assert [one["variant"] for one in document["comparisons"]] == ["turned", "again"]
    for one in document["comparisons"]:
        ratio = with_it[one["variant"]]["bytes_accessed"] / with_it["gather"]["bytes_accessed"]
        assert one["bytes_ratio"] == pytest.approx(ratio, rel=1e-3)
    assert "again: PROVED, same program: the same bits for every input on cpu:8" in ended.out, "both have the option"


def test_an_option_for_one_side(tree: Path) -> None:
    ended, document = forward(tree, f"turned:{UNFUSED}")
    assert sides(ended) == ["gather", "turned", "turned + options", "again"]
    assert [(one["side"], one["changed"]) for one in document["options"]] == [("turned", True)]
    assert [one["side"] for one in document["results"] if one["options"]] == ["turned"]


def test_what_names_a_side_comes_after_what_is_for_all(tree: Path) -> None:
    _, document = forward(tree, f"turned:{UNFUSED}", IGNORED, f"again:--{IDLE}")
    assert {one["side"]: (one["options"], one["changed"]) for one in document["options"]} == {
        "gather": ({"xla_disable_hlo_passes": "nothing-of-this-name"}, False),
        "turned": ({"xla_disable_hlo_passes": "fusion"}, True),
        "again": (
            {"xla_disable_hlo_passes": "nothing-of-this-name", "xla_allow_excess_precision": "False"},
            False,
        ),
    }


@pytest.mark.parametrize("option", [IGNORED, IDLE])
def test_an_option_that_does_nothing_is_told(option: str, tree: Path) -> None:
    """XLA takes the name of a pass that it does not have without a word."""
    ended, document = forward(tree, f"turned:{option}", variant="turned")
    assert (ended.code, ended.err) == (0, "")
    assert f"  turned: {option}: {NOTHING}" in ended.out
    [one] = document["options"]
    assert (one["changed"], one["before"], one["after"], one["operations"]) == (False, {}, {}, {})


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("xla_nothing_of_this_name=1", "INVALID_ARGUMENT: No such compile option: 'xla_nothing_of_this_name'"),
        ("xla_allow_excess_precision=perhaps", "'perhaps' is not a valid bool value."),
    ],
)
def test_an_option_that_the_compiler_refuses(option: str, words: str, tree: Path) -> None:
    ended, document = forward(tree, option, variant="turned")
    assert ended.code == 2 and len(ended.lines) == 1, ended
    assert ended.lines[0].startswith("samebits: pair 'reorder': cpu:8 rejects an option: ")
    assert ended.lines[0].endswith(words)
    assert [problem["exit_code"] for problem in document["problems"]] == [2]


@pytest.mark.slow
def test_replays_give_the_options_of_both_sides(tree: Path, tmp_path: Path) -> None:
    _, document = forward(tree, f"turned:{UNFUSED}", f"gather:{IDLE}", f"again:{IGNORED}")
    [one] = [one for one in where(document["results"], side="turned") if one["options"]]
    words = shlex.split(one["replay"])
    assert [word for word in words if "xla_" in word] == [f"turned:{UNFUSED}", f"gather:{IDLE}"]
    file = tmp_path / "again.json"
    assert samebits(*words[1:], "--json", file).code == 0
    results = json.loads(file.read_text())["results"]
    [again] = [one for one in where(results, side="turned") if one["options"]]
    assert {**again, "cached": None, "compile_seconds": None} == {**one, "cached": None, "compile_seconds": None}


# --- options and bits ------------------------------------------------------------------------------------------------

DIVIDED = """
    def divided(x):
        return x / 3.0 + x * x
    """
DIVIDED_AGAIN = "def again(x):\n    return (x * 1) / 3.0 + x * x\n"


def test_options_move_bits_below_the_program() -> None:
    """XLA:CPU turns a division into a product by the inverse when it writes machine code; the program shows nothing."""
    x = np.random.default_rng(0).standard_normal(4096).astype(np.float32)
    lowered = jax.jit(lambda x: x / 3.0 + x * x).lower(x)
    usual, fast = lowered.compile(), lowered.compile(compiler_options={"xla_cpu_enable_fast_math": True})
    assert usual.as_text() == fast.as_text()
    assert (np.asarray(usual(x)).view(np.uint32) != np.asarray(fast(x)).view(np.uint32)).sum() > 100


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("option", "proved"),
    [(FAST, True), (f"again:{FAST}", False), (f"divided:{FAST}", False), (f"again:{IGNORED}", False)],
)
def test_one_program_with_other_options_is_no_proof(
    option: str, proved: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SAMEBITS_CACHE_DIR", str(tmp_path / "cache"))
    write_real_pair(tmp_path, reference=DIVIDED, reference_name="divided", optimized=DIVIDED_AGAIN, variants=("again",))
    ended, document = forward(tmp_path, option)
    assert (ended.code, ended.err) == (0, "")
    [one] = document["comparisons"]
    assert (one["same_program"], one["same_order"]) == (True, True)
    assert one["verdict"] == ("proved" if proved else None)
    assert ("PROVED" in ended.out) == proved
    if not proved:
        assert "again: same program with other options, which may move bits in machine code" in ended.out


# --- the SparseCore --------------------------------------------------------------------------------------------------

PRODUCT = """
    def product(x, w):
        return x @ w
    """
OFFLOAD = "xla_tpu_enable_sparse_core_collective_offload_all_gather"


@pytest.mark.slow
@needs_libtpu
@pytest.mark.parametrize(("target", "sparse"), [(TPU7X, 1), (V5E, 0)])
def test_the_sparsecore_switched_off(target: str, sparse: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAMEBITS_CACHE_DIR", str(tmp_path / "cache"))
    write_real_pair(
        tmp_path,
        "weights",
        claims=[f"shows=VARIANT.sparsecore == {sparse}", 'shows=VARIANT.collectives == {"all-gather": 1}'],
        reference=PRODUCT,
        reference_name="product",
        optimized="def doubled(x, w):\n    return (2 * x) @ w\n",
        variants=("doubled",),
        args='{"x": Arg(shape=("rows", 512), spec=("fsdp",)), "w": Arg(shape=(512, 512), spec=("fsdp",))}',
        sizes={"rows": 512},
        layout="fsdp*",
        dtype="bfloat16",
        targets=(target,),
    )
    ended, document = compiled(tmp_path, "--direction", "forward")
    assert (ended.code, ended.err) == (0, ""), ended
    assert {one["sparsecore"] for one in document["results"]} == {sparse}
    assert ("all-gather 1 on SparseCore" in ended.out) == bool(sparse)
    ended, document = compiled(tmp_path, "--direction", "forward", "--option", f"{OFFLOAD}=false")
    assert (ended.code, ended.err) == (sparse, ""), "the claim is about the program with the option"
    found = {(one["side"], bool(one["options"])): one["sparsecore"] for one in document["results"]}
    assert found == {
        (side, given): 0 if given else sparse for side in ("product", "doubled") for given in (False, True)
    }
    assert {one["changed"] for one in document["options"]} == {bool(sparse)}
    if sparse:
        assert f"doubled: {OFFLOAD}=false: another program: sparsecore 1 -> 0" in ended.out
        assert {(one["before"]["sparsecore"], one["after"]["sparsecore"]) for one in document["options"]} == {(1, 0)}
    else:
        assert f"doubled: {OFFLOAD}=false: {NOTHING}" in ended.out


SUITE = '''"""A model for tests, with a preset."""

from dataclasses import replace
from pathlib import Path

from samebits import Config, Preset
from tests.support.toy_model import MATRIX, toy, training


def build(config, parts):
    made = training(config, {}, 1.0)
    return replace(made, state_types=made.initial(), batch_types=made.batch(1))


RUNS = (Config(name="whole", mesh="data1"), Config(name="split", mesh="data2"))
PRESET = Preset(name="toy2", about="two runs", target="cpu:1", runs=RUNS, published={"whole": 1e3}, source="nobody")
MODEL = replace(toy(Path(__file__).parent), build=build, presets=(PRESET,))
'''


@pytest.fixture(scope="module")
def presets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = write_tree(tmp_path_factory.mktemp("presets"))
    (root / "suites" / "model" / "__init__.py").write_text(SUITE)
    return root


def test_a_step_is_compiled_and_published(presets: Path, tmp_path: Path) -> None:
    file, page = tmp_path / "steps.json", tmp_path / "steps.md"
    words = ("--case", "whole", "--json", file, "--markdown", page, "--no-cache")
    ended = samebits("compile", "model", "--root", presets, *words)
    assert ended.code == 0, ended.err
    document = json.loads(file.read_text())
    assert (document["schema"], document["command"], document["preset"]) == ("samebits/2", "compile model", "toy2")
    (row,) = document["results"]
    assert (row["config"], row["target"], row["published_bytes"]) == ("whole", "cpu:1", 1e3)
    assert row["facts"]["argument_bytes"] > 0
    assert "whole" in ended.out and "published: nobody" in ended.out
    assert "whole" in page.read_text()


def test_a_mesh_too_large_for_the_target_fails_its_run(presets: Path) -> None:
    ended = samebits("compile", "model", "--root", presets, "--case", "split", "--no-cache")
    assert ended.code == 2
    assert "split" in ended.out + ended.err and "Traceback" not in ended.err


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("--preset", "toy3"), "preset 'toy3' is unknown; did you mean toy2?"),
        (("--case", "hole"), "preset 'toy2' has no run 'hole'; did you mean whole?"),
        (("--target", "cpu", "--target", "v5e:2x2"), "compile model takes one --target"),
        (("--variant", "fast"), "compile model takes --preset, --target and --case"),
    ],
)
def test_a_wrong_request_is_one_line(words: tuple[str, ...], line: str, presets: Path) -> None:
    ended = samebits("compile", "model", "--root", presets, *words)
    assert ended.code == 2
    assert line in ended.lines[-1] and len(ended.lines) == 1

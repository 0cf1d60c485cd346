"""`samebits audit advise` as a user runs it: tables, documents, exit codes, and one line for a wrong request."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hlo.programs import needs_libtpu
from tests.support.invoke import Ended, clean_environment, samebits

SIZES = ("--embed", "4096", "--mlp", "16384", "--heads", "32")


def advise(*words: str, model: str | None = "llama3-70b", target: str = "tpu7x", mesh: str = "tensor4") -> Ended:
    named = () if model is None else ("--model", model)
    return samebits("audit", "advise", *named, "--target", target, "--mesh", mesh, *words)


def document(tmp_path: Path, *words: str, **more: str | None) -> tuple[Ended, dict[str, object]]:
    path = tmp_path / "advise.json"
    ended = advise(*words, "--json", str(path), **more)  # type: ignore[arg-type]
    return ended, json.loads(path.read_text())


def test_the_statement_as_a_user_reads_it() -> None:
    ended = advise()
    assert ended.code == 1
    assert "tensor 4 wants mlp above 46 140; llama3-70b has 28 672: communication-bound" in ended.out
    assert "wants mlp above 23 070 and is compute-bound" in ended.out, "the exact count says another thing, and says so"
    assert "2.307e+15 (Google Cloud documentation, TPU7x" in ended.out
    assert (
        "tensor 4 wants mlp above 46 140; qwen2.5-7b has 18 944: communication-bound" in advise(model="qwen2.5-7b").out
    )


def test_exit_codes() -> None:
    assert advise(mesh="tensor2", target="v5e").code == 0
    own = advise("--axis", "tp=tensor", "--axis", "tp_transpose=tensor", mesh="tp=2,tp_transpose=2")
    assert (own.code, own.out) == (advise().code, advise().out)
    assert advise("--dtype", "float8", target="v5e").code == 3
    memory = advise("--batch", "1", "--seq", "8", mesh="data1")
    assert memory.code == 1 and "memory-bound" in memory.out


def test_sizes_in_place_of_a_model(tmp_path: Path) -> None:
    ended, found = document(tmp_path, *SIZES, model=None)
    assert ended.code == 1 and found["model"] == "given sizes"
    assert found["dimensions"] == {
        "embed": 4096, "mlp": 16384, "heads": 32, "kv_heads": 32, "head_dim": 128, "layers": 1, "experts": 1,
        "experts_per_token": 1, "source": "given on the command line",
    }  # fmt: skip
    ended, found = document(tmp_path, "--mlp", "46144")
    assert ended.code == 0 and found["model"] == "llama3-70b with mlp 46144"


def test_the_document(tmp_path: Path) -> None:
    ended, found = document(tmp_path, mesh="fsdp2_tensor2_context2")
    assert (found["schema"], found["command"], found["exit_code"]) == ("samebits/2", "advise", ended.code)
    results = found["results"]
    assert isinstance(results, list)
    assert [one["axis"] for one in results] == ["fsdp", "tensor", "context", "context", "memory"]
    assert set(results[0]) == {
        "axis", "size", "over", "sends", "formula", "intensity", "needed", "dimension", "has", "wants", "verdict",
        "block", "source",
    }  # fmt: skip
    figures = found["figures"]
    assert isinstance(figures, dict) and all(one["source"] for one in figures.values())
    assert found["compiled"] is None


def test_markdown(tmp_path: Path) -> None:
    path = tmp_path / "advise.md"
    advise("--markdown", str(path))
    text = path.read_text()
    assert "| tensor 4 | 1 ICI axis |" in text and "- finding: tensor 4: the guide's rule" in text


WRONG: dict[str, tuple[dict[str, str | None], tuple[str, ...], str]] = {
    "unknown model": (
        {"model": "llama3-70"}, (),
        "model 'llama3-70' is unknown; expected one of llama2-7b, llama3-8b, llama3-70b, llama3.1-405b, qwen2.5-7b, "
        "mixtral-8x7b, or --embed, --mlp and --heads; did you mean 'llama3-70b'?",
    ),
    "no model": (
        {"model": None}, ("--mlp", "64"), "no --model, and --embed, --heads not given; give a model or its sizes"
    ),
    "unknown chip": (
        {"target": "v7x"}, (),
        "target 'v7x': no figures of chip 'v7x'; expected one of tpu7x, v5p, v6e, v5e; did you mean 'tpu7x'?",
    ),
    "malformed slice": (
        {"target": "tpu7x:2"}, (),
        "target 'tpu7x:2' is malformed; expected cpu, cpu:16, or a slice such as v5e:2x2 or tpu7x:4x4x4",
    ),
    "small slice": (
        {"target": "v5e:2x2", "mesh": "tensor8"}, (),
        "mesh 'tensor8' needs 8 devices and v5e:2x2 has 4; give a larger slice",
    ),
    "unknown axis": (
        {"mesh": "tensr4"}, (),
        "mesh axis 'tensr' is not one of the guide's; expected some of data, fsdp, tensor, context, expert, stage; "
        "did you mean 'tensor'?; or say which one it is, as in --axis tensr=tensor",
    ),
    "malformed role": ({"mesh": "tp4"}, ("--axis", "tp"), "--axis tp: expected OWN=GUIDE, such as tp=tensor"),
    "role twice": (
        {"mesh": "tp4"}, ("--axis", "tp=tensor", "--axis", "tp=fsdp"), "--axis: 'tp' given twice"
    ),
    "unknown role": (
        {"mesh": "tp4"}, ("--axis", "tp=tensr"),
        "--axis tp=tensr: expected some of data, fsdp, tensor, context, expert, stage; did you mean 'tensor'?",
    ),
    "role of no axis": ({"mesh": "tp4"}, ("--axis", "dp=data"), "--axis dp=data: mesh 'tp4' has no axis 'dp'"),
    "more than heads": ({"mesh": "tensor128"}, (), "mesh axis 'tensor' has size 128, more than heads 64"),
    "uneven heads": ({"mesh": "tensor3"}, (), "mesh axis 'tensor' has size 3, which does not divide heads 64"),
    "no experts": (
        {"mesh": "expert2"}, (), "mesh axis 'expert' has size 2 and model 'llama3-70b' has no experts to split"
    ),
    "uneven stages": ({"mesh": "stage3"}, (), "3 stages of 1 layers do not divide layers 80"),
    "uneven batch": (
        {"mesh": "fsdp4"}, ("--batch", "6"),
        "--batch 6 does not divide over data x fsdp x expert = 4 of mesh 'fsdp4'; a fractional batch per device needs "
        "context or tensor",
    ),
    "huge": ({}, ("--seq", "1" + "0" * 400), f"--seq 1{'0' * 400}: expected at most {10**12}"),
    "no batch": ({}, ("--batch", "0"), "--batch 0: expected at least 1"),
    "no width": ({}, ("--mlp", "0"), "--mlp 0: expected at least 1"),
    "no heads": ({"model": None}, ("--embed", "8", "--mlp", "8", "--heads", "0"), "--heads 0: expected at least 1"),
    "uneven keys": ({}, ("--kv-heads", "3"), "--kv-heads 3: 64 heads cannot share them evenly"),
    "unknown dtype": ({}, ("--dtype", "int4"), "--dtype int4: expected one of bfloat16, float8"),
    "malformed wires": (
        {}, ("--over", "tensor"), "--over tensor: expected AXIS=N or AXIS=d2d, such as fsdp=2 or tensor=d2d"
    ),
    "wires of no axis": ({}, ("--over", "fsdp=2"), "--over fsdp=2: mesh 'tensor4' does not split over 'fsdp'"),
    "too many wires": ({}, ("--over", "tensor=4"), "--over tensor=4: tpu7x has 3 ICI axes"),
    "two axes for a permute": (
        {"mesh": "stage4"}, ("--over", "stage=2"),
        "--over stage=2: a permute goes to one neighbour, over one ICI axis",
    ),
    "four dies": ({}, ("--over", "tensor=d2d"), "--over tensor=d2d: two dies carry an axis of size 2, not 4"),
    "one die": (
        {"target": "v5p", "mesh": "tensor2"}, ("--over", "tensor=d2d"),
        "--over tensor=d2d: no die-to-die interface is published of v5p",
    ),
    "dies used twice": (
        {"mesh": "tensor2_context2"}, ("--over", "tensor=d2d", "--over", "context=d2d"),
        "--over: tensor and context both over d2d; a chip has two dies, for one of them",
    ),
    "compile without a slice": (
        {}, ("--compile",), "--compile: target 'tpu7x' names no slice; give one, such as tpu7x:2x2x1"
    ),
    "compile experts": (
        {"model": "mixtral-8x7b", "target": "v5e:2x2", "mesh": "expert4"}, ("--compile",),
        "--compile compiles the dense MLP of one layer, which does not use mesh axis 'expert'",
    ),
    "a folder": ({}, ("--json", "."), "--json .: is a directory; give the name of a file"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_request_gets_one_line(name: str) -> None:
    where, words, message = WRONG[name]
    ended = advise(*words, **where)  # type: ignore[arg-type]
    assert (ended.code, ended.out, ended.lines) == (2, "", [f"samebits: {message}"])


def test_no_jax_is_imported_without_a_compile() -> None:
    code = (
        "import sys, samebits.cli, samebits.report.advise, samebits.audit.guide.advice; assert 'jax' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], env=dict(clean_environment()), check=True, timeout=60)


@needs_libtpu
@pytest.mark.slow
def test_tensor_four_of_llama3_70b_as_the_compiler_makes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than the exact count, which is the least: 4/3 of it with libtpu 0.0.42.1, as if whole arrays were sent."""
    monkeypatch.setenv("SAMEBITS_CACHE_DIR", str(tmp_path / "cache"))
    ended, found = document(tmp_path, "--compile", target="tpu7x:2x2x1")
    sent = found["compiled"]
    assert isinstance(sent, dict), ended.err
    assert 1 <= sent["ratio"] <= 1.5
    assert sent["predicted_bytes"] == 2 * 2 * 4 * 8192 * 8192 * 3 // 4
    assert "tensor 4 with the bytes that the compiled program communicates: intensity" in ended.out


@needs_libtpu
@pytest.mark.parametrize("mesh", ["fsdp4", pytest.param("fsdp2_tensor2", marks=pytest.mark.slow)])
def test_what_the_compiler_sends_stands_beside_the_prediction(
    mesh: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SAMEBITS_CACHE_DIR", str(tmp_path / "cache"))
    small = ("--embed", "512", "--mlp", "512", "--heads", "8", "--batch", "8", "--seq", "1024")
    ended, found = document(tmp_path, *small, "--compile", model=None, target="v5e:2x2", mesh=mesh)
    sent = found["compiled"]
    assert isinstance(sent, dict), ended.err
    weights = 3 * 2 * 512 * 512
    tokens = 8 * 1024
    said = {
        "fsdp4": weights * 3 // 4,
        # Half of the weights each way round, and two collectives of the activations of half of the tokens.
        "fsdp2_tensor2": weights // 2 // 2 + 2 * 2 * (tokens // 2) * 512 // 2,
    }[mesh]
    assert sent["predicted_bytes"] == said
    assert sent["ratio"] == sent["wire_bytes"] / said
    if mesh == "fsdp4":
        assert sent["ratio"] == 1
    else:
        # The prediction is the least. This compiler sums whole what is so small, where a reduce-scatter is enough.
        assert 1 <= sent["ratio"] <= 2
        assert "x the prediction: the compiler chose all-gather" in ended.out
    assert "beside the prediction" in ended.out

"""The gate for kernels: cheats are refuted by name, honest kernels pass, and wrong requests are said."""

import json
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import samebits
from samebits.errors import RequestError
from samebits.kernel_gate.alone import Alone
from samebits.kernel_gate.gate import gated as kernel_gate
from samebits.kernel_gate.processes import ForkEnd
from samebits.kernel_gate.request import GateRequest
from samebits.report.gate import GateDocument, claim_of
from samebits.schema.gate_row import GateOutcome, GateRow, refuted
from tests.kernel_gate.specimens import CHEATS, HONEST, KINDS, REFERENCES, Specimen
from tests.support.invoke import REPOSITORY, samebits_process

NAMED = {specimen.name: specimen for specimen in (*HONEST, *CHEATS)}

FAST_HONEST = ("rms_norm_whole", "softmax_partial")
FAST_CHEATS = {
    "independent": "weight_ignored",
    "structure": "positions_ignored",
    "kept": "by_checksum",
    "reference": "kernel_unused",
    "aware": "concrete",
    "precision": "bfloat16_inside",
    "tampering": "exits_at_once",
    "memory": "copy_not_awaited",
    "gradient": "zero_gradient",
    "form": "wider_dtype",
}
"""By the kind of a cheat, the specimen that the fast tests run; the slow ones run all."""

LIMITED = ("tail_dropped", "nan_lost", "dtype_of_test", "heads_not_shared")
"""Cheats that are wrong beyond their inputs alone (blocks that do not divide a size, NaNs, another dtype, other heads):
the claim is limited to their inputs, and they are refuted on those on which they are wrong."""


def gated(specimen: Specimen, folder: Path, **options: Any) -> GateDocument:
    """Gate a specimen in a file of its own, where it is limited on inputs on which it is wrong."""
    inputs = specimen.wrong_at if specimen.name in LIMITED else specimen.inputs
    file = folder / "kernel" / f"{specimen.name}.py"
    file.parent.mkdir()
    file.write_text(specimen.source(), encoding="utf-8")
    kernel, reference = f"{file}:{specimen.function}", f"{REFERENCES}:{specimen.reference}"
    return samebits.gate(kernel, reference, inputs=f"{REFERENCES}:{inputs}", **options)


def rows(document: GateDocument) -> str:
    return "\n".join(f"{row.kind} {row.state}: {row.words} {row.where}" for row in document.results)


@pytest.mark.parametrize("name", FAST_HONEST)
def test_honest_kernels_pass(name: str, tmp_path: Path) -> None:
    document = gated(NAMED[name], tmp_path)
    assert document.exit_code == 0, rows(document)
    assert document.leaves and "it has the" in document.claim


@pytest.mark.parametrize("kind", KINDS)
def test_cheats_are_refuted(kind: str, tmp_path: Path) -> None:
    document = gated(NAMED[FAST_CHEATS[kind]], tmp_path)
    assert NAMED[FAST_CHEATS[kind]].kind == kind
    assert document.exit_code == 1, rows(document)
    assert document.claim.startswith("refuted: ")


@pytest.mark.slow
@pytest.mark.parametrize("specimen", HONEST, ids=lambda specimen: specimen.name)
def test_every_honest_kernel_passes(specimen: Specimen, tmp_path: Path) -> None:
    document = gated(specimen, tmp_path)
    assert document.exit_code == 0, rows(document)


@pytest.mark.slow
@pytest.mark.parametrize("specimen", CHEATS, ids=lambda specimen: specimen.name)
def test_every_cheat_is_refuted(specimen: Specimen, tmp_path: Path) -> None:
    limit = 10.0 if specimen.name in ("never_ends", "kernel_never_ends") else 60.0
    document = gated(specimen, tmp_path, seconds=limit)
    assert document.exit_code == 1, rows(document)


# --- requests ---------------------------------------------------------------------------------------------------------

REFERENCE = """
    import numpy as np
    def inputs():
        return (np.ones((8, 128), np.float32),)
    def reference(x):
        return x + x
    """
KERNEL = """
    def kernel(x):
        return 2 * x
    """


def written(folder: Path, **texts: str) -> None:
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(textwrap.dedent(text), encoding="utf-8")


def test_requests_that_are_wrong_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path, r=REFERENCE, k=KERNEL, two="def f(x): return x\ndef g(x): return x\n", bad="def f(:\n")
    written(
        tmp_path, no_inputs="def reference(x): return x\n", raises="def reference(x): return x\ndef inputs(): 1 / 0\n"
    )
    wrong = {
        ("k.py", "r.py:referense"): "has no function 'referense'; it has inputs, reference",
        ("gone.py", "r.py"): "gone.py: cannot be read: No such file or directory",
        ("two.py", "r.py"): "two.py: which function is the kernel? It has f, g; write two.py:NAME",
        ("bad.py", "r.py"): "bad.py:1: is not Python",
        ("k.py", "no_inputs.py"): "no function inputs or create_inputs says what both are called with; give --inputs",
        ("r.py:reference", "r.py"): "is both the kernel and its reference; nothing would be compared",
        ("kernel", "r.py"): "kernel 'kernel': expected FILE.py or FILE.py:FUNCTION",
        ("k.py", "raises.py"): "the inputs: raised ZeroDivisionError: division by zero",
    }
    for (kernel, reference), message in wrong.items():
        with pytest.raises(RequestError) as raised:
            samebits.gate(kernel, reference)
        assert message in str(raised.value)
    with pytest.raises(
        RequestError, match="takes no 'tolerance'; it takes inputs, arg, gradient, sizes, accuracy, seconds"
    ):
        samebits.gate("k.py", "r.py", tolerance=1)


def test_the_command_reads_a_request_in_json(tmp_path: Path) -> None:
    sources = {"kernel_source": textwrap.dedent(KERNEL), "reference_source": textwrap.dedent(REFERENCE)}
    words = [sys.executable, "-m", "samebits", "gate", "-", "--json", str(tmp_path / "found.json")]

    def run(request: Mapping[str, object]) -> subprocess.CompletedProcess[str]:
        environment = {"PYTHONPATH": str(REPOSITORY / "harness"), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
        text = json.dumps(request)
        return subprocess.run(words, input=text, capture_output=True, text=True, env=environment, check=False)

    ended = run(sources)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    found = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    assert (found["command"], found["refuted"], found["results"][2]["state"]) == ("gate", [], "holds")
    ended = run({**sources, "tolerance": 1})
    assert (
        ended.returncode == 2 and "the key 'tolerance' is unknown; expected kernel, reference, inputs" in ended.stderr
    )


LARGE = """
    import jax
    import jax.numpy as jnp
    from jax.experimental import pallas as pl
    def inputs():
        return (jnp.ones((1 << 13, 1 << 14)),)
    def reference(x):
        return x - jnp.max(x, axis=1, keepdims=True)
    def kernel(x, rows=256):
        def body(x_ref, out_ref):
            out_ref[...] = x_ref[...] - jnp.max(x_ref[...], axis=1, keepdims=True)
        block = pl.BlockSpec((rows, x.shape[1]), lambda i: (i, 0))
        shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return pl.pallas_call(body, grid=(STEPS,), in_specs=[block], out_specs=block, out_shape=shape)(x)
    """


@pytest.mark.parametrize(("steps", "code"), [("x.shape[0] // rows", 0), ("min(x.shape[0] // rows, 1)", 1)])
def test_smaller_sizes_stand_for_large_inputs(steps: str, code: int, tmp_path: Path) -> None:
    """Half a gigabyte is not made, and a grid of one step is wrong at other sizes than that of its block."""
    written(tmp_path, r=LARGE, k=LARGE.replace("STEPS", steps))
    document = samebits.gate(tmp_path / "k.py", tmp_path / "r.py")
    assert document.exit_code == code, rows(document)
    assert any("for 8192" in note for note in document.notes), document.notes


LATE = ForkEnd(trouble="did not return within 1 seconds", is_late=True)
NEAR = GateRow(kind="formula", state="limited", words="equal where both were executed")


@pytest.mark.parametrize(
    ("stand_in", "ends", "said", "code"),
    [
        ("", [LATE], "refuted: tampering (it did not return within 1 seconds)", 1),
        ("8 for 512", [LATE], "undecided: it did not return within 1 seconds", 3),
        ("8 for 512", [ForkEnd(trouble="ended the process by signal 9")], "refuted: tampering (it ended", 1),
        ("", [Alone(rows=()), LATE], "undecided: comparing it did not return within 1 seconds", 3),
        (
            "",
            [Alone(rows=()), (NEAR, LATE), GateOutcome(rows=())],
            "undecided: equal where both were executed; comp",
            3,
        ),
        (
            "",
            [Alone(rows=()), (NEAR, LATE), GateOutcome(rows=(refuted("structure", "x"),))],
            "refuted: structure (x)",
            1,
        ),
    ],
)
def test_what_is_said_when_the_time_is_over(
    stand_in: str, ends: list[Any], said: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, r=REFERENCE, k=KERNEL)
    each = iter([((), stand_in, ""), *ends])

    def forked(work: Any, seconds: float) -> ForkEnd:
        end = next(each)
        if isinstance(end, tuple) and end[0] is NEAR:
            late: ForkEnd = end[1]
            return replace(late, value=GateOutcome(rows=(NEAR,)))
        return end if isinstance(end, ForkEnd) else ForkEnd(value=end)

    monkeypatch.setattr("samebits.kernel_gate.gate.forked", forked)
    outcome = kernel_gate(GateRequest(kernel=str(tmp_path / "k.py"), reference=str(tmp_path / "r.py")))
    document = GateDocument(kernel="", reference="", results=outcome.rows, claim=claim_of(outcome.rows, ()))
    assert document.claim.startswith(said) and document.exit_code == code


def test_options_that_contradict_each_other_are_rejected(tmp_path: Path) -> None:
    ended = samebits_process("gate", "k.py", "--reference", "r.py", "--gradient", "--forward", cwd=tmp_path)
    assert ended.code == 2 and "--gradient and --forward contradict each other" in ended.err
    ended = samebits_process("gate", "k.py", cwd=tmp_path)
    assert ended.code == 2 and "no --reference: nothing would be compared" in ended.err

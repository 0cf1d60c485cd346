"""The parallelism guide as numbers: its thresholds from the published chip figures, its formulas on explicit shapes."""

import functools
import math
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samebits.audit.guide import advice, chips, intensity, setup
from samebits.audit.guide import setup as models
from samebits.audit.guide.advice import Advice, Interconnect
from samebits.schema.meshes import MeshSpec
from tests.audit.guide.edited import edited

# --- the statement --------------------------------------------------------------------------------------------------


def ask(model: str = "llama3-70b", mesh: str = "tensor4", chip: str = "tpu7x", **more: object) -> tuple[Advice, ...]:
    """The advice, every part looked up anew, so that an edited module counts."""
    spec = MeshSpec.parse(mesh)
    over = more.pop("over", {})
    wraparound = more.pop("wraparound", True)
    dtype = str(more.pop("dtype", "bfloat16"))
    size = {"batch": spec.devices, "seq": 8192, **more}
    sizes = setup.TrainingSetup(model=models.MODELS[model], mesh=spec, width=chips.WIDTHS[dtype], **size)  # type: ignore[arg-type]
    wires = advice.Interconnect(over=over, wraparound=wraparound)  # type: ignore[arg-type]
    return advice.advise(sizes, chips.CHIPS[chip], dtype, wires)


def first(*words: object, **more: object) -> Advice:
    return ask(*words, **more)[0]  # type: ignore[arg-type]


def statement() -> None:
    """What MaxText's guide "Optimizing frontier model training on TPU v7x" says of tensor parallelism.

    An arithmetic intensity of 11.5k "requires an MLP dimension greater than 46k (for TP degree 4) to be viable over
    ICI"; Llama3 70B with 28 672 and Qwen 2.5 7B with 18 944 "fall short, and using TP here would result in the system
    becoming communication-bound".
    """
    for model, mlp in (("llama3-70b", 28_672), ("qwen2.5-7b", 18_944)):
        found = first(model)
        assert found.axis == "tensor" and found.has == mlp
        assert found.needed is not None and found.wants is not None
        assert round(found.needed / 1000, 1) == 11.5
        assert math.floor(found.wants / 1000) == 46
        assert found.verdict == "communication-bound"
    assert first("llama3.1-405b").verdict == "compute-bound", "53 248 is above"


def test_the_statement_of_the_documents() -> None:
    statement()


def test_what_a_model_must_have_is_where_the_verdict_turns() -> None:
    wants = first().wants
    assert wants is not None
    below, above = (4 * (int(wants) // 4 + step) for step in (-1, 1))
    for mlp, verdict in ((below, "communication-bound"), (above, "compute-bound")):
        known = models.dimensions("llama3-70b", {"mlp": mlp})
        sizes = setup.TrainingSetup(model=known, mesh=MeshSpec.parse("tensor4"), batch=4, seq=8192, width=2)
        assert advice.advise(sizes, chips.CHIPS["tpu7x"], "bfloat16", Interconnect(over={}))[0].verdict == verdict


def test_the_whole_block_is_kinder_than_the_rule() -> None:
    llama, qwen = first("llama3-70b"), first("qwen2.5-7b")
    assert llama.block is not None and qwen.block is not None and llama.wants is not None
    assert llama.block.wants == pytest.approx(llama.wants / 1.5 * 3 / 4), "a shared gather, and 3/4 of a ring"
    assert (llama.block.verdict, llama.split) == ("compute-bound", True)
    assert (qwen.block.verdict, qwen.split) == ("communication-bound", False)


def test_another_chip_of_the_guide() -> None:
    """MaxText, Sharding on TPUs: Trillium wants M / t above 5100, with 917 TFLOPs and 180 GB/s; here 918 and 200."""
    found = first(chip="v6e")
    assert found.needed == pytest.approx(918e12 / 200e9)
    assert found.needed == pytest.approx(5100 * 180 / 200, rel=0.002)


def test_links_agree_with_the_scaling_book() -> None:
    """Part 2, TPU Specs, ICI BW/link (one-way): a tenth less in the later edition, the same in the first."""
    for name, later in (("v5p", 9e10), ("v5e", 4.5e10), ("v6e", 9e10)):
        assert chips.CHIPS[name].link == pytest.approx(later / 0.9)


def test_every_figure_has_a_source() -> None:
    for chip in chips.CHIPS.values():
        for one in (chip.devices, chip.torus, chip.hbm, chip.ici, chip.d2d_links, *chip.peak.values()):
            assert one is None or (one.value > 0 and len(one.source) > 20)


# --- planted faults: each must break the statement ------------------------------------------------------------------

FAULTS: dict[str, tuple[ModuleType, str, str]] = {
    "one direction of a ring": (chips, "axes * (2 if wraparound else 1)", "axes"),
    "both directions counted twice": (chips, "/ (2 * 2 * self.torus.value)", "/ (2 * self.torus.value)"),
    "peak per core, links per chip": (chips, "self.link / self.devices.value", "self.link"),
    "peak per chip, links per core": (chips, "peak.value / self.devices.value", "peak.value"),
    "all axes for one": (chips, "/ (2 * 2 * self.torus.value)", "/ 4"),
    "gigabits for gigabytes": (chips, "GB = 1e9", "GB = 1e9 / 8"),
    "peak of FP8": (chips, "value=2307 * TERA", "value=4614 * TERA"),
    "a multiply and an add are one": (intensity, "return 2 * rows", "return rows"),
    "bytes per element forgotten": (
        intensity,
        "bytes=s.width * s.routed * s.model.embed)",
        "bytes=s.routed * s.model.embed)",
    ),
    "four bytes per element": (chips, '"bfloat16": 2', '"bfloat16": 4'),
    "tensor forgotten": (setup, 'self.model.mlp // self.axis_size("tensor")', "self.model.mlp"),
    "the other dimension sent": (
        intensity,
        "bytes=s.width * s.routed * s.model.embed)",
        "bytes=s.width * s.routed * s.mlp)",
    ),
    "the verdict turned round": (advice, "work.intensity > need", "work.intensity < need"),
    "the ratio turned round": (intensity, "return peak / bandwidth", "return bandwidth / peak"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_breaks_the_statement(name: str) -> None:
    with edited(*FAULTS[name]), pytest.raises(AssertionError):
        statement()
    statement()


# --- what must grow and shrink --------------------------------------------------------------------------------------

SIZES = st.integers(0, 4).map(lambda power: 2**power)


@given(tensor=SIZES, fsdp=SIZES, more=st.sampled_from([2, 4]))
def test_one_parallelism_does_not_move_the_rule_of_another(tensor: int, fsdp: int, more: int) -> None:
    """MaxText, Sharding on TPUs, Mixed sharding strategies: the ratio is independent of the other axes."""
    model = models.MODELS["llama3-70b"]
    make = functools.partial(setup.TrainingSetup, model=model, seq=4096, width=2)
    one = make(mesh=MeshSpec.parse(f"tensor{tensor}_fsdp{fsdp}"), batch=fsdp)
    split = make(mesh=MeshSpec.parse(f"tensor{tensor}_fsdp{fsdp * more}"), batch=fsdp * more)
    assert intensity.tensor_rule(one).intensity == intensity.tensor_rule(split).intensity
    assert intensity.weights_rule(one).intensity == one.tokens == split.tokens


@given(tensor=st.sampled_from([2, 4, 8, 16]))
def test_more_tensor_wants_a_larger_mlp(tensor: int) -> None:
    less, more = first(mesh=f"tensor{tensor}"), first(mesh=f"tensor{2 * tensor}")
    assert less.wants is not None and more.wants == pytest.approx(2 * less.wants)
    assert less.block is not None and less.block.wants is not None and less.block.wants < less.wants
    assert more.intensity == less.intensity / 2 and more.needed == less.needed


@given(batch=st.integers(1, 64))
def test_tensor_does_not_care_for_the_batch_and_fsdp_does(batch: int) -> None:
    assert first(mesh="tensor4", batch=batch).intensity == 7168
    assert first(mesh="fsdp4", batch=4 * batch).intensity == batch * 8192


@given(axes=st.sampled_from([1, 2, 3]))
def test_more_wires_need_less(axes: int) -> None:
    one, many = first(), first(over={"tensor": str(axes)})
    assert one.needed is not None and many.needed == pytest.approx(one.needed / axes)
    line = first(over={"tensor": str(axes)}, wraparound=False)
    assert line.needed == pytest.approx(2 * (many.needed or 0)), "an open line has half"


def test_dies_of_a_chip_are_near() -> None:
    dies = first(mesh="tensor2", over={"tensor": "d2d"})
    assert dies.over == "die to die" and dies.verdict == "compute-bound"
    # Half a chip's peak over six links, one way: the lower reading of "six times faster than a 1D ICI link".
    assert dies.needed == pytest.approx(2307e12 / 2 / (6 * 100e9))


def test_a_permute_has_one_link() -> None:
    stage, tensor = first(mesh="stage4"), first(mesh="tensor4")
    assert stage.needed == pytest.approx(2 * (tensor.needed or 0))


def test_eight_bits_halve_the_bytes_and_double_the_peak() -> None:
    wide, narrow = first(), first(dtype="float8")
    assert narrow.intensity == 2 * wide.intensity and narrow.needed == pytest.approx(2 * (wide.needed or 0))
    assert narrow.wants == pytest.approx(wide.wants)


def test_an_unpublished_figure_makes_the_verdict_unknown() -> None:
    found = ask(chip="v5e", dtype="float8")
    assert {one.verdict for one in found} == {"unknown"} and {one.wants for one in found} == {None}


def test_the_tokens_that_memory_wants_reach_what_it_needs() -> None:
    found = ask("llama3-70b", "tensor4")[-1]
    assert found.axis == "memory" and found.wants is not None and found.needed is not None
    tokens, embed, mlp = found.wants, 8192, 28672 // 4
    reached = 2 * tokens * embed * mlp / (2 * (tokens * embed + embed * mlp + tokens * mlp))
    assert reached == pytest.approx(found.needed)

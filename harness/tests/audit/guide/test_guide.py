"""The parallelism guide: each formula counted on explicit shapes, its thresholds from published figures, own axes."""

import functools
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samebits.audit.guide import advice, chips, intensity, setup
from samebits.audit.guide.advice import Advice, Interconnect
from samebits.audit.guide.setup import guide_mesh
from samebits.errors import MeshError, RequestError
from samebits.schema.meshes import MeshSpec


@contextmanager
def edited(module: ModuleType, old: str, new: str) -> Iterator[None]:
    """Run the edited text in place of the module; whoever looks names up in it sees the fault."""
    text = Path(module.__file__ or "").read_text(encoding="utf-8")
    assert old in text, f"nothing to edit: {old}"
    before = dict(vars(module))
    try:
        exec(compile(text.replace(old, new), str(module.__file__), "exec"), vars(module))
        yield
    finally:
        vars(module).clear()
        vars(module).update(before)


def elements(*shape: int) -> int:
    return math.prod(shape)


def flops(*matmuls: tuple[int, int, int]) -> int:
    """A multiply and an add per pair of elements that meet."""
    return sum(2 * rows * inner * columns for rows, inner, columns in matmuls)


def a_ring_gathers(shard: int, n: int) -> int:
    """What each of n devices passes on when shards go round: its own, then those that it got."""
    sent, held = 0, 1
    while held < n:
        sent, held = sent + shard, held + 1
    return sent


SMALL = setup.Dimensions(
    name="small", embed=64, mlp=96, heads=8, kv_heads=4, head_dim=16, layers=4, experts=1, experts_per_token=1
)
MIXED = setup.Dimensions(
    name="mixed", embed=64, mlp=96, heads=8, kv_heads=4, head_dim=16, layers=4, experts=8, experts_per_token=2
)
BF16 = 2


def small(mesh: str, model: setup.Dimensions = SMALL, **more: int) -> setup.TrainingSetup:
    size = {"batch": 16, "seq": 32, **more}
    return setup.TrainingSetup(model=model, mesh=MeshSpec.parse(mesh), width=BF16, **size)


def block_of(sends: str, s: setup.TrainingSetup) -> intensity.DeviceWork:
    (kind,) = (kind for kind in intensity.PARALLELISMS if kind.axis + " " + kind.sends.split(",")[0] == sends)
    return kind.block(s)


def test_tensor_counts_its_shapes() -> None:
    s = small("data2_tensor4")
    rows = 16 // 2 * 32
    assert intensity.tensor_rule(s) == intensity.DeviceWork(
        flops=flops((rows, 24, 64)), bytes=BF16 * elements(rows, 64)
    )
    block = block_of("tensor activations", s)
    assert block.flops == flops((rows, 64, 24), (rows, 64, 24), (rows, 24, 64))
    assert block.bytes == 2 * a_ring_gathers(BF16 * elements(rows, 64 // 4), 4)
    assert intensity.tensor_rule(s).intensity == 96 / 4


def test_fsdp_counts_its_shapes() -> None:
    s = small("fsdp4_tensor2")
    rows = 16 // 4 * 32
    rule, block = intensity.weights_rule(s), block_of("fsdp weights", s)
    assert rule == intensity.DeviceWork(flops=flops((rows, 64, 48)), bytes=BF16 * elements(64, 48))
    assert block.bytes == 3 * a_ring_gathers(BF16 * elements(64 // 4, 48), 4)
    assert rule.intensity == rows, "the local batch in tokens"


def test_data_counts_its_shapes() -> None:
    s = small("data4")
    rows = 16 // 4 * 32
    rule, block = intensity.data_rule(s), block_of("data gradients", s)
    # The gradient of each matmul is two: of its activations and of its weights.
    assert rule.flops == flops((rows, 96, 64), (64, rows, 96))
    assert block.flops == 3 * rule.flops
    assert block.bytes == 3 * 2 * a_ring_gathers(BF16 * elements(64, 96) // 4, 4), "a reduce-scatter and a gather"
    assert rule.intensity == rows


def test_context_counts_its_shapes() -> None:
    s = small("context4_tensor2")
    rule, block = intensity.keys_rule(s), block_of("context keys and values", s)
    per_head = flops((8, 16, 32), (8, 32, 16))  # scores, and the values they weigh
    assert rule.flops == 16 * (8 // 2) * per_head
    assert rule.bytes == 2 * BF16 * elements(16, 32, 4 // 2, 16)
    assert block.bytes == 2 * a_ring_gathers(BF16 * elements(16, 32 // 4, 2, 16), 4)
    assert rule.intensity == 32 * 8 / (4 * 4), "S H / (K n)"
    assert s.tokens == 16 * 32 // 4


def test_experts_count_their_shapes() -> None:
    for n in (4, 8):
        s = small(f"expert{n}", MIXED)
        tokens = 16 // n * 32 * 2
        rule, block = intensity.expert_rule(s), block_of("expert routed tokens", s)
        assert rule.flops == flops((tokens, 64, 96))
        # An even ring that sends both ways: the chunk for the device d places away crosses min(d, n - d) links.
        chunk = BF16 * elements(tokens, 64) / n
        crossed = sum(min(d, n - d) for d in range(1, n))
        assert rule.bytes == chunk * crossed, "spread evenly over both directions, what each device passes on"
        assert rule.intensity == 4 * 96 / n
        assert (block.flops, block.bytes) == (3 * rule.flops, 2 * rule.bytes), "there and back"
    s = small("expert4", MIXED)
    assert intensity.weights_rule(s).bytes == BF16 * elements(2, 64, 96), "two experts of eight on a device"
    assert intensity.weights_rule(small("fsdp4", MIXED)).intensity == 16 // 4 * 32 * 2 / 8, "local batch / sparsity"


def test_stages_count_their_shapes() -> None:
    s = small("stage2", layers_per_stage=2)
    rows = 16 * 32
    rule = intensity.stage_rule(s)
    assert rule.flops == 2 * flops((rows, 64, 96), (rows, 64, 96), (rows, 96, 64))
    assert rule.bytes == 2 * BF16 * elements(rows, 64)
    assert rule.intensity == 3 / 2 * 2 * 96
    assert intensity.stage_rule(small("stage2", MIXED)).intensity == 3 / 2 * 96 * 2, "times experts per token"


def test_memory_counts_its_shapes() -> None:
    s = small("tensor2")
    rows = 16 * 32
    moved = BF16 * (elements(rows, 64) + elements(64, 48) + elements(rows, 48))
    assert intensity.memory_rule(s) == intensity.DeviceWork(flops=flops((rows, 64, 48)), bytes=moved)


# --- the statement --------------------------------------------------------------------------------------------------


def ask(model: str = "llama3-70b", mesh: str = "tensor4", chip: str = "tpu7x", **more: object) -> tuple[Advice, ...]:
    """The advice, every part looked up anew, so that an edited module counts."""
    spec = MeshSpec.parse(mesh)
    over = more.pop("over", {})
    wraparound = more.pop("wraparound", True)
    dtype = str(more.pop("dtype", "bfloat16"))
    size = {"batch": spec.devices, "seq": 8192, **more}
    sizes = setup.TrainingSetup(model=setup.MODELS[model], mesh=spec, width=chips.WIDTHS[dtype], **size)  # type: ignore[arg-type]
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
        known = setup.dimensions("llama3-70b", {"mlp": mlp})
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


Test = Callable[[], None]

FAULTS: dict[str, tuple[ModuleType, str, str, Test]] = {
    "a ring sends its whole array": (intensity, "return (n - 1) / n", "return 1", test_tensor_counts_its_shapes),
    "gate and up gather apart": (
        intensity,
        "collectives=2,  # gate",
        "collectives=3,  # gate",
        test_tensor_counts_its_shapes,
    ),
    "two matmuls in a block": (intensity, "MATMULS = 3", "MATMULS = 2", test_fsdp_counts_its_shapes),
    "weights not split over tensor": (
        intensity,
        "s.width * s.experts * s.model.embed * s.mlp)",
        "s.width * s.experts * s.model.embed * s.model.mlp)",
        test_fsdp_counts_its_shapes,
    ),
    "all-reduce for the price of a gather": (
        intensity,
        "flops=2 * forward.flops, bytes=2 * forward.bytes",
        "flops=2 * forward.flops, bytes=forward.bytes",
        test_data_counts_its_shapes,
    ),
    "context does not split tokens": (
        setup,
        'self.seq // self.axis_size("context")',
        "self.seq",
        test_context_counts_its_shapes,
    ),
    "queries for keys": (
        intensity,
        "s.seq * s.kv_heads * head",
        "s.seq * s.heads * head",
        test_context_counts_its_shapes,
    ),
    "keys without values": (
        intensity,
        "bytes=2 * s.width * s.sequences",
        "bytes=s.width * s.sequences",
        test_context_counts_its_shapes,
    ),
    "a true all-to-all network": (intensity, '* s.axis_size("expert") / 4', "", test_experts_count_their_shapes),
    "one expert per token": (
        setup,
        "self.tokens * self.model.experts_per_token",
        "self.tokens",
        test_experts_count_their_shapes,
    ),
    "all experts on each device": (
        setup,
        'self.model.experts // self.axis_size("expert")',
        "self.model.experts",
        test_experts_count_their_shapes,
    ),
    "one permute per stage": (
        intensity,
        "bytes=2 * s.width * s.tokens",
        "bytes=s.width * s.tokens",
        test_stages_count_their_shapes,
    ),
    "one layer per stage": (intensity, "s.layers_per_stage * layer", "layer", test_stages_count_their_shapes),
    "the result is not written": (intensity, " + s.routed * s.mlp\n", "\n", test_memory_counts_its_shapes),
    "one direction of a ring": (chips, "axes * (2 if wraparound else 1)", "axes", statement),
    "both directions counted twice": (chips, "/ (2 * 2 * self.torus.value)", "/ (2 * self.torus.value)", statement),
    "peak per core, links per chip": (chips, "self.link / self.devices.value", "self.link", statement),
    "peak per chip, links per core": (chips, "peak.value / self.devices.value", "peak.value", statement),
    "all axes for one": (chips, "/ (2 * 2 * self.torus.value)", "/ 4", statement),
    "gigabits for gigabytes": (chips, "GB = 1e9", "GB = 1e9 / 8", statement),
    "peak of FP8": (chips, "value=2307 * TERA", "value=4614 * TERA", statement),
    "a multiply and an add are one": (intensity, "return 2 * rows", "return rows", statement),
    "bytes per element forgotten": (
        intensity,
        "bytes=s.width * s.routed * s.model.embed)",
        "bytes=s.routed * s.model.embed)",
        statement,
    ),
    "four bytes per element": (chips, '"bfloat16": 2', '"bfloat16": 4', statement),
    "tensor forgotten": (setup, 'self.model.mlp // self.axis_size("tensor")', "self.model.mlp", statement),
    "the other dimension sent": (
        intensity,
        "bytes=s.width * s.routed * s.model.embed)",
        "bytes=s.width * s.routed * s.mlp)",
        statement,
    ),
    "the verdict turned round": (advice, "work.intensity > need", "work.intensity < need", statement),
    "the ratio turned round": (intensity, "return peak / bandwidth", "return bandwidth / peak", statement),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_breaks_a_count_or_the_statement(name: str) -> None:
    module, old, new, test = FAULTS[name]
    with edited(module, old, new), pytest.raises(AssertionError):
        test()
    test()


# --- what must grow and shrink --------------------------------------------------------------------------------------

SIZES = st.integers(0, 4).map(lambda power: 2**power)


@given(tensor=SIZES, fsdp=SIZES, more=st.sampled_from([2, 4]))
def test_one_parallelism_does_not_move_the_rule_of_another(tensor: int, fsdp: int, more: int) -> None:
    """MaxText, Sharding on TPUs, Mixed sharding strategies: the ratio is independent of the other axes."""
    model = setup.MODELS["llama3-70b"]
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


@pytest.mark.parametrize(
    ("mesh", "roles", "expected"),
    [
        ("tensor4", (), "tensor4"),
        ("dp2_tp4", ("dp=data", "tp=tensor"), "data2_tensor4"),
        ("fsdp=2,fsdp_transpose=4", ("fsdp_transpose=fsdp",), "fsdp8"),
        ("data2", ("data=fsdp",), "fsdp2"),
        ("none", (), "none"),
    ],
)
def test_axes_take_their_roles(mesh: str, roles: tuple[str, ...], expected: str) -> None:
    assert guide_mesh(MeshSpec.parse(mesh), roles).id == expected


def test_an_axis_without_a_role_is_not_ignored() -> None:
    with pytest.raises(MeshError, match="or say which one it is, as in --axis tp=tensor"):
        guide_mesh(MeshSpec.parse("data2_tp4"), ())


@pytest.mark.parametrize("role", ["tp", "=tensor", "tp=", "tp=tensr", "dp=data"])
def test_a_wrong_role_is_rejected(role: str) -> None:
    with pytest.raises(RequestError, match=r"^--axis "):
        guide_mesh(MeshSpec.parse("tp4"), (role,))

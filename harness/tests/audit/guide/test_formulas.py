"""Each formula of `samebits.audit.guide` compared with counts of explicit matmuls and collectives; planted faults."""

import math
from collections.abc import Callable
from types import ModuleType

import pytest

from samebits.audit.guide import intensity, setup
from samebits.audit.guide import setup as models
from samebits.schema.meshes import MeshSpec
from tests.audit.guide.edited import edited


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


SMALL = models.Dimensions(
    name="small", embed=64, mlp=96, heads=8, kv_heads=4, head_dim=16, layers=4, experts=1, experts_per_token=1
)
MIXED = models.Dimensions(
    name="mixed", embed=64, mlp=96, heads=8, kv_heads=4, head_dim=16, layers=4, experts=8, experts_per_token=2
)
BF16 = 2


def small(mesh: str, model: models.Dimensions = SMALL, **more: int) -> setup.TrainingSetup:
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
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_breaks_a_count(name: str) -> None:
    module, old, new, test = FAULTS[name]
    with edited(module, old, new), pytest.raises(AssertionError):
        test()
    test()

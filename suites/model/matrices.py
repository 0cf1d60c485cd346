"""The built-in configurations and matrices."""

from __future__ import annotations

from itertools import combinations

from samebits import Config, Matrix

PARTS = {
    "attention": "blockwise",
    "cross_entropy": "chunked_custom_gradient",
    "embedding": "gather_float32_gradient",
    "expert_weight_sum": "multiply_sum",
    "gradient_accumulation": "scan",
    "grouped_matmul": "ragged_dot",
    "rms_norm": "multiply_accurate",
    "sequence_reorder": "permute",
}
"""What an all-optimized run uses, beside the parts that its row fixes."""

Row = tuple[Config, Config]


def twins(config: Config) -> Row:
    """A run with every part at its reference (but what the row fixes), and with every part optimized."""
    return config, config.having(name=f"{config.name}_optimized", choice={**PARTS, **config.choice})


def _moe(name: str, mesh: str, form: str) -> Row:
    return twins(Config(name=name, mesh=mesh, choice={"moe": form}))


_DENSE_MLP = {"experts": 0}

# Two stages, four microbatches, and the moments where the row says.
_STAGES = Config(name="stages", sizes={**_DENSE_MLP, "layers": 4, "batch": 16, "microbatches": 4})


def _stages(name: str, mesh: str, optimizer_state: str) -> tuple[Config, ...]:
    def row(way: str, pipeline: str, mode: str) -> Config:
        choice = {"pipeline": pipeline, "optimizer_state": optimizer_state}
        return _STAGES.having(name=f"{name}_{way}", mesh=mesh, shard_mode=mode, choice=choice)

    baseline = row("baseline", "circular_slice", "auto")
    return baseline, *twins(row("auto", "circular", "auto")), *twins(row("explicit", "circular", "explicit"))


_FSDP_PP = _stages("fsdp_pp", "fsdp2_stage2", "replicated")
_ZERO1_PP = _stages("zero1_pp", "data2_stage2", "zero1")
# Of moments that are split, and of a reordering that only moves rows, the contracts promise every bit.
_REPLICATED_PP = _ZERO1_PP[1].having(name="replicated_pp_auto", choice={"optimizer_state": "replicated"})


def _hybrid(name: str, mesh: str) -> Row:
    balanced = {"balanced": "context" in mesh}
    return twins(Config(name=name, mesh=mesh, sizes=_DENSE_MLP, options=balanced))


_HYBRID = (
    _hybrid("fsdp8", "fsdp8"),
    _hybrid("tensor2", "tensor2"),
    _hybrid("context4", "context4"),
    _hybrid("fsdp2_tensor2_context2", "fsdp2_tensor2_context2"),
)

_PERMUTED = _HYBRID[2][0].having(name="context4_permute", choice={"sequence_reorder": "permute"})

AXES = ("data", "fsdp", "tensor", "context", "expert", "stage")

_SMALLEST = Config(name="one_device", sizes={"embed": 8, "head_dim": 4, "hidden": 8, "experts": 4, "microbatches": 2})


def _smallest(axes: tuple[str, ...]) -> Config:
    choice = {**PARTS, "moe": "sparse", "pipeline": "circular" if "stage" in axes else "sequential"}
    if "data" in axes:
        choice["optimizer_state"] = "zero1"
    mesh = "_".join(f"{axis}2" for axis in axes)
    return _SMALLEST.having(name="_".join(axes), mesh=mesh, choice=choice, options={"balanced": "context" in axes})


MATRICES = (
    Matrix(
        name="moe_parallelism",
        about="dense and sparse experts, with all-to-all and as a ring, over expert and fsdp",
        runs=(
            *_moe("dense_fsdp8", "fsdp8", "dense"),
            *_moe("dense_ep8", "expert8", "dense"),
            *_moe("sparse_fsdp8", "fsdp8", "sparse"),
            *_moe("sparse_ep8", "expert8", "sparse"),
            *_moe("ring_ep8", "expert8", "ring"),
        ),
        twins=tuple((name, f"{name}_optimized") for name in
                    ("dense_fsdp8", "dense_ep8", "sparse_fsdp8", "sparse_ep8", "ring_ep8")),
        columns=("loss", "perplexity", "tokens_per_second_per_device"),
    ),
    Matrix(
        name="pipeline_sharding",
        about="two stages with FSDP, and with ZeRO-1; rows moved by slices (baseline) or messages, auto and explicit",
        runs=(_STAGES.having(name="one_device"), *_FSDP_PP, *_ZERO1_PP, _REPLICATED_PP),
        twins=(
            *(
                (f"{case}_{a}", f"{case}_{b}")
                for case in ("fsdp_pp", "zero1_pp")
                for a, b in (("baseline", "auto"), ("auto", "auto_optimized"), ("explicit", "explicit_optimized"))
            ),
            ("zero1_pp_auto", "replicated_pp_auto"),
        ),
        columns=("loss", "perplexity", "step_seconds", "temp_bytes"),
    ),
    Matrix(
        name="hybrid",
        about="FSDP x TP x CP and the single axes; context parallelism in load-balanced order",
        runs=(Config(name="one_device", sizes=_DENSE_MLP), *(run for row in _HYBRID for run in row), _PERMUTED),
        twins=(*((a.name, b.name) for a, b in _HYBRID), ("context4", "context4_permute")),
        columns=("loss", "perplexity", "tokens_per_second_per_device"),
    ),
    Matrix(
        name="everything",
        about="each axis alone and every two axes, all parts optimized, against all references on one device",
        runs=(
            _SMALLEST,
            *(_smallest((axis,)) for axis in AXES),
            *(_smallest(pair) for pair in combinations(AXES, 2)),
        ),
        columns=("loss", "perplexity", "step_seconds"),
    ),
)  # fmt: skip

ASSEMBLED = Config(
    name="assembled",
    mesh="expert2_stage2",
    choice={**PARTS, "moe": "sparse", "pipeline": "circular"},
    sizes={"layers": 4, "batch": 16, "microbatches": 2, "accumulate": 2},
)
"""Every machinery at once: experts over shards, stages, microbatches, accumulated gradients."""

CONFIGS = (Config(name="tiny"), ASSEMBLED)

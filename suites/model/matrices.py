"""The built-in configurations and matrices."""

from __future__ import annotations

from harness import Config, Matrix

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


def twins(config: Config, **optimized: str) -> tuple[Config, Config]:
    """A run with every part at its reference (but what the row fixes), and with every part optimized."""
    return config, config.having(name=f"{config.name}_optimized", choice={**PARTS, **optimized, **config.choice})


def _row(name: str, mesh: str, form: str) -> tuple[Config, Config]:
    return twins(Config(name=name, mesh=mesh, choice={"moe": form}))


_MOE = (
    _row("dense_fsdp8", "fsdp8", "dense"),
    _row("dense_ep8", "expert8", "dense"),
    _row("sparse_fsdp8", "fsdp8", "sparse"),
    _row("sparse_ep8", "expert8", "sparse"),
    _row("ring_ep8", "expert8", "ring"),
)


def _matrix(name: str, about: str, rows: tuple[tuple[Config, Config], ...], columns: tuple[str, ...]) -> Matrix:
    return Matrix(
        name=name,
        about=about,
        runs=tuple(run for row in rows for run in row),
        twins=tuple((a.name, b.name) for a, b in rows),
        columns=columns,
    )


MATRICES = (
    _matrix(
        "moe_parallelism",
        "dense and sparse experts, with all-to-all and as a ring, over expert and fsdp",
        _MOE,
        ("loss", "perplexity", "tokens_per_second_per_device"),
    ),
)

CONFIGS = (Config(name="tiny"),)

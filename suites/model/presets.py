"""Configurations at production shapes, which are compiled and never run."""

from __future__ import annotations

from samebits import Config, Preset

# Touvron et al., "Llama 2" (arXiv 2307.09288), table 1 and section 2.2. The batch is the default of the published
# figures' trainer, 12 rows of 2048 tokens per device, in 8 microbatches; parameters and moments in float32, activations
# in bfloat16, each layer recomputed.
_LLAMA2_7B = Config(
    name="llama2_7b",
    dtype="bfloat16",
    choice={
        "attention": "blockwise",
        "cross_entropy": "chunked_custom_gradient",
        "embedding": "gather",
        "rms_norm": "multiply",
    },
    sizes={
        "layers": 32,
        "vocab": 32000,
        "embed": 4096,
        "heads": 32,
        "kv_heads": 32,
        "head_dim": 128,
        "hidden": 11008,
        "experts": 0,
        "batch": 48,
        "seq": 2048,
        "microbatches": 8,
        "chunks": 8,
        "block": 512,
    },
    options={"remat": "full", "z_loss": 0.0},
)


def _rows(name: str, mesh: str, optimizer_state: str) -> tuple[Config, ...]:
    return tuple(
        _LLAMA2_7B.having(
            name=f"{name}_{way}",
            mesh=mesh,
            shard_mode=mode,
            choice={"pipeline": pipeline, "optimizer_state": optimizer_state},
        )
        for way, pipeline, mode in (
            ("baseline", "circular_slice", "auto"),
            ("auto", "circular", "auto"),
            ("explicit", "circular", "explicit"),
        )
    )


PRESETS = (
    Preset(
        name="llama2-7b",
        about="Llama-2-7B, 2 stages, 8 microbatches; FSDP, then ZeRO-1 with 2-way data",
        target="v5p:2x2x1",
        runs=(*_rows("fsdp_pp", "fsdp2_stage2", "replicated"), *_rows("zero1_pp", "data2_stage2", "zero1")),
        published={
            "fsdp_pp_baseline": 50062e6,
            "fsdp_pp_auto": 48219e6,
            "fsdp_pp_explicit": 50913e6,
            "zero1_pp_baseline": 50062e6,
            "zero1_pp_auto": 48315e6,
            "zero1_pp_explicit": 47997e6,
        },
        source="MaxText pull request 2744, device v5p-8, jax 0.8.0",
    ),
)

"""The options of a configuration of this model, with defaults, and the errors for what cannot be built. No jax."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from samebits import Config, DeclarationError, MeshSpec

PAIRS = (
    "attention",
    "cross_entropy",
    "embedding",
    "expert_weight_sum",
    "gradient_accumulation",
    "grouped_matmul",
    "moe",
    "optimizer_state",
    "pipeline",
    "rms_norm",
    "sequence_reorder",
)
"""The pairs that the model is assembled from."""

BATCH_AXES = ("data", "fsdp", "expert")
REMAT = ("none", "full", "dots")
ROUTING = ("softmax", "sigmoid", "group_limited", "random")


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """The values of a configuration, typed; the first block are its sizes, the second its options.

    Args:
        layers, vocab, embed, heads, kv_heads, head_dim, hidden: of the decoder; hidden is that of the MLP or an expert.
        experts: 0 for a dense MLP; top_k of them see each token.
        batch, seq: rows and tokens of a global batch.
        microbatches, repeats: of the pipeline.
        accumulate: microbatches of gradient accumulation.
        chunks: parts of the sequence in the cross entropy.
        window: of the attention in tokens; 0 for none.
        tied: whether the head is the embedding table.
        balanced: whether tokens are laid out in load-balanced order over `context`.
        routing, balance: how experts are chosen; the coefficient of the load-balance loss.
        z_loss: the coefficient of the squared log-normaliser.
        remat: what is recomputed going back: nothing, each layer, or each layer but its matrix products.
        learning_rate, weight_decay, clip: of AdamW, and the norm that gradients are clipped to.
        weight_dtype, grad_dtype, mu_dtype: of the parameters, of the gradients given to the optimizer, of the first
            moments.
        epsilon: of every RMSNorm.
        text: a file of bytes to train on; None for synthetic tokens.
    """

    layers: int = 2
    vocab: int = 64
    embed: int = 16
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 8
    hidden: int = 16
    experts: int = 8
    top_k: int = 2
    batch: int = 8
    seq: int = 16
    microbatches: int = 1
    repeats: int = 1
    accumulate: int = 1
    chunks: int = 2
    block: int = 8

    window: int = 0
    tied: bool = False
    balanced: bool = False
    routing: str = "softmax"
    balance: float = 0.01
    z_loss: float = 1e-4
    remat: str = "none"
    learning_rate: float = 1e-3
    weight_decay: float = 0.1
    clip: float = 1.0
    weight_dtype: str = "float32"
    grad_dtype: str = "float32"
    mu_dtype: str = "float32"
    epsilon: float = 1e-5
    text: str | None = None


SIZES = (
    "layers",
    "vocab",
    "embed",
    "heads",
    "kv_heads",
    "head_dim",
    "hidden",
    "experts",
    "top_k",
    "batch",
    "seq",
    "microbatches",
    "repeats",
    "accumulate",
    "chunks",
    "block",
)


def settings(config: Config) -> Settings:
    """The typed values of a configuration.

    Raises:
        DeclarationError: a name or a value is unknown, or sizes do not divide; the field is named.
    """
    known = [field.name for field in fields(Settings)]
    for kind, said, names in (
        ("sizes", config.sizes, SIZES),
        ("options", config.options, [name for name in known if name not in SIZES]),
    ):
        for name in said:
            if name not in names:
                _refuse(config, kind, f"'{name}' is unknown; expected some of {', '.join(names)}")
    for name in config.choice:
        if name.partition("@")[0] not in PAIRS:
            _refuse(config, "choice", f"'{name}' is no pair of this model; expected some of {', '.join(PAIRS)}")
    given: dict[str, Any] = {**config.sizes, **config.options}
    s = Settings(**given)
    for name in SIZES:
        if getattr(s, name) < (0 if name == "experts" else 1):
            _refuse(config, name, f"is {getattr(s, name)}; expected at least {0 if name == 'experts' else 1}")
    for name, allowed in (("remat", REMAT), ("routing", ROUTING)):
        if getattr(s, name) not in allowed:
            _refuse(config, name, f"is '{getattr(s, name)}'; expected {', '.join(allowed)}")
    _check_divisions(config, s)
    return s


def sites(config: Config) -> dict[str, tuple[str, ...]]:
    """Where the parts of layers are used: layers count from 1, as steps do."""
    s = settings(config)
    layers = tuple(f"layer{number}" for number in range(1, s.layers + 1))
    of_layers = ("attention", *(("moe", "grouped_matmul", "expert_weight_sum") if s.experts else ()))
    return {"rms_norm": (*layers, "final"), **dict.fromkeys(of_layers, layers)}


def smallest(config: Config) -> Config:
    """The smallest sizes at which every part still has something to mix up, on the mesh of a configuration.

    Two layers and two microbatches of each kind, where there are any; two heads for each of two keys; as many experts
    as shards, four at least; two blocks of attention on every shard. Its options are kept, but for a text.
    """
    s, mesh = settings(config), MeshSpec.parse(config.mesh)
    stages, context, tensor = mesh.size("stage"), mesh.size("context"), mesh.size("tensor")
    split = 1
    for axis in BATCH_AXES:
        split *= mesh.size(axis)
    microbatches = max(stages, min(s.microbatches, 2))
    accumulate = min(s.accumulate, 2)
    kv_heads = 2 * tensor if s.kv_heads > 1 else 1
    owned = max(1, 4 // mesh.size("expert"))
    sizes = {
        "layers": stages * s.repeats,
        "vocab": 8 * tensor,
        "embed": max(8, mesh.size("fsdp")),
        "heads": min(2, s.heads // s.kv_heads) * kv_heads,
        "kv_heads": kv_heads,
        "head_dim": 4,
        "hidden": 4 * tensor,
        "experts": owned * mesh.size("expert") if s.experts else 0,
        "batch": max(split, 2) * microbatches * accumulate,
        "seq": max(8, 4 * context),
        "microbatches": microbatches,
        "accumulate": accumulate,
        "chunks": min(s.chunks, 2),
        "block": 2,
    }
    return config.having(sizes=sizes, options={} if s.text is None else {"text": None})


def _check_divisions(config: Config, s: Settings) -> None:
    mesh = MeshSpec.parse(config.mesh)
    rows = s.batch // s.accumulate
    split = 1
    for axis in BATCH_AXES:
        split *= mesh.size(axis)
    stages, context, tensor = mesh.size("stage"), mesh.size("context"), mesh.size("tensor")
    rules: list[tuple[str, int, int, str]] = [
        ("batch", s.batch, s.accumulate, "accumulate"),
        ("batch", rows, s.microbatches, "microbatches (of what one accumulation step takes)"),
        ("batch", rows // s.microbatches, split, "the batch axes (data x fsdp x expert), for each microbatch"),
        ("microbatches", s.microbatches, stages, "the stages"),
        ("layers", s.layers, stages * s.repeats, "stages x repeats"),
        ("seq", s.seq, 2 * context if s.balanced else context, "2 x context" if s.balanced else "context"),
        ("seq", s.seq, s.chunks, "chunks"),
        ("heads", s.heads, s.kv_heads, "kv_heads"),
        ("kv_heads", s.kv_heads, tensor, "tensor"),
        ("hidden", s.hidden, tensor, "tensor"),
        ("vocab", s.vocab, tensor, "tensor"),
        ("embed", s.embed, mesh.size("fsdp"), "fsdp"),
    ]
    if s.experts:
        rules.append(("experts", s.experts, mesh.size("expert"), "expert"))
    elif mesh.size("expert") > 1:
        _refuse(config, "experts", f"is 0 on mesh '{config.mesh}'; expected a multiple of its axis 'expert'")
    for name, value, divisor, what in rules:
        if value % divisor:
            _refuse(config, name, f"{value} does not divide by {divisor}, {what}, on mesh '{config.mesh}'")
    if s.experts and s.top_k > s.experts:
        _refuse(config, "top_k", f"is {s.top_k}; expected at most the {s.experts} experts")
    if stages > 1 and config.choice.get("pipeline", "sequential") == "sequential":
        _refuse(config, "choice", f"pipeline 'sequential' on mesh '{config.mesh}'; stages need another side of it")
    if s.text is not None:
        _check_text(config, s)


def _check_text(config: Config, s: Settings) -> None:
    path, needed = Path(str(s.text)), s.batch * s.seq + 1
    if not path.is_file():
        _refuse(config, "text", f"'{path}' is no file; give one with at least {needed} bytes")
    if path.stat().st_size < needed:
        _refuse(config, "text", f"'{path}' has {path.stat().st_size} bytes; one batch needs {needed}")
    if s.vocab < 256:
        _refuse(config, "vocab", f"is {s.vocab}; a text's bytes need 256")


def _refuse(config: Config, field: str, why: Any) -> None:
    raise DeclarationError(f"config '{config.name}': {field} {why}")

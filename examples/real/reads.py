"""What the attention of Keras and of MaxText reads, by every path: causal, and apart where documents are packed.

Run as `python examples/real/reads.py [keras] [maxtext]`, where these are installed (`examples/libraries/` has their
versions; MaxText needs Python 3.12). It prints a table: of each path the verdicts, forward and gradient, and of what is
refuted a witness. `no mask` is planted: what keras-team/keras#23038 was about.
"""

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "harness"))
os.environ |= {"KERAS_BACKEND": "jax", "DECOUPLE_GCLOUD": "TRUE"}
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=2")

import jax

import samebits
from samebits.properties.outcome import PropertyOutcome

IDS = np.array([[1, 2, 2, 2, 2, 2, 2, 3], [1, 1, 1, 1, 2, 2, 2, 2]], np.int32)
POSITIONS = np.array([[0, 0, 1, 2, 3, 4, 5, 0], [0, 1, 2, 3, 0, 1, 2, 3]], np.int32)
APART = np.array([[0, 0, 0, 0, 0, 1, 1, 0], [0, 1, 1, 0, 0, 1, 1, 0]], bool)
TOUCHING = np.array([[0, 0, 0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 1, 1, 0, 0]], bool)
MAXTEXT = (
    *("run_name=reads", "base_output_directory=nowhere", "attention=dot_product", "dtype=float32", "log_config=False"),
    *("internal_compile=True", "skip_jax_distributed_system=True", "enable_checkpointing=False"),
    *("max_target_length=8", "per_device_batch_size=1"),
)
BOTH: tuple[Callable[..., PropertyOutcome], ...] = (samebits.causal, samebits.packed)
Rows = Iterator[tuple[str, list[PropertyOutcome]]]


def normal(*shape: int) -> np.ndarray:
    """Draw an array."""
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


def keras() -> Rows:
    """Ask the attention layers of Keras, for all weights, by the fused path and by those that leave it."""
    library = importlib.import_module("keras")
    library.utils.set_random_seed(0)
    kinds: dict[str, dict[str, int]] = {
        "MultiHeadAttention": {"num_heads": 2, "key_dim": 4},
        "GroupQueryAttention": {"head_dim": 4, "num_query_heads": 4, "num_key_value_heads": 2},
    }
    paths: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "fused": ({}, {}),
        "flash_attention=False": ({"flash_attention": False}, {}),
        "scores returned": ({}, {"return_attention_scores": True}),
        "dropout": ({"dropout": 0.1}, {}),
        "dropout, training": ({"dropout": 0.1}, {"training": True}),
        "rank 4": ({"attention_axes": (1,)}, {}),
        "no mask": ({}, {"use_causal_mask": False}),
    }
    for kind, sizes in kinds.items():
        for path, (options, call) in paths.items():
            if path == "rank 4" and kind == "GroupQueryAttention":
                continue  # whose inputs have three axes
            x = normal(2, 8, 1, 8) if path == "rank 4" else normal(2, 8, 8)
            layer = getattr(library.layers, kind)(**sizes, **options)
            layer.build(x.shape, x.shape)
            attend = attention_of_keras(layer, {"use_causal_mask": True} | call)
            weights = [each.value for each in layer.trainable_variables]
            yield f"{kind} | {path}", [samebits.causal(attend, x, weights, on="x")]
            yield f"{kind} | {path}, segments", [ask(attend, x, weights, IDS, on="x") for ask in BOTH]


def attention_of_keras(layer: Any, call: dict[str, Any]) -> Callable[..., Any]:
    """Return self-attention as a function of inputs, weights and segments."""
    state = [each.value for each in layer.non_trainable_variables]

    def attend(x: Any, weights: Any, segment_ids: Any = None) -> Any:
        mask = None if segment_ids is None else segment_ids[:, :, None] == segment_ids[:, None, :]
        return layer.stateless_call(weights, state, x, x, attention_mask=mask, **call)[0]

    return attend


def maxtext() -> Rows:
    """Ask MaxText's `AttentionOp` with dot products, on one device and on a context of two in balanced order."""
    op, pyconfig, utils = (
        importlib.import_module(f"maxtext.{name}")
        for name in ("layers.attention_op", "configs.pyconfig", "utils.maxtext_utils")
    )
    kinds = op.AttentionType
    paths: dict[str, tuple[Any, dict[str, Any], Any]] = {
        "global": (kinds.GLOBAL, {}, None),
        "soft cap": (kinds.GLOBAL, {"attn_logits_soft_cap": 30.0}, None),
        "sliding window": (kinds.LOCAL_SLIDING, {"sliding_window_size": 3}, None),
        "chunks": (kinds.CHUNK, {"chunk_attn_window_size": 4}, None),
        "images inside of documents": (kinds.GLOBAL, {}, APART),
        "images on both sides of a boundary": (kinds.GLOBAL, {}, TOUCHING),
    }
    arrays = normal(2, 8, 4, 4), normal(2, 8, 2, 4), normal(2, 8, 2, 4), IDS, POSITIONS
    base = os.path.join(os.path.dirname(str(pyconfig.__file__)), "base.yml")
    for size in (1, 2):
        place = f"internal_compile_num_devices={size}", f"ici_context_parallelism={size}"
        config = pyconfig.initialize(["", base, *MAXTEXT, *place])
        mesh = jax.sharding.Mesh(utils.create_device_mesh(config, jax.devices()[:size]), config.mesh_axes)
        with (
            jax.set_mesh(mesh),
            importlib.import_module("flax.core.spmd").logical_axis_rules(config.logical_axis_rules),
        ):
            for path, (kind, options, images) in paths.items():
                if size == 1 or images is None:
                    layer = op.AttentionOp(config, mesh, "dot_product", 8, 4, 2, attention_type=kind, **options)
                    attend = attention_of_maxtext(layer, size, images)
                    outcomes = [ask(attend, *arrays, on=("q", "k", "v")) for ask in BOTH]
                    yield f"AttentionOp, context of {size} | {path}", outcomes


def attention_of_maxtext(layer: Any, size: int, images: Any) -> Callable[..., Any]:
    """Return attention of rows in their order, which a context of several devices takes in balanced order."""
    reorder = importlib.import_module("maxtext.utils.max_utils").reorder_sequence

    def attend(q: Any, k: Any, v: Any, segment_ids: Any, positions: Any) -> Any:
        arrays = q, k, v, segment_ids, positions
        if size == 1:
            return layer(*arrays, "train", bidirectional_mask=images)
        return reorder(layer(*(reorder(each, size) for each in arrays), "train"), size, to_contiguous=True)

    return attend


def verdicts(outcomes: list[PropertyOutcome]) -> list[str]:
    """Return the verdicts of both properties; one of both directions where they agree."""
    both = [", ".join(dict.fromkeys(reading.verdict for reading in each.readings)) for each in outcomes]
    return both if len(both) == len(BOTH) else [*both, ""]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("libraries", nargs="*", choices=[[], "keras", "maxtext"])
    print("| layer | path | causal | packed | witness |\n| --- | --- | --- | --- | --- |")
    for name in parser.parse_args().libraries or ("keras", "maxtext"):
        for label, outcomes in {"keras": keras, "maxtext": maxtext}[name]():
            witness = next((each.readings[0].witness for each in reversed(outcomes) if not each.ok), "")
            print(f"| {label} | {' | '.join(verdicts(outcomes))} | {witness} |", flush=True)


if __name__ == "__main__":
    main()

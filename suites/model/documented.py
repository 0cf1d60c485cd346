"""Claims of the design documents that are about no single pair, and the commands that show them."""

from __future__ import annotations

from samebits import Documented

_ADVISE = ("audit", "advise", "--target", "tpu7x", "--mesh", "tensor4")

DOCUMENTED = (
    Documented(
        id="3857.tensor.llama3",
        document="MaxText #3857, tensor parallelism",
        says="TP 4 on tpu7x wants an MLP dimension above 46 000; Llama3-70B's 28 672 is communication-bound",
        command=(*_ADVISE, "--model", "llama3-70b"),
        prints=r"tensor 4 wants mlp above 46 140; llama3-70b has 28 672: communication-bound",
        exits=1,
    ),
    Documented(
        id="3857.tensor.qwen25",
        document="MaxText #3857, tensor parallelism",
        says="as above; the 18 944 of Qwen 2.5 7B is communication-bound",
        command=(*_ADVISE, "--model", "qwen2.5-7b"),
        prints=r"tensor 4 wants mlp above 46 140; qwen2.5-7b has 18 944: communication-bound",
        exits=1,
    ),
    Documented(
        id="3857.hybrid",
        document="MaxText #3857, hybrid parallelism",
        says="FSDP x TP x CP trains the model of one device: one whole step, all its gradients and moments",
        command=("prove", "model", "--config", "hybrid/fsdp2_tensor2_context2_optimized"),
        prints=r"\d+ leaves: the same formula .* 1 of 1 step",
    ),
)

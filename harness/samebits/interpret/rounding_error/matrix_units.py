"""How matrix units take float32: on GPUs and TPUs in fewer digits, unless a program asks for all of them."""

from __future__ import annotations

from samebits.errors import NotCovered
from samebits.interpret.equation import Step

PASSES: dict[str, dict[str, tuple[int, int, float]]] = {
    "cpu": {"DEFAULT": (1, 24, 0.0), "HIGH": (1, 24, 0.0), "HIGHEST": (1, 24, 0.0)},
    "gpu": {"DEFAULT": (1, 11, 2.0**-10), "HIGH": (1, 11, 2.0**-10), "HIGHEST": (1, 24, 0.0)},
    "tpu": {"DEFAULT": (1, 8, 2.0**-8), "HIGH": (3, 8, 2.0**-15), "HIGHEST": (6, 8, 2.0**-22)},
}
"""By platform and precision: in how many passes, up to how many digits without loss, and what they lose of a longer
operand. A GPU takes TensorFloat-32, which may be cut off; a TPU one, two or three pieces of bfloat16. Float64 is taken
as it is. The rows of the CPU and, on an H100 (jax 0.11.2), of the GPU have been held against execution."""

_TAKEN_AS = {"gpu": "TensorFloat-32", "tpu": "bfloat16"}


def precision_of(step: Step) -> str:
    """The lower of the precisions that a product asks for.

    Raises:
        NotCovered: it asks for a `DotAlgorithm`.
    """
    precision, known = step.params.get("precision"), list(PASSES["cpu"])
    names = [
        getattr(choice, "name", choice) or "DEFAULT"
        for choice in (precision if type(precision) is tuple else [precision])
    ]
    if not all(name in known for name in names):
        raise NotCovered(f"{step}: the algorithm {precision} has no bound")
    return min(names, key=known.index)


def taken_as(step: Step, platform: str) -> str | None:
    """What float32 operands are taken as, such as `TensorFloat-32` or `3 x bfloat16`; None where no digit is lost.

    Args:
        step: any operation; `dot_general` alone is for a matrix unit.
        platform: `cpu`, `gpu` or `tpu`.

    Raises:
        NotCovered: the product asks for a `DotAlgorithm`.
    """
    if step.name != "dot_general" or any(kind.dtype.name != "float32" for kind in (*step.inputs, step.output)):
        return None
    passes, digits, _ = PASSES[platform][precision_of(step)]
    if digits >= 24:
        return None
    return f"{passes} x {_TAKEN_AS[platform]}" if passes > 1 else _TAKEN_AS[platform]

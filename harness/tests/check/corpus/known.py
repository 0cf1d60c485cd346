"""What the checks still say wrongly of the corpus, as data: each entry fails the tests as soon as it is right.

Beside it, what they say rightly of a rewrite that costs accuracy.

An entry names a formula, a side, a dtype, and for a rewrite the direction, exactly as `judged` does.
"""

from __future__ import annotations

ALARMS: dict[str, str] = {}
"""Rewrites that the check rejects, with the reason."""

LESS_ACCURATE: dict[str, str] = {
    "logsumexp/pairwise float32 gradient": "seven products of rounded weights where the reference divides once",
    "silu/tanh float32 forward": "1 + tanh(x / 2) cancels for x far below zero",
    "silu/tanh float32 gradient": "1 + tanh(x / 2) cancels for x far below zero",
    "variance/shifted float32 forward": "the mean of squares less the square of a mean, which cancel",
    "variance/shifted float32 gradient": "the mean of squares less the square of a mean, which cancel",
    "huber/clipped float32 gradient": "of a small difference, 1.5 is added to it and subtracted again",
    "binary_cross_entropy/two_log_sigmoids float32 gradient": "the difference of two logarithms, which cancel",
    "gate_decay/expm1 float32 gradient": "the derivative of expm1 is 1 + expm1(-2 a), which cancels for a large a",
    "gate_decay/factored float32 gradient": "two terms of exp(-a) that cancel down to exp(-2 a)",
    "power/reciprocal_root float32 forward": "XLA's rsqrt on CPU is off by up to 2.6 units, its pow by one",
    "interpolate/from_the_other_end float32 gradient": "1 - (1 - t), of which a small t loses its last digits",
    "parameter_average/other_step float32 gradient": "1 - 0.95 in float32, four units in the last place off 0.05",
}
"""Rewrites that the check rejects rightly at some seed, with what costs them more than a contract's factor: the same
mathematics, so that a loss of accuracy is all that may be said of them."""

LESS_ACCURATE_ON_GPU: dict[str, str] = {
    "layer_norm/welford float32 gradient": "error 2.9x the reference's (0.94 to 5.9 over 63 draws) at one seed",
    "circular_convolution/fft float32 gradient": "error 4.2x the reference's (1.7 to 7 over 36 draws)",
    "circular_convolution/rfft float32 gradient": "error 4.3x the reference's (1.6 to 8.5 over 36 draws)",
}
"""More of them, which are as accurate as the reference on a CPU, with what was measured (NVIDIA H100, jax 0.11.2)."""

REFUTED: dict[str, str] = {}
"""Where `prove` is wrong, with the reason."""

ON_GPU: dict[str, str] = {
    "summed_in_bfloat16 check": "assumed",
}
"""What is said of an adversary on a GPU and not on a CPU (NVIDIA H100, jax 0.11.2): there XLA drops the conversion to
bfloat16 and back. With `--xla_allow_excess_precision=false` it is refuted."""

OTHER_PROGRAM = "another dtype, mesh or platform is traced as another program, of which nothing is said"
UNTRIED = "the bits were equal on the inputs tried, and nothing interprets the program"

UNSEEN: dict[str, str] = {
    **{
        f"{name} {command}": OTHER_PROGRAM
        for name in ("wrong_in_a_dtype_not_tried", "wrong_on_a_mesh_not_tried", "branch_of_another_platform")
        for command in ("check", "prove")
    },
    "remainder check": UNTRIED,
    "half_rounded_up check": UNTRIED,
    "one_call_in_fifty check": "a callback that is wrong once in fifty calls: fewer are made",
    "constant_not_yet_remembered check": "traced before the first call, and so the same program",
    "constant_not_yet_remembered prove": "traced before the first call, and so the same program",
}
"""Adversaries, with the command, that are accepted without an assumption, with the reason why nothing can see them."""

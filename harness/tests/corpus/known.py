"""What the checks still say wrongly of the corpus, as data: each entry fails the tests as soon as it is right.

An entry names a formula, a side, a dtype, and for a rewrite the direction, exactly as `judged` does.
"""

from __future__ import annotations

TABLE = "each weight is a formula of 0.9 and 0.1 that NumPy computed and rounded: no literal stands for it"
OWN_ROUNDING = "the ideal value takes the reference's rounded 0.9 for exact; the rewrite rounds 1 - 0.9^t instead"
NOTHING = "weights add up to one, so that the gradient is zero but for rounding, of which the rewrite leaves more"

ALARMS: dict[str, str] = {
    "moving_average/weights float32 forward": TABLE,
    "moving_average/weights float32 gradient": TABLE,
    "moving_average/by_difference float32 forward": OWN_ROUNDING,
    "moving_average/by_difference float32 gradient": OWN_ROUNDING,
    "top_k_gates/softmax_of_the_chosen bfloat16 gradient": NOTHING,
}
"""Rewrites that the check rejects, with the reason."""

REFUTED: dict[str, str] = {}
"""Where `prove` is wrong, with the reason."""

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
    "remembered_constant check": "the constant of an earlier call is captured as zero times a number",
}
"""Adversaries, with the command, that are accepted without an assumption, with the reason why nothing can see them."""

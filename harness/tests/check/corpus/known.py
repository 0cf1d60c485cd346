"""What the checks still say wrongly of the corpus, as data: each entry fails the tests as soon as it is right.

An entry names a formula, a side, a dtype, and for a rewrite the direction, exactly as `judged` does.
"""

ALARMS: dict[str, str] = {}
"""Rewrites that the check rejects, with the reason."""

REFUTED: dict[str, str] = {}
"""Where `prove` is wrong, with the reason."""

ON_GPU: dict[str, str] = {"summed_in_bfloat16 check": "assumed"}
"""What is said of an adversary on a GPU and not on a CPU (NVIDIA H100, jax 0.11.2): there XLA drops the conversion to
bfloat16 and back. With `--xla_allow_excess_precision=false` it is refuted."""

OTHER_PROGRAM = "another dtype, mesh or platform is traced as another program, of which nothing is said"

UNSEEN: dict[str, str] = {
    **{
        f"{name} {command}": OTHER_PROGRAM
        for name in ("wrong_in_a_dtype_not_tried", "wrong_on_a_mesh_not_tried", "branch_of_another_platform")
        for command in ("check", "prove")
    },
    "scaled_up_and_down check": "XLA multiplies both factors first: one compiled program here, which the evidence says",
    "one_call_in_fifty check": "a callback that is wrong once in fifty calls: fewer are made",
    "constant_not_yet_remembered check": "traced before the first call, and so the same program",
    "constant_not_yet_remembered prove": "traced before the first call, and so the same program",
}
"""Adversaries, with the command, that are accepted without an assumption, with the reason why nothing can see them."""

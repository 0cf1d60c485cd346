"""What the checks still say wrongly of the corpus, as data: each entry fails the tests as soon as it is right.

An entry names a formula, a side, a dtype, and for a rewrite the direction, exactly as `judged` does.
"""

from __future__ import annotations

CONSTANTS = "a constant that Python folded, 0.999 for 1 - 0.01 * 0.1, counts as another number than its parts"

ALARMS: dict[str, str] = {
    "adamw/decayed_first float32 forward": CONSTANTS,
    "moving_average/by_difference float32 forward": CONSTANTS,
    "top_k_gates/softmax_of_the_chosen bfloat16 gradient": "the test over draws subtracts infinities, with a warning",
}
"""Rewrites that the check rejects, with the reason."""

REFUTED: dict[str, str] = {}
"""Where `prove` is wrong, with the reason."""

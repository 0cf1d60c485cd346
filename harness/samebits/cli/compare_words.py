"""What a message asks for in a declaration, in the options of `samebits compare`."""

from __future__ import annotations

import re

_OPTIONS = (
    (r"map them: rename=\{'(\w+)': \.\.\.\}", r"map them: --rename \1=OTHER"),
    (r"declare it in args or statics, or", "give it as --arg or --static, or"),
    (r"declare gradients=False", "give --forward"),
    (r"\(gradients=False\)", "(--forward)"),
    (
        r"map the variant's outputs by adapt",
        "map those of the second by adapt=Adapt(outputs=...) of samebits.assert_same",
    ),
    (
        r"give an Arg spec=\(\.\.\.\) with '(\w+)', or leave that mesh out",
        r"split a dimension over it, as in --arg 'x=f32[8@\1]'",
    ),
)
"""By pattern, what `samebits compare` has for it."""


def in_options(text: str) -> str:
    """A message with the options of the command line in place of the entries of a declaration.

    Args:
        text: as it is for a `Pair`.
    """
    for pattern, option in _OPTIONS:
        text = re.sub(pattern, option, text)
    return text

"""How a variant with parameters or outputs of another structure stands beside the reference, as data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from samebits.errors import DeclarationError


@dataclass(frozen=True, kw_only=True, slots=True)
class Adapt:
    """Maps between the argument and output trees of the reference and those of one variant.

    Equivalent to a variant `lambda **given: outputs(variant(**arguments(**given)))`. Both maps may only rename, split,
    join, reshape and transpose: a check moves numbered elements through them and rejects a map that loses or repeats
    one. Gradients are with respect to the reference's arguments.

    Args:
        arguments: takes the declared arguments by keyword, statics too, and returns the variant's as a mapping by
            name. None, the default, passes them on as they are.
        outputs: takes what the variant returns and gives it in the structure of the reference. None, the default, keeps
            it.

    Raises:
        DeclarationError: neither map is given.
    """

    arguments: Callable[..., Mapping[str, Any]] | None = None
    outputs: Callable[[Any], Any] | None = None

    def __post_init__(self) -> None:
        if self.arguments is None and self.outputs is None:
            raise DeclarationError("Adapt() maps nothing; give arguments=..., outputs=..., or leave it out")

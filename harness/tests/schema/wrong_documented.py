"""Wrong transforms, claims and compiler options of a pair, with their messages: rows of `test_pair_messages.py`."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from samebits.schema.case import Case
from samebits.schema.document_claim import Documented
from samebits.schema.pair import Pair
from samebits.schema.real_size import RealSize

CLAIM = Documented(id="1.2", document="a pull request", says="the same")


def wrong_documented(
    declare: Callable[..., Pair], real: Callable[..., RealSize]
) -> dict[str, tuple[Callable[[], object], str]]:
    """The rows, made of an honest pair with something changed."""

    def claim(**changes: Any) -> Callable[[], object]:
        return lambda: declare(documented=(replace(CLAIM, **changes),))

    return {
        "transform that is unknown": (
            lambda: declare(transforms=("vmpa",)),
            "pair 'rope': transform 'vmpa' is unknown; expected some of vmap, remat, second_derivative; "
            "did you mean 'vmap'?",
        ),
        "transform of a gradient that is not declared": (
            lambda: declare(transforms=("remat",), gradients=False),
            "pair 'rope': transform 'remat' compares gradients, and gradients=False declares none",
        ),
        "options of an unknown side": (
            lambda: declare(compiled=(replace(real(Case(id="large")), options={"fusd": {"xla_flag": "1"}}),)),
            "pair 'rope', real size 'large': side 'fusd' is unknown; expected some of plain, fused; "
            "did you mean 'fused'?",
        ),
        "claim of a pair with a command": (
            claim(command=("audit", "advise"), prints="above"),
            "pair 'rope', claim '1.2': a command stands for claims of the model; leave it out here",
        ),
        "claim of a saving where nothing is compiled": (
            claim(saves="temp_bytes"),
            "pair 'rope', claim '1.2': nothing is compiled for it; write compiled=(RealSize(...),)",
        ),
        "claim about an unknown variant": (
            claim(variants=("fusd",)),
            "pair 'rope', claim '1.2': variant 'fusd' is unknown; expected some of fused; did you mean 'fused'?",
        ),
        "claim that is declared twice": (
            lambda: declare(documented=(CLAIM, CLAIM)),
            "pair 'rope' declares claim '1.2' twice; ids must differ",
        ),
    }

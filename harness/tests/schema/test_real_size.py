"""Production shapes of a declaration: what is accepted, and the error message of each wrong one."""

import re
from typing import Any

import pytest

from samebits.errors import DeclarationError
from samebits.schema.case import Case
from samebits.schema.compile_statement import VARIANT, Claim
from samebits.schema.real_size import RealSize


def real(**changes: Any) -> RealSize:
    usual = {"case": Case(id="long", sizes={"rows": 8}), "layout": "context*", "dtype": "float32", "targets": ("cpu",)}
    return RealSize(**{**usual, **changes})


REJECTED: dict[str, tuple[dict[str, Any], str]] = {
    "targets as text": ({"targets": "cpu"}, "targets is the text 'cpu'; expected a tuple, as in ('cpu',)"),
    "no target": ({"targets": ()}, "names no targets; write targets=('tpu7x:2x2x1',)"),
    "malformed target": ({"targets": ("cpu", "v5e")}, "target 'v5e' is malformed"),
    "malformed layout": ({"layout": "context"}, "mesh 'context' is malformed"),
    "two stars": ({"layout": "context*_fsdp*"}, "has 2 stars"),
    "claims as a list": ({"claims": [Claim(shows=VARIANT.gathers == 0, source="us")]}, "claims is of type list"),
    "mode": ({"mode": "manual"}, "mode 'manual' is unknown; expected some of auto, explicit"),
}


@pytest.mark.parametrize("name", REJECTED)
def test_a_real_size_refuses(name: str) -> None:
    changes, words = REJECTED[name]
    assert real().claims == ()
    with pytest.raises(DeclarationError, match=re.escape(words)) as caught:
        real(**changes)
    assert str(caught.value).startswith("real size 'long'") and "\n" not in str(caught.value)

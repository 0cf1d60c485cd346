"""`examples/real/reads.py`: what it finds out about a library is on its page, where the library is installed."""

import importlib.util
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from tests.project.import_graph import ROOT
from tests.project.pages import DOCS

spec = importlib.util.spec_from_file_location("reads", ROOT / "examples" / "real" / "reads.py")
assert spec is not None and spec.loader is not None
reads: Any = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = reads
spec.loader.exec_module(reads)

PAGE = (DOCS / "findings" / "what_libraries_read.md").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("library", ["keras", "maxtext"])
def test_the_page_shows_what_a_library_reads(library: str) -> None:
    pytest.importorskip(library)
    rows = [f"| {label} | {' | '.join(reads.verdicts(outcomes))} |" for label, outcomes in getattr(reads, library)()]
    assert rows and [row for row in rows if row not in PAGE] == []


def layer(causal: Callable[[Any], Any]) -> Any:
    """Return a layer as Keras has them, with one weight."""

    def call(weights: Any, state: Any, x: Any, _: Any, attention_mask: Any = None, **more: Any) -> Any:
        scores = jnp.einsum("btd,bsd->bts", x @ weights[0], x)
        mask = causal(jnp.tri(x.shape[1], dtype=bool))
        mask = mask if attention_mask is None else mask & attention_mask
        return jax.nn.softmax(jnp.where(mask, scores, -jnp.inf)) @ x, state

    return SimpleNamespace(stateless_call=call, non_trainable_variables=[])


@pytest.mark.parametrize(
    ("causal", "verdicts"), [(lambda m: m, ["proved"] * 2), (lambda m: ~m | m, ["refuted", "proved"])]
)
def test_a_dropped_mask_is_refuted(causal: Callable[[Any], Any], verdicts: list[str]) -> None:
    attend = reads.attention_of_keras(layer(causal), {})
    arrays = reads.normal(2, 8, 4), [reads.normal(4, 4)], reads.IDS
    assert reads.verdicts([ask(attend, *arrays, on="x") for ask in reads.BOTH]) == verdicts

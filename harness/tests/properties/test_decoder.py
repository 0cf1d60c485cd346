"""The decoder of `suites/model` on meshes: causal, and apart where documents are packed; planted faults are refuted."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jax.sharding import AxisType

import samebits
from samebits import Config, MeshSpec
from samebits.properties.outcome import PropertyOutcome
from samebits.train.parts import chosen_parts
from tests.support.invoke import REPOSITORY

EXPERTS = Config(name="experts", mesh="expert2", sizes={"experts": 4, "batch": 4, "layers": 1}, choice={"moe": "dense"})
CONTEXT = Config(
    name="context",
    mesh="context2",
    sizes={"experts": 0, "batch": 2, "layers": 1, "microbatches": 2},
    options={"balanced": False},
)
BLOCKS = CONTEXT.having(name="blocks", choice={"attention": "blockwise", "rms_norm": "multiply_accurate"})
CONFIGS = {config.name: config for config in (EXPERTS, CONTEXT, BLOCKS)}

Part = Callable[..., Any]


def ask(
    config: Config, properties: tuple[str, ...], *, attention: Callable[[Part], Part] | None = None
) -> dict[str, PropertyOutcome]:
    """Ask the hidden states of a decoder, as a function of its embedded tokens."""
    from suites.model import MODEL, data
    from suites.model.decoder import Decoder
    from suites.model.settings import settings

    s, mesh = settings(config), MeshSpec.parse(config.mesh)
    parts = {**chosen_parts(MODEL, config, REPOSITORY), "embedding": lambda x, table: x}
    if attention is not None:
        parts["attention"] = attention(parts["attention"])
    decoder = Decoder(s, jnp.dtype(config.dtype), 1, parts, np.random.default_rng(0))
    graph, state = nnx.split(decoder)
    batch = data.batch(s, config.seed, 1)
    x = np.random.default_rng(1).standard_normal((*batch["tokens"].shape, s.embed)).astype(np.float32)

    def hidden(x: Any, state: Any, positions: Any, segments: Any) -> Any:
        return nnx.merge(graph, state)(x, positions, segments)[0]

    names, sizes = zip(*mesh.axes, strict=True)
    more = {"causal": {}, "packed": {"segment_ids": "segments"}}
    with jax.set_mesh(jax.make_mesh(sizes, names, axis_types=(AxisType.Auto,) * len(names))):
        return {
            name: getattr(samebits, name)(hidden, x, state, batch["positions"], batch["segments"], on="x", **more[name])
            for name in properties
        }


@pytest.mark.parametrize("name", ["experts", "context", pytest.param("blocks", marks=pytest.mark.slow)])
def test_the_decoder_is_causal_and_segment_safe(name: str) -> None:
    outcomes = ask(CONFIGS[name], ("causal", "packed"))
    for outcome in outcomes.values():
        assert [reading.direction for reading in outcome.readings] == ["forward", "gradient"], outcome
        assert outcome.ok, outcome
        assert "positions, segments as given" in repr(outcome)


def one_segment(attention: Part) -> Part:
    @functools.wraps(attention)
    def planted(q: Any, k: Any, v: Any, positions: Any, segments: Any, **options: Any) -> Any:
        return attention(q, k, v, positions, jnp.ones_like(segments), **options)

    return planted


def one_behind(attention: Part) -> Part:
    @functools.wraps(attention)
    def planted(q: Any, k: Any, v: Any, positions: Any, segments: Any, **options: Any) -> Any:
        return attention(q, jnp.roll(k, -1, 1), jnp.roll(v, -1, 1), positions, segments, **options)

    return planted


@pytest.mark.parametrize(("fault", "property_name"), [(one_segment, "packed"), (one_behind, "causal")])
def test_a_planted_leak_is_refuted(fault: Callable[[Part], Part], property_name: str) -> None:
    (outcomes,) = ask(CONTEXT, (property_name,), attention=fault).values()
    assert [reading.verdict for reading in outcomes.readings] == ["refuted", "refuted"], outcomes
    assert all(reading.place for reading in outcomes.readings), outcomes

"""Faults in a layer ported to another module system: swapped names, different defaults, missing parts."""

from __future__ import annotations

from samebits import Fault, Request


def _fault(
    name: str,
    old: str | tuple[str, ...],
    new: str | tuple[str, ...],
    case: str = "alone",
    verdict: str = "different",
    side: str = "linen",
    direction: str = "forward",
) -> Fault:
    return Fault(
        name=name,
        pair="decoder_layer",
        side=side,
        old=old,
        new=new,
        request=Request(cases=(case,), directions=(direction,)),
        verdict=verdict,
    )


_SECOND_NORM = 'y = nn.RMSNorm(epsilon=self.epsilon, dtype=self.dtype, name="pre_mlp_norm")(x)'
_UP = 'up = nn.Dense(self.hidden, use_bias=False, dtype=self.dtype, name="up")(x)'
_LACK = """raise ValueError(f"weights lack '{path}'; they have {', '.join(sorted(given)) or 'none'}")"""
_UNKNOWN = "        if path not in shapes:\n"
_SHAPE = "if jnp.shape(array) != shapes[path]:"
_APPLIED = 'found: Any = layer.apply({"params": _nested(given)}, x)'

FAULTS = (
    _fault(
        "a missing weight replaced by a fresh one",
        (_LACK, _APPLIED),
        ("pass", "found: Any = layer.init_with_output(jax.random.key(0), x)[0]"),
        "missing",
    ),
    _fault(
        "two names exchanged",
        ('name="gate")(x)', 'name="up")(x)', 'name="*"'),
        ('name="*")(x)', 'name="gate")(x)', 'name="up"'),
    ),
    _fault("a wrapper that fills in what is missing", _LACK, "pass", "missing", side="bridged"),
    _fault("an unknown name is ignored", _UNKNOWN, "        if False:\n", "unknown"),
    _fault("a shape that happens to broadcast", _SHAPE, "if False:", "misshapen", side="bridged"),
    _fault(
        "query and key exchanged",
        ('name="query"', 'name="key"', 'name="*"'),
        ('name="*"', 'name="query"', 'name="key"'),
    ),
    _fault("no causal mask", "jnp.where(past, scores, -jnp.inf)", "scores"),
    _fault(
        "a mask that lets the next token through",
        "past = jnp.tril(jnp.ones(scores.shape[2:], bool))",
        "past = jnp.tril(jnp.ones(scores.shape[2:], bool), 1)",
    ),
    _fault("the MLP's residual is missing", "return x + _Mlp(", "return _Mlp("),
    _fault("the MLP reads what the attention read", _SECOND_NORM, _SECOND_NORM.replace("(x)", "(y)")),
    _fault(
        "epsilon left at its default",
        _SECOND_NORM,
        _SECOND_NORM.replace("epsilon=self.epsilon", "epsilon=1e-5"),
        "split",
    ),
    _fault(
        "the scale of the other norm",
        ('name="pre_attention_norm"', 'name="pre_mlp_norm"', 'name="*"'),
        ('name="*"', 'name="pre_attention_norm"', 'name="pre_mlp_norm"'),
    ),
    _fault("gelu for silu", "nn.silu(gate) * up", "nn.gelu(gate) * up"),
    _fault(
        "scores and their softmax in bfloat16, as in Linen's own function",
        "preferred_element_type=wide) / shape[1]",
        "preferred_element_type=x.dtype) / shape[1]",
        verdict="rounding",  # it takes bits: at the sizes of the case its error is 1.05 times the reference's
    ),
    _fault("scores not divided", "/ shape[1] ** 0.5", "/ shape[1] ** 0.25"),
    _fault(
        "gradients do not reach the norm",
        _SECOND_NORM,
        _SECOND_NORM.replace("(x)", "(jax.lax.stop_gradient(x))"),
        direction="gradient",
    ),
)

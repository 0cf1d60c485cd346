"""`samebits.assert_decodes`: prefill and token-by-token decoding with a cache against the full forward pass.

Both become functions of the same tokens, which return the logits of every position over the whole vocabulary, and are
judged as any two functions are. Where float64 shows that they are not the same function, the first position is named.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from samebits.errors import NotCovered, RequestError
from samebits.functions.compare import check
from samebits.functions.result import Comparing
from samebits.host.backend_start import require_answer
from samebits.interpret.equation import Array
from samebits.numerics.bits import witness_at
from samebits.numerics.difference_kinds import element_bits
from samebits.programs.implementations import parameters_of
from samebits.properties.call import name_of, running
from samebits.properties.outcome import Conclusion
from samebits.schema.difference import Witness

NOTHING = 1e-9
"""A difference of logits in float64 that is rounding there, relative to the largest."""

UNROLLED = 16
"""So many steps of decoding are written out; more are a scan, where the cache keeps its shapes."""

Function = Callable[..., Any]
Logits = dict[str, Array]


class FirstPosition(NamedTuple):
    """The first position whose logits are those of another function.

    Args:
        prefix: how many tokens were prefilled.
        position: in the tokens.
        witness: the logit that differs most there, with its place: the row of the batch, the position, the vocabulary.
    """

    prefix: int
    position: int
    witness: Witness

    def __str__(self) -> str:
        step = self.position - self.prefix
        which = "the prefill" if step < 0 else f"step {step + 1} of decoding"
        *row, _, word = self.witness.index
        of = f", row {', '.join(map(str, row))}" if row else ""
        forward, decoded = self.witness.values
        place = f"prefix of {self.prefix}: position {self.position}{of}, vocabulary index {word}"
        return f"{place}, by {which}: forward {forward}, decoded {decoded}"


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Decoding(Conclusion):
    """Whether decoding with a cache gives the logits of the full forward pass.

    Args:
        name: of the decoding function.
        prefixes: how many tokens were prefilled, each time.
        first: for each prefix the first position that differs by more than rounding.
        other_bits: how many logits have other bits, where each function is compiled alone and runs step by step.
        comparing: the verdicts on the logits by prefix, where float64 shows no difference; each side is one program.
            None where a tolerance is declared.
        tolerance: how far logits may be apart, relative to the largest.
    """

    name: str
    prefixes: tuple[int, ...]
    first: tuple[FirstPosition, ...] = ()
    other_bits: int = 0
    comparing: Comparing | None = None
    tolerance: float = 0.0

    @property
    def ok(self) -> bool:
        """Tell whether the logits are those of the forward pass, to the verdict that is required."""
        return not self.first and (self.comparing is None or self.comparing.ok)

    def raise_for_status(self) -> None:
        """Do nothing where the logits are those of the forward pass; as `Conclusion.raise_for_status`."""
        __tracebackhide__ = True
        if self.first or self.comparing is None:
            Conclusion.raise_for_status(self)
        else:
            self.comparing.raise_for_status()

    def text(self) -> str:
        """Return the result as lines."""
        within = f" within {self.tolerance:g} of the largest logit" if self.tolerance else ""
        if self.first:
            head = f"{self.name}: not the function of the full forward pass{within}, executed here and in float64"
            return "\n".join([head, *map(str, self.first)])
        steps = f"{self.other_bits} logits have other bits" if self.other_bits else "all logits have the same bits"
        verdict = self.comparing or f"{self.name}: the full forward pass{within}, executed here and in float64"
        return f"{verdict}\nstep by step: {steps}"


def assert_decodes(
    prefill: Function,
    decode: Function,
    forward: Function,
    tokens: Any,
    *,
    params: Any = None,
    prefixes: Sequence[int] = (),
    positions: Any = None,
    **more: Any,
) -> None:
    """Fail unless prefill and decoding with a cache give the logits of the full forward pass at every position.

    Equivalent to `decoding(...).raise_for_status()`. How keys and values are kept is a matter of the functions: a
    contiguous or paged cache, a ring of a sliding window, shared heads, left padding.

    Args:
        prefill: of the first tokens, to `(logits, cache)`; logits of all these positions, or of the last one alone.
        decode: `(cache, token)` or `(cache, token, position)` to `(logits, cache)`, for one token of each row.
        forward: of all tokens, to the logits, of which the last axis is the vocabulary and the one before the position.
        tokens: integers, with the position as their last axis.
        params: what each function gets as its first argument; None, the default, passes nothing. Of parameters that the
            functions capture, nothing is proved but for their values.
        prefixes: how many tokens are prefilled; by default one, half, and all but one.
        positions: of the shape of `tokens`, which of them count, as those that are not padding; None for all.
        more: options of `CompareOptions`, such as `accept="bitwise"` or `seeds`; and `tolerance=0.02`, how far logits
            may be apart, relative to the largest, as a cache of int8 takes them: with it nothing is proved, and they
            are held against it as executed here and in float64.

    Raises:
        AssertionError: logits differ, or are below what is accepted. The message has for each prefix the first position
            that differs by more than rounding, with the index in the vocabulary and both values.
        RequestError: shapes do not fit, or a prefix is not shorter than the tokens.
        CouldNotRun: a function raised, or a verdict could not be reached.
    """
    __tracebackhide__ = True
    decoding(
        prefill, decode, forward, tokens, params=params, prefixes=prefixes, positions=positions, **more
    ).raise_for_status()


def decoding(
    prefill: Function,
    decode: Function,
    forward: Function,
    tokens: Any,
    *,
    params: Any = None,
    prefixes: Sequence[int] = (),
    positions: Any = None,
    **more: Any,
) -> Decoding:
    """Compare prefill and decoding with the forward pass; arguments and errors are those of `assert_decodes`.

    Args:
        prefill: as for `assert_decodes`.
        decode: as for `assert_decodes`.
        forward: as for `assert_decodes`.
        tokens: as for `assert_decodes`.
        params: as for `assert_decodes`.
        prefixes: as for `assert_decodes`.
        positions: as for `assert_decodes`.
        more: as for `assert_decodes`.

    Returns:
        The first positions that differ, or the verdicts; `text()` is the message of `assert_decodes`.
    """
    require_answer()
    tolerance = more.pop("tolerance", 0.0)
    tokens = np.asarray(tokens)
    length = tokens.shape[-1] if tokens.ndim else 0
    lengths = tuple(dict.fromkeys(prefixes or (1, length // 2, length - 1)))
    if tokens.dtype.kind not in "iu" or length < 2 or not all(0 < prefix < length for prefix in lengths):
        raise RequestError(
            f"tokens {tokens.dtype}{list(tokens.shape)} and prefixes {', '.join(map(str, lengths))}; expected "
            "integers, and prefixes of at least one token that leave one to decode"
        )
    counted = np.ones(tokens.shape, bool) if positions is None else np.asarray(positions, bool)
    if counted.shape != tokens.shape or not counted.any():
        raise RequestError(
            f"positions {list(counted.shape)}; expected booleans of the shape of tokens, one of them true"
        )
    args = (tokens,) if params is None else (params, tokens)
    sides = _Sides((prefill, decode, forward), lengths, counted, args)
    full, decoded = executed = sides.executed()
    first = tuple(sides.first_positions(executed, tolerance))
    return Decoding(
        name=name_of(decode),
        prefixes=lengths,
        first=first,
        other_bits=sum(int(np.count_nonzero(element_bits(full[n]) != element_bits(decoded[n]))) for n in full),
        tolerance=tolerance,
        comparing=None if first or tolerance else check(*sides.as_functions(), *args, **{"gradients": False, **more}),
    )


class _Sides:
    """The forward pass and the decoding loop as two functions of the same arguments."""

    def __init__(
        self, functions: tuple[Function, Function, Function], prefixes: tuple[int, ...], counted: Array, args: Any
    ) -> None:
        self._prefill, self._decode, self._forward = functions
        self._prefixes, self._counted, self._args = prefixes, counted, args
        needed = [each for each in parameters_of(self._decode) or () if each.default is each.empty]
        self._takes_position = len([each for each in needed if each.kind is not each.VAR_KEYWORD]) > 1 + len(args)

    def as_functions(self) -> tuple[Function, Function]:
        """Return both as functions whose arguments have names, for the judge."""
        alone = (lambda tokens: self.full(tokens)), (lambda tokens: self.decoded(tokens))
        both = (lambda params, tokens: self.full(params, tokens)), (lambda params, tokens: self.decoded(params, tokens))
        forward, decoded = sides = alone if len(self._args) == 1 else both
        forward.__name__, decoded.__name__ = "forward", "decoded"
        return sides

    def full(self, *args: Any) -> dict[str, Any]:
        """Return the logits of the forward pass, as often as there are prefixes."""
        import jax

        logits = self._forward(*args)
        if logits.ndim < 2 or logits.shape[:-1] != self._counted.shape:
            raise RequestError(
                f"the forward pass returns {list(logits.shape)} for tokens {list(self._counted.shape)}; expected the "
                "logits of every token"
            )
        shapes = jax.eval_shape(self.decoded, *args)
        return {name: self._masked(logits[..., -shape.shape[-2] :, :]) for name, shape in shapes.items()}

    def decoded(self, *args: Any) -> dict[str, Any]:
        """Return the logits of prefill and decoding, by prefix."""
        return {_leaf(n): self._loop(n, args, self._prefill, self._decode, scanned=True) for n in self._prefixes}

    def _masked(self, logits: Any) -> Any:
        """Return zeros where a position does not count."""
        import jax

        counted = self._counted[..., self._counted.shape[-1] - logits.shape[-2] :, None]
        return logits if counted.all() else jax.numpy.where(counted, logits, jax.numpy.zeros((), logits.dtype))

    def _loop(self, prefix: int, args: tuple[Any, ...], prefill: Function, decode: Function, *, scanned: bool) -> Any:
        """Return the logits of prefill and of each step of decoding."""
        import jax

        *params, tokens = args
        logits, cache = _pair(prefill(*params, tokens[..., :prefix]), "prefill")
        if logits.ndim == tokens.ndim:  # of the last position alone
            logits = logits[..., None, :]
        places = list(range(prefix, tokens.shape[-1]))
        left = [tokens[..., at] for at in places]

        def step(cache: Any, token_and_position: Any) -> tuple[Any, Any]:
            token, position = token_and_position
            more = (position,) if self._takes_position else ()
            row, cache = _pair(decode(*params, cache, token, *more), "decode")
            return cache, row[..., 0, :] if row.ndim > tokens.ndim else row

        if scanned and len(places) > UNROLLED and _carried(step, cache, (left[0], places[0])):
            _, stacked = jax.lax.scan(step, cache, (jax.numpy.stack(left), jax.numpy.asarray(places)))
            rows = jax.numpy.moveaxis(stacked, 0, -2)
        else:
            parts = []
            for pair in zip(left, places, strict=True):
                cache, row = step(cache, pair)
                parts.append(row)
            rows = jax.numpy.stack(parts, axis=-2)
        return self._masked(jax.numpy.concatenate([logits, rows], axis=-2))

    def executed(self) -> tuple[Logits, Logits]:
        """Execute the forward pass and the decoding loop, each function compiled alone, as a server does it.

        Raises:
            CouldNotRun: a function raised.
        """
        import jax

        with running("the functions could not run:"):
            full = jax.device_get(jax.jit(self.full)(*self._args))
            prefill, decode = (_compiled(each) for each in (self._prefill, self._decode))
            steps = {
                _leaf(n): np.asarray(self._loop(n, self._args, prefill, decode, scanned=False)) for n in self._prefixes
            }
        for name, logits in full.items():
            kinds = [f"{each.dtype}{each.shape}" for each in (steps[name], logits)]
            if kinds[0] != kinds[1]:
                raise RequestError("decoding returns {}, the forward pass {}".format(*kinds))
        return full, steps

    def _in_float64(self) -> tuple[Logits, Logits]:
        import jax

        from samebits.properties.row_movement import float64_outputs  # here, because it starts jax

        leaves, names = jax.tree.leaves(self._args), [_leaf(n) for n in sorted(self._prefixes)]  # as in a dict
        full, decoded = (
            dict(zip(names, float64_outputs(jax.make_jaxpr(side)(*self._args), leaves), strict=True))
            for side in (self.full, self.decoded)
        )
        return full, decoded

    def first_positions(self, executed: tuple[Logits, Logits], tolerance: float) -> list[FirstPosition]:
        """Return for each prefix the first position that differs in float64; with a tolerance executed here, too."""
        evaluated = [executed] if tolerance else []
        with contextlib.suppress(NotCovered):  # the judge finds what executing them shows
            evaluated.insert(0, self._in_float64())
        positions = []
        for prefix in sorted(self._prefixes):
            full, decoded = (side[_leaf(prefix)] for side in executed)
            pairs = ((np.asarray(side[_leaf(prefix)], np.float64) for side in sides) for sides in evaluated)
            places = (_farthest(first, second, max(NOTHING, tolerance)) for first, second in pairs)
            place = next((at for at in places if at is not None), None)
            if place is not None:
                position = place[-2] + self._counted.shape[-1] - full.shape[-2]
                positions.append(FirstPosition(prefix, position, witness_at("logits", full, decoded, place)))
        return positions


def _farthest(full: Array, decoded: Array, tolerance: float) -> tuple[int, ...] | None:
    """Return the place of the largest difference at the first position that differs by more than a tolerance."""
    with np.errstate(invalid="ignore"):
        far = np.abs(full - decoded)
    far = np.where(np.isnan(full) & np.isnan(decoded), 0, np.where(np.isnan(far), np.inf, far))
    differs = far > tolerance * np.max(np.abs(full), initial=0.0, where=np.isfinite(full))
    if not differs.any():
        return None
    at = int(np.argmax(differs.any(axis=(*range(full.ndim - 2), full.ndim - 1))))
    there = far[..., at, :]
    *row, word = (int(n) for n in np.unravel_index(int(np.argmax(there)), there.shape))
    return (*row, at, word)


def _compiled(function: Function) -> Function:
    """Return a function that is compiled where it can be: not where the shapes of a cache depend on its integers."""
    import jax

    compiled = jax.jit(function)

    def run(*args: Any) -> Any:
        try:
            return compiled(*args)
        except jax.errors.JAXTypeError:
            return function(*args)

    return run


def _carried(step: Function, cache: Any, token: Any) -> bool:
    """Tell whether a step leaves the structure, shapes and dtypes of a cache as they are, so that a scan takes it."""
    import jax

    before, after = (
        [jax.tree.structure(tree), *((leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(tree))]
        for tree in (jax.eval_shape(lambda: cache), jax.eval_shape(step, cache, token)[0])
    )
    return before == after


def _leaf(prefix: int) -> str:
    return f"prefix_{prefix:06d}"


def _pair(result: Any, name: str) -> tuple[Any, Any]:
    if not (isinstance(result, tuple) and len(result) == 2 and hasattr(result[0], "ndim")):
        raise RequestError(f"{name} returns {type(result).__name__}; expected (logits, cache)")
    return result

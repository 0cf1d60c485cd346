"""Cross entropy of the next token with a z-loss: over all logits, in tiles of the sequence, with its own gradient.

Source: de Brebisson and Vincent, "The Z-loss", 2016 (arXiv 1604.08859), for the idea; the form z^2 with z the
logarithm of the partition function is that of PaLM (arXiv 2204.02311), section 5.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from samebits.schema.case import Arg, Case
from samebits.schema.values import Integers, Normal
from tests.prove.mathematics.specimen import Array, Function, specimen, wide

TILE = 4
"""Positions per tile of the tiled forms."""

# One position more than whole tiles: the last token is predicted and predicts nothing.
SIZES = {"batch": 2, "seq": 4 * TILE + 1, "embed": 32, "vocab": 64}

Output = dict[str, Array]


def cross_entropy(x: Array, head: Array, tokens: Array, mask: Array, *, z_weight: float) -> Output:
    """The mean over unmasked tokens of -log p(token | the position before), and of the weighted z-loss.

    Args:
        x: `[batch, seq, embed]`, the last layer's output.
        head: `[embed, vocab]`.
        tokens: `[batch, seq]` integers.
        mask: `[batch, seq]` of 0 and 1, by the token that is predicted.
        z_weight: of the square of the logarithm of the partition function.

    Returns:
        `loss`, the sum of both, and `z_loss`, the weighted z-loss alone; in at least float32.
    """
    rows, to_logits = wide(x, head)
    logits = jnp.einsum("bsd,dv->bsv", rows[:, :-1], to_logits)
    labels = jnp.take_along_axis(logits, tokens[:, 1:, None], axis=-1)[..., 0]
    log_z = jax.nn.logsumexp(logits, axis=-1)
    counted = mask[:, 1:].astype(rows.dtype)
    z_loss = z_weight * jnp.sum(jnp.square(log_z) * counted) / jnp.sum(counted)
    return {"loss": jnp.sum((log_z - labels) * counted) / jnp.sum(counted) + z_loss, "z_loss": z_loss}


# --- the same in steps, each of which can be replaced ----------------------------------------------------------------

Terms = tuple[Array, Array]
"""The negative log-likelihood and the z-loss of each position."""


def _shifted(tokens: Array) -> Array:
    return tokens[:, 1:]


def _one_hot(logits: Array, labels: Array, z_weight: float) -> Terms:
    """By a product with one-hot labels; z is what the log-softmax took away."""
    log_p = jax.nn.log_softmax(logits, axis=-1)
    hot = jax.nn.one_hot(labels, logits.shape[-1], dtype=logits.dtype)
    log_z = logits[..., 0] - log_p[..., 0]
    return -jnp.sum(log_p * hot, axis=-1), z_weight * log_z**2


def _by(log_z_of: Callable[[Array], Array]) -> Callable[[Array, Array, float], Terms]:
    """By the logarithm of the partition function."""

    def terms(logits: Array, labels: Array, z_weight: float) -> Terms:
        log_z = log_z_of(logits)
        return log_z - jnp.take_along_axis(logits, labels[..., None], axis=-1)[..., 0], z_weight * log_z * log_z

    return terms


_log_z: Callable[[Array], Array] = partial(jax.nn.logsumexp, axis=-1)
_terms = _by(_log_z)


def _mean(terms: Array, counted: Array) -> Array:
    return jnp.sum(jnp.where(counted > 0, terms, 0)) / jnp.sum(counted)


def _in_steps(
    *,
    terms: Callable[[Array, Array, float], Terms] = _terms,
    labels: Callable[[Array], Array] = _shifted,
    counted: Callable[[Array], Array] = _shifted,
    mean: Callable[[Array, Array], Array] = _mean,
) -> Function:
    """Cross entropy of these steps; without a replacement it is honest."""

    def in_steps(x: Array, head: Array, tokens: Array, mask: Array, *, z_weight: float) -> Output:
        rows, to_logits = wide(x, head)
        of_each, z_of_each = terms((rows @ to_logits)[:, :-1], labels(tokens), z_weight)
        weights = counted(mask).astype(rows.dtype)
        z_loss = mean(z_of_each, weights)
        return {"loss": mean(of_each, weights) + z_loss, "z_loss": z_loss}

    return in_steps


# --- in tiles --------------------------------------------------------------------------------------------------------

Sums = tuple[Array, Array, Array]
"""Of the losses, of the z-losses and of the mask."""


def _tiles(array: Array) -> Array:
    """`[batch, seq, ...]` as `[tiles, batch, TILE, ...]`."""
    return jnp.moveaxis(array.reshape(array.shape[0], -1, TILE, *array.shape[2:]), 1, 0)


def _tile(head: Array, z_weight: float, tile: tuple[Array, Array, Array]) -> Sums:
    """The sums of one tile."""
    rows, labels, counted = tile
    of_each, z_of_each = _terms(rows @ head, labels, z_weight)
    return jnp.sum(of_each * counted), jnp.sum(z_of_each * counted), jnp.sum(counted)


def _tiled(total: Callable[[Any, Any], Sums]) -> Function:
    """Logits of one tile of the sequence at a time; `total(sums of a tile, tiles)` adds them up."""

    def tiled(x: Array, head: Array, tokens: Array, mask: Array, *, z_weight: float) -> Output:
        rows, to_logits = wide(x, head)
        tiles = (_tiles(rows[:, :-1]), _tiles(tokens[:, 1:]), _tiles(mask[:, 1:].astype(rows.dtype)))
        losses, z_losses, count = total(partial(_tile, to_logits, z_weight), tiles)
        return {"loss": (losses + z_losses) / count, "z_loss": z_losses / count}

    return tiled


def _by_scan(sums: Any, tiles: Any) -> Sums:
    """The logits of a tile computed again for its gradient."""

    def add(carry: Sums, tile: Any) -> tuple[Sums, None]:
        losses, z_losses, count = jax.checkpoint(sums)(tile)
        return (carry[0] + losses, carry[1] + z_losses, carry[2] + count), None

    zero = jnp.zeros((), tiles[0].dtype)
    total, _ = jax.lax.scan(add, (zero, zero, zero), tiles)
    return total


def _by_map(sums: Any, tiles: Any) -> Sums:
    losses, z_losses, count = (jnp.sum(parts) for parts in jax.lax.map(sums, tiles))
    return losses, z_losses, count


def _mean_of_tiles(sums: Any, tiles: Any) -> Sums:
    """Each tile's mean, averaged: right only where every tile counts as many tokens."""
    losses, z_losses, count = jax.lax.map(sums, tiles)
    return jnp.mean(losses / count), jnp.mean(z_losses / count), jnp.ones_like(count[0])


def _without_last_tile(sums: Any, tiles: Any) -> Sums:
    return _by_map(sums, tuple(array[:-1] for array in tiles))


def _last_tile_not_counted(sums: Any, tiles: Any) -> Sums:
    losses, z_losses, count = jax.lax.map(sums, tiles)
    return jnp.sum(losses), jnp.sum(z_losses), jnp.sum(count[:-1])


# --- a handwritten gradient ------------------------------------------------------------------------------------------

Pull = Callable[[Array, Array, Array, float, Terms], Array]


def _pull(p: Array, hot: Array, log_z: Array, z_weight: float, cotangents: Terms) -> Array:
    """To the logits: p - hot from the likelihood, and 2 w z p from the z-loss, since dz/dlogits = p."""
    to_loss, to_z = cotangents
    return to_loss[..., None] * (p - hot) + (to_z * 2 * z_weight * log_z)[..., None] * p


def _handwritten(pull: Pull = _pull) -> Function:
    """Cross entropy with `pull(probabilities, one-hot labels, log z, z weight, cotangents)` as its gradient."""

    def forward(logits: Array, labels: Array, z_weight: float) -> tuple[Terms, tuple[Array, Array, Array]]:
        log_z = _log_z(logits)
        hot = (labels[..., None] == jnp.arange(logits.shape[-1])).astype(logits.dtype)
        return (log_z - jnp.sum(logits * hot, axis=-1), z_weight * log_z**2), (logits, hot, log_z)

    @partial(jax.custom_vjp, nondiff_argnums=(2,))
    def terms(logits: Array, labels: Array, z_weight: float) -> Terms:
        return forward(logits, labels, z_weight)[0]

    def backward(z_weight: float, saved: tuple[Array, Array, Array], cotangents: Terms) -> tuple[Array, Any]:
        logits, hot, log_z = saved
        to_logits = pull(jax.nn.softmax(logits, axis=-1), hot, log_z, z_weight, cotangents)
        return to_logits, np.zeros(log_z.shape, jax.dtypes.float0)

    terms.defvjp(forward, backward)
    return _in_steps(terms=terms)


# --- faults ----------------------------------------------------------------------------------------------------------


def _z(change: Callable[[Array, Array, float], Array]) -> Function:
    """Another z-loss: `change(logits, log z, weight)`."""

    def terms(logits: Array, labels: Array, z_weight: float) -> Terms:
        of_each, _ = _terms(logits, labels, z_weight)
        return of_each, change(logits, _log_z(logits), z_weight)

    return _in_steps(terms=terms)


def _smoothed(logits: Array, labels: Array, z_weight: float) -> Terms:
    """Labels smoothed by a thousandth."""
    of_each, z_of_each = _terms(logits, labels, z_weight)
    log_z = _log_z(logits)
    return 0.999 * of_each + 0.001 * (log_z - jnp.mean(logits, axis=-1)), z_of_each


def _logarithm_guarded(logits: Array, labels: Array, z_weight: float) -> Terms:
    """An epsilon inside the logarithm of the probability."""
    of_each, z_of_each = _terms(logits, labels, z_weight)
    return -jnp.log(jnp.exp(-of_each) + 1e-6), z_of_each


def _mean_of_rows(terms: Array, counted: Array) -> Array:
    """Each sequence's mean, averaged."""
    return jnp.mean(jnp.sum(terms * counted, axis=1) / jnp.sum(counted, axis=1))


def _mostly_ones(rng: Any, shape: tuple[int, ...]) -> Any:
    """A mask with nine tokens in ten counted, not as many in each row and tile."""
    mask = rng.random(shape) < 0.9
    mask[0, 2:5] = mask[1, 6] = False
    return mask


LOSS = specimen(
    "mathematics_loss",
    reference=cross_entropy,
    rewrites={
        "one_hot": _in_steps(terms=_one_hot),
        "without_maximum": _in_steps(terms=_by(lambda logits: jnp.log(jnp.sum(jnp.exp(logits), axis=-1)))),
        "tiles_scanned": _tiled(_by_scan),
        "tiles_mapped": _tiled(_by_map),
        "handwritten": _handwritten(),
    },
    faults={
        "z_ten_times": _z(lambda logits, log_z, weight: 10 * weight * log_z**2),
        "z_missing": _z(lambda logits, log_z, weight: jnp.zeros_like(log_z)),
        "z_not_squared": _z(lambda logits, log_z, weight: weight * log_z),
        "z_of_shifted_logits": _z(lambda logits, log_z, weight: weight * (log_z - jnp.max(logits, axis=-1)) ** 2),
        "z_gradient_stopped": _z(lambda logits, log_z, weight: weight * jax.lax.stop_gradient(log_z) ** 2),
        "mean_over_all": _in_steps(mean=lambda terms, counted: jnp.sum(terms * counted) / counted.size),
        "mask_not_applied": _in_steps(mean=lambda terms, counted: jnp.sum(terms) / jnp.sum(counted)),
        "mean_of_rows": _in_steps(mean=_mean_of_rows),
        "one_more_counted": _in_steps(mean=lambda terms, counted: jnp.sum(terms * counted) / (jnp.sum(counted) + 1)),
        "epsilon_in_the_count": _in_steps(
            mean=lambda terms, counted: jnp.sum(terms * counted) / (jnp.sum(counted) + 1e-5)
        ),
        "labels_not_shifted": _in_steps(labels=lambda tokens: tokens[:, :-1]),
        "mask_not_shifted": _in_steps(counted=lambda mask: mask[:, :-1]),
        "labels_smoothed": _in_steps(terms=_smoothed),
        "epsilon_in_the_logarithm": _in_steps(terms=_logarithm_guarded),
        "mean_of_tiles": _tiled(_mean_of_tiles),
        "last_tile_missing": _tiled(_without_last_tile),
        "last_tile_not_counted": _tiled(_last_tile_not_counted),
        "gradient_without_z": _handwritten(lambda p, hot, log_z, weight, to: _pull(p, hot, log_z, 0.0, to)),
        "gradient_of_z_without_two": _handwritten(
            lambda p, hot, log_z, weight, to: _pull(p, hot, log_z, weight / 2, to)
        ),
        "gradient_of_z_without_z": _handwritten(
            lambda p, hot, log_z, weight, to: _pull(p, hot, jnp.ones_like(log_z), weight, to)
        ),
        # The first is right only for a plain sum, the second only while loss and z-loss are added.
        "gradient_cotangent_ignored": _handwritten(
            lambda p, hot, log_z, weight, to: _pull(p, hot, log_z, weight, (jnp.ones_like(log_z), jnp.ones_like(log_z)))
        ),
        "gradient_of_z_by_loss": _handwritten(
            lambda p, hot, log_z, weight, to: _pull(p, hot, log_z, weight, (to[0], to[0]))
        ),
    },
    args={
        "x": Arg(shape=("batch", "seq", "embed")),
        "head": Arg(shape=("embed", "vocab"), values=Normal(scale=0.05)),
        "tokens": Arg(shape=("batch", "seq"), values=Integers(high=SIZES["vocab"])),
        "mask": Arg(shape=("batch", "seq"), dtype="int32", values=_mostly_ones),
    },
    cases=(Case(id="usual", sizes=SIZES, statics={"z_weight": 1e-4}),),
)

SPECIMENS = (LOSS,)

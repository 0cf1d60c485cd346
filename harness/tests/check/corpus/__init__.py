"""A corpus of standard formulas with honest rewrites and unequal twins, over which the checks must not be wrong."""

from tests.check.corpus import (
    activations,
    algebra,
    attention,
    elementary,
    losses,
    norms,
    optimisers,
    positions,
    recurrences,
    routing,
    signal,
    softmax,
)

FORMULAS = (
    *softmax.ALL,
    *activations.ALL,
    *norms.ALL,
    *positions.ALL,
    *losses.ALL,
    *attention.ALL,
    *recurrences.ALL,
    *algebra.ALL,
    *optimisers.ALL,
    *routing.ALL,
    *signal.ALL,
    *elementary.ALL,
)

"""Convolutions: each place of the output is a sum of the products of a window of one operand with the other one."""

from __future__ import annotations

from samebits.interpret.all_sizes.demand import Demand, Index
from samebits.interpret.all_sizes.facts import Facts, MapPiece
from samebits.interpret.all_sizes.polynomial import Polynomial, of
from samebits.interpret.all_sizes.reductions import bound_indices, product_of
from samebits.interpret.all_sizes.results import whole_result
from samebits.interpret.all_sizes.windows import SlidingWindow
from samebits.numerics.floats import is_float


def conv_general_dilated(demand: Demand) -> list[MapPiece]:
    """A convolution of floats, with strides, paddings, dilations and groups of features or of the batch.

    Source: "Convolution" in the operation semantics of XLA.
    """
    if not is_float(demand.output_dtype):
        return whole_result(demand)
    left, right, out = demand.params["dimension_numbers"]
    kernel = demand.shape(1)
    summed = bound_indices(demand, [kernel[axis] for axis in right[1:]])
    feature, steps = summed[0], summed[1:]
    places: tuple[list[Polynomial], list[Polynomial]] = ([of(0)] * len(left), [of(0)] * len(right))
    places[0][left[0]], places[0][left[1]] = _batch_and_feature(demand, feature)
    places[1][right[0]], places[1][right[1]] = demand.index[out[1]], feature
    where: Facts = ()
    for number, step in enumerate(steps):
        size, window_number = demand.shape(0)[left[2 + number]], demand.index[out[2 + number]]
        place, facts = _window(demand, number).place(demand, size, window_number, step)
        places[0][left[2 + number]], places[1][right[2 + number]] = place, step
        where = (*where, *facts)
    return product_of(demand, summed, (tuple(places[0]), tuple(places[1])), where)


def _batch_and_feature(demand: Demand, feature: Polynomial) -> Index:
    """The place along the batch and along the features of the left operand, in the group of the output's feature."""
    left, right, out = demand.params["dimension_numbers"]
    shape, kernel = demand.shape(0), demand.shape(1)
    batch, to_feature = demand.index[out[0]], demand.index[out[1]]
    features, batches = (demand.space.size(demand.params[f"{of_what}_group_count"]) for of_what in ("feature", "batch"))
    if features.constant != 1:
        feature = _group(demand, to_feature, kernel[right[0]], features) * kernel[right[1]] + feature
    if batches.constant != 1:
        each = shape[left[0]].quotient(batches)
        if each is None:
            raise demand.not_covered(f"{shape[left[0]]} rows in {batches} groups")
        batch = _group(demand, to_feature, kernel[right[0]], batches) * each + batch
    return batch, feature


def _group(demand: Demand, to_feature: Polynomial, features: Polynomial, groups: Polynomial) -> Polynomial:
    """The number of the group that a feature of the output is in."""
    each = features.quotient(groups)
    if each is None:
        raise demand.not_covered(f"{features} features in {groups} groups")
    return demand.space.divide(to_feature, each, demand.facts)[0]


def _window(demand: Demand, number: int) -> SlidingWindow:
    """The window along a spatial dimension."""
    params, size = demand.params, demand.space.size
    return SlidingWindow(
        size(params["window_strides"][number]),
        size(params["rhs_dilation"][number]),
        size(params["padding"][number][0]),
        size(params["lhs_dilation"][number]),
    )

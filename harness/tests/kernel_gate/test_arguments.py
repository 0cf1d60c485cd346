"""What a kernel is called with: smaller sizes that stand for large ones, and groups that still add up to one."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from samebits.errors import RequestError
from samebits.kernel_gate.arguments import arguments, cropped, executed, other_integers, output_types


def heads(x: Any, limit: int) -> Any:
    """Heads that are as many as each has elements, of which there must be 128."""
    if x.shape[::2] != (1 << 11, 128) or type(limit) is not int:
        raise ValueError
    return x[:limit].sum(1)


def test_dimensions_of_one_size_part_where_arrays_are_too_large() -> None:
    values, said = arguments(lambda: (jnp.ones((1 << 11, 128, 128)), 3), lambda: (heads, heads))
    assert said == "8 for 128" and values[0].shape == (1 << 11, 8, 128)
    assert values[1] == 3, "other things stay what they are"


def test_no_sizes_stand_for_those_at_which_another_error_comes() -> None:
    def alike(x: Any) -> Any:
        raise TypeError("takes 2 arguments")

    def different(x: Any) -> Any:
        raise ValueError(f"64 pages, of {x.shape}")

    values, said = arguments(lambda: jnp.ones((1 << 13, 1 << 13)), lambda: (alike, alike))
    assert said == "8 for 8192" and values[0].shape == (8, 8)
    with pytest.raises(RequestError, match="no smaller sizes stand for it"):
        arguments(lambda: jnp.ones((1 << 13, 1 << 13)), lambda: (alike, different))


@pytest.mark.parametrize(("groups", "less"), [((256,) * 8, 512), ((0, 500, 12, 1536), 64), ((0, 0, 2048), 2)])
def test_sizes_of_groups_add_up_to_what_their_sum_is_now(groups: tuple[int, ...], less: int) -> None:
    part = cropped(np.array(groups, np.int32), (2,), {2048: less, 8: 2})
    assert part.sum() == less and part.min() >= 0 and part.dtype == np.int32 and len(part) == 2


def test_integers_below_a_limit_that_is_given_stay_below() -> None:
    rows, groups = np.ones((8, 4), np.float32), np.array([4, 4], np.int32)
    assert any(not np.array_equal(each.values[1], groups) for each in other_integers((rows, groups)))
    assert all(np.array_equal(each.values[1], groups) for each in other_integers((rows, groups, 4)))


def test_programs_are_traced_once_whatever_the_numbers_are() -> None:
    traced = []

    def function(x: Any, flag: Any) -> Any:
        traced.append(flag)
        return x * 2 if flag is True else x * 3

    x = np.ones(4, np.float32)
    for flag in (True, 1):  # which are equal, and not the same argument
        assert output_types(function, (x, flag)) == [((4,), "float32")]
        assert executed(function, (3 * x, flag))[0].tolist() == ([6.0] if flag is True else [9.0]) * 4
    assert traced == [True, 1] and type(traced[1]) is int
    executed(function, (np.ones(5, np.float32), True))
    assert len(traced) == 3
    assert executed(lambda x, extra: x + len(extra.args), (x, jax.tree_util.Partial(print, 1)))[0].tolist() == [2.0] * 4

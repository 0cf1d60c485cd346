"""Shards are disjoint, together the whole, keep groups together, and reject a wrong text in one line."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samebits.engine.work import Item, Shard
from samebits.errors import RequestError
from tests.engine.toy_work import toy_items


def _items(groups: list[int]) -> list[Item]:
    return [replace(item, group=group) for item, group in zip(toy_items(*["good"] * len(groups)), groups, strict=True)]


@given(st.lists(st.integers(0, 5), max_size=40), st.integers(1, 6))
def test_shards_are_a_partition(groups: list[int], count: int) -> None:
    items = _items(groups)
    parts = [Shard(number, count).of(items) for number in range(1, count + 1)]
    assert sorted(item.key for part in parts for item in part) == sorted(item.key for item in items)
    for group in set(groups):
        assert sum(any(item.group == group for item in part) for part in parts) == 1


def test_shards_of_groups_are_about_equal() -> None:
    parts = [Shard(number, 3).of(_items(list(range(10)))) for number in (1, 2, 3)]
    assert [len(part) for part in parts] == [4, 3, 3]


@pytest.mark.parametrize("text", ["0/4", "5/4", "x", "3", "1/0", "-1/4", "1/2/3", "", "1/x", " 1/4"])
def test_a_wrong_shard_is_rejected(text: str) -> None:
    with pytest.raises(RequestError, match="expected K/N with K from 1 to N, such as 3/8"):
        Shard.parse(text)


def test_a_shard_reads_as_it_is_written() -> None:
    assert str(Shard.parse("3/8")) == "3/8"

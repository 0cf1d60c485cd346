"""Which leaves a pattern matches, and what is left of the containers around them."""

from samebits.programs.side_call import dotted, is_ignored, without_ignored


def test_paths_with_dots() -> None:
    assert dotted("out['cache'][0].k") == "cache.0.k" and dotted("cache['k'] after the call") == "cache.k"
    assert is_ignored("out['cache']", ("cache.*",)) and not is_ignored("out['cached']", ("cache.*",))
    assert is_ignored("model.norm.mean.value after the call", ("model.*.mean.*",))


def test_what_is_left_of_containers() -> None:
    """Entries of dicts and ends of sequences go; in the middle nothing moves up, and `has_aux` keeps its pair."""
    assert without_ignored({"a": 1, "b": {"c": 2}}, ("b.*",)) == {"a": 1}
    assert without_ignored((1, 2, 3), ("1",)) == (1, None, 3)
    assert without_ignored((1, {"k": 2}), ("1.*",)) == 1
    assert without_ignored((1, {"k": 2}), ("1.*",), pair=True) == (1, None)

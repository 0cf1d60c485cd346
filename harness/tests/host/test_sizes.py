"""Sizes mean the same wherever they are written: powers of 1024, and of 1000 where the unit says so."""

import pytest

from samebits.errors import RequestError
from samebits.host.cache_folder import parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("8G", 8 * 2**30),
        ("512M", 2**29),
        ("2.5GiB", 5 * 2**29),
        ("2 gib", 2**31),
        ("2GB", 2 * 10**9),
        ("1tb", 10**12),
        ("500 MB", 5 * 10**8),
        ("70000", 70000),
        ("70000B", 70000),
        ("0", 0),
    ],
)
def test_a_size(text: str, size: int) -> None:
    assert parse_size(text, "--memory", "8G") == size


@pytest.mark.parametrize("text", ["", "G", "8X", "-1G", "eight", "1G2", "8 G B", "8iB", "9" * 400])
def test_what_is_not_a_size_is_rejected(text: str) -> None:
    with pytest.raises(RequestError) as raised:
        parse_size(text, "--memory", "a size such as 8G")
    assert str(raised.value) == f"--memory: '{text}' is not a size; expected a size such as 8G"

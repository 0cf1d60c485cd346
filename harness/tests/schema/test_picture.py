"""A picture survives what results travel through: JSON between processes, the journal, the document."""

import msgspec
import pytest

from samebits.schema.finding import Finding
from samebits.schema.json_text import unknown_key
from samebits.schema.picture import HeatMap, Picture, Window
from tests.support.documents import different

PICTURE = Picture(
    heat=HeatMap(edges={"1": "0 16 32 48 64"}, counts="3 0"),
    ulps={"0": 1, "2^4": 1, "none": 1},
    inputs={"ordinary": 3, "special": 0},
    devices={"0, 2": 3, "1, 3": 0},
    window=Window(
        input="ordinary",
        elements="[0, 3:5]",
        reference="1 nan",
        optimized="2 0",
        reference_hex="0x3f80 0x7fc0",
        optimized_hex="0x4000 0x0000",
    ),
)


@pytest.mark.parametrize("picture", [PICTURE, None], ids=["picture", "none"])
def test_a_result_with_its_picture_is_read_back(picture: Picture | None) -> None:
    result = different(picture=picture)
    text = msgspec.json.encode(result)
    assert msgspec.json.decode(text, type=Finding).comparison.picture == picture
    assert unknown_key(msgspec.json.decode(text), msgspec.json.decode(text, type=Finding)) is None


def test_a_result_of_an_older_version_has_none() -> None:
    old = msgspec.json.decode(msgspec.json.encode(different()))
    for group, key in (("comparison", "picture"), ("comparison", "array"), ("run", "device_order")):
        del old[group][key]
    assert msgspec.convert(old, Finding) == different()

from dataclasses import replace

import pytest

from samebits.cluster.ray_probe import one_kind
from samebits.errors import RequestError
from samebits.host import environment


def test_nodes_of_one_kind_have_one_environment() -> None:
    here = environment.capture()
    assert one_kind({"a": here, "b": replace(here, cpus=here.cpus + 1)}) == here


def test_nodes_of_two_kinds_are_named() -> None:
    here = environment.capture()
    other = replace(here, instruction_sets=("neon",))
    with pytest.raises(RequestError, match=r"nodes a and c are not alike: instruction sets .* and \('neon',\)"):
        one_kind({"a": here, "b": here, "c": other})

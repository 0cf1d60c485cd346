"""`x=f32[8,16]` becomes an `Arg`, each wrong part gets one line; trees of `Arg` are flat leaves by path."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from samebits.errors import DeclarationError, RequestError
from samebits.programs.like import like
from samebits.schema.argument_text import EXAMPLES, argument_word, dtype_name, parse_argument, parse_arguments
from samebits.schema.argument_trees import argument_tree
from samebits.schema.case import Arg
from samebits.schema.validate import kind_words
from samebits.schema.values import Integers, Uniform

WORDS = {
    "x=f32[8,16]": Arg(shape=(8, 16), dtype="float32"),
    "x=f32[]": Arg(shape=(), dtype="float32"),
    "k=bf16[4,128,64]": Arg(shape=(4, 128, 64), dtype="bfloat16"),
    "ids=i32[8]:0..99": Arg(shape=(8,), dtype="int32", values=Integers(low=0, high=100)),
    "ids=i8[3]:-128..127": Arg(shape=(3,), dtype="int8", values=Integers(low=-128, high=128)),
    "ids=i32[1]:5..5": Arg(shape=(1,), dtype="int32", values=Integers(low=5, high=6)),
    "p=f32[8]:0..1": Arg(shape=(8,), dtype="float32", values=Uniform(low=0, high=1)),
    "p=bf16[8]:-2.5..1e-05": Arg(shape=(8,), dtype="bfloat16", values=Uniform(low=-2.5, high=1e-5)),
    "p=f32[8]:0.1234567890123..1:nan": Arg(
        shape=(8,), dtype="float32", values=Uniform(low=0.1234567890123), special=("nan",)
    ),
    "x=f16[8]:nan,-0.0": Arg(shape=(8,), dtype="float16", special=("nan", "-0.0")),
    "x=f8_e4m3fn[2,2]": Arg(shape=(2, 2), dtype="float8_e4m3fn"),
    "x=f32[8@data,16]": Arg(shape=(8, 16), dtype="float32", spec=("data", None)),
    "x=f32[8@(data,fsdp),4]": Arg(shape=(8, 4), dtype="float32", spec=(("data", "fsdp"), None)),
    "m=bool[5]": Arg(shape=(5,), dtype="bool"),
    "m=bool[5]:true": Arg(shape=(5,), dtype="bool", values=Integers(low=1, high=2)),
    "m=bool[4,2]:false": Arg(shape=(4, 2), dtype="bool", values=Integers(low=0, high=1)),
    "key=key<fry>[]": Arg(shape=(), dtype="key<fry>"),
    "keys=key<urbg>[4@data]": Arg(shape=(4,), dtype="key<urbg>", spec=("data",)),
}


@pytest.mark.parametrize("word", WORDS)
def test_word_becomes_argument_and_back(word: str) -> None:
    name, arg = parse_argument(word)
    assert (name, arg) == (word.partition("=")[0], WORDS[word])
    assert argument_word(name, arg) == word


def test_spaces_do_not_matter() -> None:
    assert parse_argument(" x = float32[ 8 @ data , 16 ] ") == parse_argument("x=f32[8@data,16]")


NUMBERS = ["float32", "bfloat16", "float16", "float64", "int4", "int32", "uint8", "uint32", "complex64", "bool"]
SMALL = ["float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz", "float4_e2m1fn"]


@pytest.mark.parametrize("name", [*NUMBERS, *SMALL])
def test_short_names_are_those_that_jax_prints(name: str) -> None:
    dtype = jnp.dtype(getattr(jnp, name) if hasattr(jnp, name) else name)
    if name not in ("float64", "complex128"):
        value = jax.make_jaxpr(lambda x: x)(jax.ShapeDtypeStruct((2,), dtype)).in_avals[0]
        assert dtype_name(value.str_short(short_dtypes=True).partition("[")[0], "here") == name
    assert dtype_name(name, "here") == name


def test_several_arguments_keep_their_order() -> None:
    assert list(parse_arguments(["b=f32[2]", "a=i32[3]"])) == ["b", "a"]


FORM = f"is not NAME=DTYPE[SIZES]; write it as in {EXAMPLES}"
SIZES = "expected a positive number, and @AXIS or @(AXIS,AXIS) where it is split, as in f32[8@data,16]"
DTYPES = "is unknown; expected a name as jax prints it, such as f32, bf16, f16, i32, u8, bool, f8_e4m3fn or key<fry>"
SPECIAL = "expected some of -0.0, nan, nan_payload, inf, -inf, subnormal, largest"


@pytest.mark.parametrize(
    ("word", "line"),
    [
        ("", f"argument '' {FORM}"),
        ("x", f"argument 'x' {FORM}"),
        ("x=f32", f"argument 'x=f32' {FORM.replace('; write', ': a scalar is x=f32[]; write')}"),
        ("x:f32[8]", f"argument 'x:f32[8]' {FORM}"),
        ("x=f32[8", f"argument 'x=f32[8' {FORM}"),
        ("x=f32(8,16)", f"argument 'x=f32(8,16)' {FORM}"),
        ("2x=f32[8]", f"argument '2x=f32[8]': '2x' is not the name of a parameter; write it as in {EXAMPLES}"),
        ("=f32[8]", f"argument '=f32[8]': '' is not the name of a parameter; write it as in {EXAMPLES}"),
        ("x=f33[8]", f"argument 'x=f33[8]': dtype 'f33' {DTYPES}"),
        ("x=[8]", f"argument 'x=[8]': dtype '' {DTYPES}"),
        ("x=finfo[8]", f"argument 'x=finfo[8]': dtype 'finfo' {DTYPES}"),
        ("x=str[8]", f"argument 'x=str[8]': dtype 'str' {DTYPES}"),
        ("x=object[8]", f"argument 'x=object[8]': dtype 'object' {DTYPES}"),
        ("x=f128[8]", f"argument 'x=f128[8]': dtype 'f128' {DTYPES}"),
        ("x=key<f>[]", f"argument 'x=key<f>[]': dtype 'key<f>' {DTYPES}"),
        ("x=key<fry>[]:0..3", "argument 'x=key<fry>[]:0..3': key<fry> has no ranges; leave out :0..3"),
        ("x=key<rbg>[]:nan", "argument 'x=key<rbg>[]:nan': random keys have no special values; leave out :nan"),
        ("x=f32[8,]", f"argument 'x=f32[8,]': dimension '' is not a size; {SIZES}"),
        ("x=f32[0]", f"argument 'x=f32[0]': dimension '0' is not a size; {SIZES}"),
        ("x=f32[-1]", f"argument 'x=f32[-1]': dimension '-1' is not a size; {SIZES}"),
        ("x=f32[rows]", f"argument 'x=f32[rows]': dimension 'rows' is not a size; {SIZES}"),
        ("x=f32[8@]", f"argument 'x=f32[8@]': '8@' does not name mesh axes; {SIZES}"),
        ("x=bool[8]:0..1", "argument 'x=bool[8]:0..1': bool has no ranges; leave out :0..1, or give :true or :false"),
        ("x=f32[8]:true", "argument 'x=f32[8]:true': 'true' is of bool, and not of float32; leave it out"),
        ("x=f32[8]:1..1", "argument 'x=f32[8]:1..1': the range 1..1 is empty; expected LOW..HIGH"),
        ("x=i8[8]:0..0.5", "argument 'x=i8[8]:0..0.5': 0..0.5 is not a range of integers, which int8 needs"),
        ("x=i32[8]:9..0", "argument 'x=i32[8]:9..0': the range 9..0 is empty; expected LOW..HIGH, both included"),
        ("x=u8[8]:0..256", "argument 'x=u8[8]:0..256': 0..256 does not fit uint8, which has 0..255"),
        ("x=i32[8]:0..1:2..3", "argument 'x=i32[8]:0..1:2..3': two ranges; give one, as in ids=i32[8]:0..99"),
        ("m=bool[8]:true:false", "argument 'm=bool[8]:true:false': two ranges; give one, as in ids=i32[8]:0..99"),
        (
            "x=f32[8]:zero",
            f"argument 'x=f32[8]:zero': 'zero' is neither a range such as 0..99 nor a special value; {SPECIAL}",
        ),
    ],
)
def test_wrong_part_is_named(word: str, line: str) -> None:
    with pytest.raises(RequestError) as error:
        parse_argument(word)
    assert str(error.value) == line


def test_name_given_twice() -> None:
    with pytest.raises(RequestError) as error:
        parse_arguments(["x=f32[8]", "x=f32[9]"])
    assert str(error.value) == "argument 'x=f32[9]': 'x' is given twice; give each argument once"


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("eps=1e-6", ": a value that is not an array is --static eps=1e-6"),
        ("causal=True", ": a value that is not an array is --static causal=True"),
        ("scale=f32", ": a scalar is scale=f32[]"),
        ("x=f32[8],y=f32[8]", ": each array has an --arg of its own"),
        ("x:f32[8]", ""),
        ("name=gelu", ""),
    ],
)
def test_what_was_meant_is_said(word: str, meant: str) -> None:
    with pytest.raises(RequestError) as raised:
        parse_argument(word)
    assert str(raised.value) == f"argument '{word}' is not NAME=DTYPE[SIZES]{meant}; write it as in {EXAMPLES}"


def test_a_declared_tree_of_args() -> None:
    tree = argument_tree("here", {"w": Arg(shape=(2,)), "rest": [like(jnp.ones(3)), Arg(shape=(1,))]})
    assert tree.paths == ("['rest'][0]", "['rest'][1]", "['w']")
    assert tree.leaves("params").keys() == {"params['rest'][0]", "params['rest'][1]", "params['w']"}
    arrays = {name: jnp.full(arg.shape, number) for number, (name, arg) in enumerate(tree.leaves("params").items())}
    built = tree.assembled("params", arrays)
    assert [float(built["rest"][0][0]), float(built["rest"][1][0]), float(built["w"][0])] == [0, 1, 2]


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ((8, 16), "here[0] is 8, a int; expected Arg(shape=(...))"),
        ({"x": {"shape": (2,)}}, "here['x']['shape'][0] is 2, a int; expected Arg(shape=(...))"),
        ({}, "here is an empty dict; expected Arg(shape=(...)) in it"),
        ("f32[8]", "here is 'f32[8]', a str; expected Arg(shape=(...))"),
        (jnp.float32, "here is <class 'jax.numpy.float32'>"),
    ],
)
def test_what_is_no_declaration_is_one_line(declared: Any, message: str) -> None:
    with pytest.raises(DeclarationError) as raised:
        argument_tree("here", declared)
    assert str(raised.value).startswith(message)
    assert "\n" not in str(raised.value)


class _Layer:
    """Not callable."""


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (np.zeros((4, 8), np.float32), "an array float32[4,8]"),
        (np.float64(3), "an array float64[]"),
        (3, "3, an int"),
        (True, "True, a bool"),
        ("x" * 99, f"'{'x' * 36}..., a str"),
        (None, "None"),
        ({"w": np.zeros(999)}, "a dict of 1 entry"),
        ([1, 2], "a list of 2 entries"),
        (math, "the module math"),
        (_Layer, "the class _Layer"),
        (_Layer(), "an object of the class _Layer"),
    ],
)
def test_a_value_in_a_few_words(value: Any, words: str) -> None:
    assert kind_words(value) == words

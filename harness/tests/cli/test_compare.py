"""`samebits compare` of two functions in a file of the user's, by itself in a folder."""

import json
import shlex
from pathlib import Path

import pytest

from tests.support.findings import flat_rows
from tests.support.invoke import samebits

FUNCTIONS = """\
import jax
import jax.numpy as jnp


def norm(x, scale, *, eps=1e-6):
    return x * scale / jnp.sqrt(jnp.mean(x * x, axis=-1, keepdims=True) + eps)


def fused(x, weight, *, eps=1e-6):
    return x * jax.lax.rsqrt(jnp.mean(jnp.square(x), axis=-1, keepdims=True) + eps) * weight


def other_eps(x, scale, *, eps=1e-6):
    return norm(x, scale, eps=10 * eps)


def take(table, ids):
    return jnp.take(table, ids, axis=0)


def one_hot(table, ids):
    return jax.nn.one_hot(ids, table.shape[0], dtype=table.dtype) @ table


def first_largest(x):
    return jnp.argmax(x, axis=-1)


def sorted_largest(x):
    return jnp.argsort(-x, axis=-1)[..., 0]


def doubled(x, mask):
    return jnp.where(mask > 0, 2 * x, 0.0)


def added(x, mask):
    return jnp.where(mask > 0, x + x, 0.0)


def signs(x, mask):
    return jnp.where(mask > 0, jnp.sign(x), 0.0).astype(jnp.int8)


def twice_or_once(x, flag):
    return jnp.where(flag, 2 * x, x)


def twice_or_thrice(x, flag):
    return jnp.where(flag, 2 * x, 3 * x)


def masked_mean(x, mask):
    return jnp.where(mask, x, 0).sum() / mask.sum()


def masked_mean_or_zero(x, mask):
    return jnp.where(mask, x, 0).sum() / jnp.maximum(mask.sum(), 1)


def squared(z):
    return z * z


def squared_parts(z):
    return jax.lax.complex(z.real * z.real - z.imag * z.imag, 2 * z.real * z.imag)


def matmul(x, w):
    return x @ w


def matmul_swapped(w, x):
    return x @ w


def split_matmul(x, w, *, mesh):
    from jax.sharding import PartitionSpec as P

    def part(x, w):
        return jax.lax.psum(x @ w, "tp")

    return jax.shard_map(part, mesh=mesh, in_specs=(P("dp", "tp"), P("tp")), out_specs=P("dp"))(x, w)


def matmul_anywhere(x, w, *, mesh=None):
    return jnp.einsum("bi,io->bo", x, w)


class Layer:
    @staticmethod
    def take(table, ids):
        return table[ids]


not_a_function = 3
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "compared_fns.py").write_text(FUNCTIONS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


NORM = ("compare", "compared_fns:norm", "compared_fns:fused", "--arg", "x=f32[8,16]", "--arg", "scale=f32[16]")
FLAG = ("--arg", "x=f32[8]", "--arg", "flag=bool[]")
TAKE = ("--arg", "table=f32[100,8]", "--arg", "ids=i32[16]:0..99")


def test_rounding_passes_and_is_shown(folder: Path) -> None:
    ended = samebits(*NORM, "--rename", "scale=weight", "--json", "out.json", "--markdown", "out.md")
    assert ended.code == 0, ended.err
    assert "norm_fused" in ended.out
    assert "all contracts hold" in ended.out
    document = json.loads((folder / "out.json").read_text(encoding="utf-8"))
    assert document["command"] == "check"
    assert {(r["direction"], r["leaf"]) for r in flat_rows(document) if r["variant"] == "fused"} == {
        ("forward", "out"),
        ("gradient", "scale"),
        ("gradient", "x"),
    }
    assert "norm_fused" in (folder / "out.md").read_text(encoding="utf-8")


def test_another_epsilon_is_different_and_replays() -> None:
    words = ("compare", "compared_fns:norm", "compared_fns:other_eps", *NORM[3:], "--static", "eps=0.001", "--forward")
    ended = samebits(*words)
    assert ended.code == 1
    assert "verdict   different" in ended.out
    replay = next(line for line in ended.out.splitlines() if "replay" in line).split("replay")[1].strip()
    again = samebits(*shlex.split(replay)[1:])
    assert again.code == 1
    assert [line for line in ended.out.splitlines() if "witness" in line] == [
        line for line in again.out.splitlines() if "witness" in line
    ]


def test_parameters_in_another_order_are_noted() -> None:
    words = ("compare", "compared_fns:matmul", "compared_fns:matmul_swapped", "--forward", "--arg", "x=f32[8,8]")
    ended = samebits(*words, "--arg", "w=f32[8,8]")
    assert ended.code == 0 and "proved 1" in ended.out, ended.err
    remark = "matmul_swapped takes x and w in another order: they are matched by name here, and a call by position"
    assert remark in ended.out + ended.err


def test_a_threshold_out_of_reach_is_different() -> None:
    sides = ("compare", "jax.nn:relu", "jax.nn:relu6", "--forward", "--arg")
    ended = samebits(*sides, "x=f32[8,16]")
    assert ended.code == 1
    assert "6.0 here, in float64, with the inputs 64 times as large (their values are not stated)" in ended.out
    ended = samebits(*sides, "x=f32[8,16]:-3..3")
    assert ended.code == 0 and "bitwise 1" in ended.out, ended.err


def test_another_branch_of_a_flag_is_different() -> None:
    ended = samebits("compare", "compared_fns:twice_or_once", "compared_fns:twice_or_thrice", "--forward", *FLAG)
    assert ended.code == 1
    assert "not the same at other inputs: out[0] is" in ended.out and "with 'flag' = False" in ended.out


def test_a_mask_that_is_false_everywhere_is_a_note() -> None:
    sides = ("compare", "compared_fns:masked_mean", "compared_fns:masked_mean_or_zero", "--forward")
    ended = samebits(*sides, "--arg", "x=f32[4,8]", "--arg", "mask=bool[4,8]")
    assert ended.code == 0, ended.out
    assert "the same only at inputs like those tried: out[] is nan in the reference, 0.0 here" in ended.out


def test_a_mesh_of_the_users_names() -> None:
    ended = samebits(
        "compare",
        "compared_fns:take",
        "compared_fns.py:one_hot",
        "--arg",
        "table=f32[100,8@tp]",
        "--arg",
        "ids=i32[16@dp]:0..99",
        "--mesh",
        "dp2_tp2",
        "--forward",
    )
    assert ended.code == 0, ended.out + ended.err
    assert "dp2_tp2" in ended.out


def test_arguments_without_a_layout_are_split_over_the_mesh() -> None:
    ended = samebits("compare", "compared_fns:take", "compared_fns:one_hot", *TAKE, "--mesh", "dp2_tp2", "--forward")
    assert ended.code == 0, ended.out + ended.err
    assert "no specs were given; split over dp2_tp2: table ('dp', 'tp'), ids ('dp',)" in ended.out + ended.err


MATMUL = ("--arg", "x=f32[8@dp,16@tp]", "--arg", "w=f32[16@tp,8]")


@pytest.mark.parametrize(
    ("functions", "mesh"),
    [
        (("matmul", "split_matmul"), ("--mesh", "dp2_tp4")),
        (("split_matmul", "matmul"), ("--mesh", "dp2_tp2")),
        (("matmul", "matmul_anywhere"), ("--mesh", "dp2_tp2")),
        (("matmul", "matmul_anywhere"), ()),
    ],
)
def test_a_function_gets_its_mesh(functions: tuple[str, str], mesh: tuple[str, ...]) -> None:
    ended = samebits("compare", *(f"compared_fns:{name}" for name in functions), *MATMUL, *mesh, "--forward")
    assert ended.code == 0, ended.out + ended.err


def test_bits_that_depend_on_the_machine_are_accepted() -> None:
    ended = samebits(
        "compare", "compared_fns:take", "compared_fns:Layer.take", *TAKE, "--accept", "bitwise", "--forward"
    )
    assert ended.code == 0, ended.out + ended.err


def test_functions_of_integers_have_no_gradient_to_compare() -> None:
    ended = samebits("compare", "compared_fns:first_largest", "compared_fns:sorted_largest", "--arg", "x=f32[16,8]")
    assert ended.code == 0, ended.out + ended.err
    assert "'first_largest' has no float output: no gradient" in ended.out


@pytest.mark.parametrize("options", [(), ("--seeds", "2"), ("--mesh", "dp2")])
def test_what_both_ignore_has_no_gradient_to_compare(options: tuple[str, ...], folder: Path) -> None:
    args = ("--arg", "x=f32[16]", "--arg", "mask=f32[16]", "--json", "out.json", *options)
    ended = samebits("compare", "compared_fns:doubled", "compared_fns:added", *args)
    assert ended.code == 0, ended.out + ended.err
    assert "no gradient with respect to mask: neither function's result depends on it differentiably" in ended.out
    results = flat_rows(json.loads((folder / "out.json").read_text(encoding="utf-8")))
    assert {result["leaf"] for result in results if result["direction"] == "gradient"} == {"x"}


def test_gradients_of_complex_arguments_are_compared(folder: Path) -> None:
    args = ("--arg", "z=c64[16]", "--json", "out.json")
    ended = samebits("compare", "compared_fns:squared", "compared_fns:squared_parts", *args)
    assert ended.code == 0, ended.out + ended.err
    results = flat_rows(json.loads((folder / "out.json").read_text(encoding="utf-8")))
    assert {result["direction"] for result in results} == {"forward", "gradient"}


def test_reasons_name_the_options_of_the_command() -> None:
    ended = samebits(
        "compare", "compared_fns:doubled", "compared_fns:signs", "--arg", "x=f32[16]", "--arg", "mask=f32[16]"
    )
    assert "no float output to pull a cotangent back from; give --forward" in ended.out
    ended = samebits("compare", "compared_fns:matmul", "compared_fns:matmul_anywhere", *MATMUL, "--mesh", "dp2_tp2_cp2")
    assert (
        "no argument and no output is split over 'cp'; split a dimension over it, as in --arg 'x=f32[8@cp]'"
        in ended.out
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("compared_fns:take", "compared_fns:one_hot"), "no --arg: nothing would be compared; declare what"),
        (("compared_fns:take", "compared_fns:onehot", *TAKE), "has no function 'onehot'; did you mean one_hot?"),
        (("compared_fns:take", "compared_fns:not_a_function", *TAKE), "has no function 'not_a_function'"),
        (("no_such_module:take", "compared_fns:take", *TAKE), "module 'no_such_module' does not import"),
        (("missing.py:take", "compared_fns:take", *TAKE), "there is no file missing.py in"),
        (("take", "compared_fns:take", *TAKE), "'take' names no function; expected module:function"),
        (
            ("compared_fns:norm", "compared_fns:fused", *NORM[3:]),
            "declare its own names, or map them: --rename scale=OTHER",
        ),
        (("compared_fns:take", "compared_fns:one_hot", "--arg", "table=f32"), "argument 'table=f32' is not NAME=DTYPE"),
        (("compared_fns:take", "compared_fns:one_hot", *TAKE, "--mesh", "dp"), "mesh 'dp'"),
        (("compared_fns:take", "compared_fns:one_hot", *TAKE, "--mesh", "dp999"), "mesh 'dp999' needs 999 devices and"),
        (
            ("compared_fns:norm", "compared_fns:other_eps", *NORM[3:5]),
            "'scale' is missing; give it as --arg or --static, or",
        ),
        (("compared_fns:matmul", "compared_fns:split_matmul", *MATMUL), "give one, as in --mesh dp2_tp4"),
        (
            ("compared_fns:take", "compared_fns:one_hot", *TAKE[:3], "ids=i32[16@tp]:0..99", "--mesh", "dp2"),
            "--arg ids=i32[16@tp]:0..99: mesh 'dp2' has no axis 'tp'; expected some of dp",
        ),
        (("compared_fns:take", "compared_fns:one_hot", *TAKE, "--static", "eps"), "--static eps: expected NAME=VALUE"),
    ],
)
def test_a_wrong_request_is_one_line(words: tuple[str, ...], message: str) -> None:
    ended = samebits("compare", *words)
    assert ended.code == 2, ended.out + ended.err
    assert message in ended.err
    assert len(ended.err.strip().splitlines()) == 1, ended.err

"""What one case of a pair is made of: its arguments, sizes, static values and documented errors; data without jax."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from samebits.errors import DeclarationError
from samebits.schema.meshes import Mode
from samebits.schema.size_symbols import INDEX, SizeSymbols, size_symbols
from samebits.schema.validate import check_bound, check_formula, check_id, check_shape, check_spec, check_tuple
from samebits.schema.values import Given, Normal, Values

Spec = tuple[str | tuple[str, ...] | None, ...]
"""The mesh axes of each dimension, as in `PartitionSpec`; axes that a mesh lacks are left out."""

TRANSFORMS = ("vmap", "remat", "second_derivative")
"""What a pair can be checked under: `jax.vmap` over two copies, `jax.checkpoint`, and the gradient of its gradient."""

COPIES = 2
"""How many copies of every argument a case under `vmap` has, along a new leading axis."""

SPECIALS = ("-0.0", "nan", "nan_payload", "inf", "-inf", "subnormal", "largest")
"""Special values that an argument can carry; integer arguments take their bounds, 0 and -1 instead."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AxisSize:
    """A static argument that is the size of a mesh axis: `statics={"cp": AxisSize(axis="context")}`.

    Args:
        axis: an axis of a mesh of the pair; its size is 1 on a mesh that lacks it.

    Raises:
        DeclarationError: the axis is not an identifier.
    """

    axis: str

    def __post_init__(self) -> None:
        if not self.axis.isidentifier():
            raise DeclarationError(
                f"AxisSize of axis '{self.axis}', which is not an identifier; expected a name, as in 'dp'"
            )


@dataclass(frozen=True, slots=True)
class ContextMesh:
    """A static argument that is the mesh of the point: `statics={"mesh": ContextMesh()}`.

    On the mesh a side gets the `jax.sharding.Mesh` that it runs on, and in proofs an `AbstractMesh`, which
    `jax.shard_map` takes too. The reference alone gets a mesh of one device with the same axes, and on the mesh
    `none` both sides get one with the axes of the pair's other meshes. A side without such a parameter is called
    without it.
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class Arg:
    """One array argument: its shape, dtype, values, and how it lies on the mesh.

    Args:
        shape: one entry per dimension, in elements: a number, or a name that is looked up in `Case.sizes`.
        dtype: a fixed dtype such as `int32`; None, the default, takes the dtype of the sweep. `key<fry>` is a typed
            random key, as jax prints its dtype.
        spec: the mesh axes of each dimension, as in `PartitionSpec`; axes that a mesh lacks are left out, and
            dimensions without an entry are not split.
        values: how the elements are drawn: `Normal()` by default, `Uniform(low=..., high=...)`, `Integers(high=...)`,
            or a function `(rng, shape) -> array` of a NumPy generator. Integers with a bound `below` are drawn from
            `[0, below)` by default.
        special: special values that the component is defined for (`-0.0`, `nan`, `nan_payload`, `inf`, `-inf`,
            `subnormal`, `largest`); they are put into a second set of inputs of the same shape. None by default.
        differentiable: whether the gradient with respect to this argument is compared (float arguments only); True by
            default.
        weak_type: whether it takes the dtype of what it is combined with, as a Python number does; False by default.
        below: of integers that select or count something: all are in `[0, below)`, a number, or an expression of
            `Case.sizes` and `Case.statics` such as `rows+1`. Proofs for all sizes take it as given, and `values` must
            keep it. No bound by default.
        equals: of integers that have no choice: what each of them is, a number or an expression of `Case.sizes`,
            `Case.statics` and its place, which is `index0` along the first dimension. `equals="index1"` are the
            positions 0, 1, 2, ... of each row. Proofs for all sizes take it as given, and these are the values by
            default; others must be the same. Nothing by default.

    Raises:
        DeclarationError: a field is not a tuple, a size is negative, a special value is unknown, or numbers that are
            not integers of a fixed dtype have a bound or a formula.
    """

    shape: tuple[int | str, ...]
    dtype: str | None = None
    spec: Spec = ()
    values: Values = field(default_factory=Normal)
    special: tuple[str, ...] = ()
    differentiable: bool = True
    weak_type: bool = False
    below: int | str | None = None
    equals: int | str | None = None

    def __post_init__(self) -> None:
        check_shape(self.shape)
        if self.below is not None:
            check_bound(self.shape, self.below, self.dtype, self.special)
        if self.equals is not None:
            check_formula(self.shape, self.equals, self.dtype, self.special, self.below)
        check_tuple(f"argument of shape {self.shape}", "special", self.special)
        unknown = sorted(set(self.special) - set(SPECIALS))
        if unknown:
            raise DeclarationError(f"special value '{unknown[0]}' is unknown; expected some of {', '.join(SPECIALS)}")
        check_spec(f"argument of shape {self.shape}", self.spec, len(self.shape))

    def stacked(self, copies: int) -> Arg:
        """Repeat the argument so many times along a new leading axis, each copy with values of its own."""
        values = self.values
        return replace(
            self,
            shape=(copies, *self.shape),
            spec=(None, *self.spec),
            equals=INDEX.sub(lambda place: f"index{int(place[1]) + 1}", self.equals)
            if isinstance(self.equals, str)
            else self.equals,
            values=replace(values, copies=copies)
            if isinstance(values, Given)
            else (lambda rng, shape: [values(rng, shape[1:]) for _ in range(copies)])
            if callable(values)
            else values,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Refusal:
    """An error that sides must raise instead of returning a result.

    Args:
        error: the exception's class name, such as `ValueError`.
        match: a regular expression that its text must contain.
        variants: the sides that raise it; empty, the default, means every side, the reference too.

    Raises:
        DeclarationError: `match` is not a regular expression.
    """

    error: str
    match: str
    variants: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_tuple(f"refusal by {self.error}", "variants", self.variants)
        try:
            re.compile(self.match)
        except re.error as error:
            raise DeclarationError(
                f"refusal by {self.error}: match '{self.match}' is not a valid regex ({error}); escape metacharacters"
            ) from error


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """One set of sizes and static arguments of a pair.

    Args:
        id: short and stable; it seeds the inputs and names the case in reports and replays.
        sizes: the dimensions that `Arg.shape` names, in elements.
        statics: keyword arguments given to both sides as they are; an `AxisSize` becomes the size of a mesh axis,
            a `ContextMesh` the mesh.
        symbols: for proofs of all sizes, what sizes, integer static arguments and mesh axes are made of: by name an
            expression such as `4*cp*g`, or by symbol its smallest value such as `>= 2`. Sizes without an expression
            are symbols of their own; empty by default.
        dtypes: restricts the pair's dtypes for this case; None, the default, keeps them.
        meshes: restricts the pair's meshes for this case; None, the default, keeps them.
        modes: restricts the pair's sharding modes for this case; None, the default, keeps them.
        variants: restricts the pair's variants for this case; None, the default, keeps them.
        refuses: the documented errors of this case.
        transform: one of `vmap`, `remat`, `second_derivative`; set by `Pair(transforms=...)`, which adds such a case
            for each of its own.
        declared: for a case under a transform, the id of the case that it was made from.

    Raises:
        DeclarationError: the id is malformed, or a restriction is not a tuple.
    """

    id: str
    sizes: Mapping[str, int] = field(default_factory=dict)
    statics: Mapping[str, Any] = field(default_factory=dict)
    symbols: Mapping[str, str] = field(default_factory=dict)
    dtypes: tuple[str, ...] | None = None
    meshes: tuple[str, ...] | None = None
    modes: tuple[Mode, ...] | None = None
    variants: tuple[str, ...] | None = None
    refuses: tuple[Refusal, ...] = ()
    transform: str | None = None
    declared: str | None = None

    def __post_init__(self) -> None:
        check_id("case", self.id)
        for what in ("dtypes", "meshes", "modes", "variants"):
            if getattr(self, what) is not None:
                check_tuple(f"case '{self.id}'", what, getattr(self, what))
        check_tuple(f"case '{self.id}'", "refuses", self.refuses)
        object.__setattr__(self, "sizes", MappingProxyType(dict(self.sizes)))
        object.__setattr__(self, "statics", MappingProxyType(dict(self.statics)))
        object.__setattr__(self, "symbols", MappingProxyType(dict(self.symbols)))

    @property
    def numbers(self) -> dict[str, int]:
        """Return what `symbols` can name of the case itself: its sizes and its integer static arguments."""
        plain = {name: int(value) for name, value in self.statics.items() if _is_size(value)}
        return {**plain, **self.sizes}

    def size_symbols(self, where: str, axes: Iterable[str]) -> SizeSymbols:
        """Return what its sizes are made of; `axes` are mesh axes that expressions may stand for besides."""
        return size_symbols(where, self.symbols, {**dict.fromkeys(axes), **self.numbers})

    def at_sizes(self, numbers: Mapping[str, int]) -> Case:
        """Return the case at other sizes, by the names of its sizes and integer static arguments."""
        sizes = {name: numbers.get(name, number) for name, number in self.sizes.items()}
        plain = {name: numbers[name] for name, v in self.statics.items() if _is_size(v) and name in numbers}
        return replace(self, sizes=sizes, statics={**self.statics, **plain})

    def under(self, transform: str) -> Case:
        """Put both sides under a transform."""
        return replace(self, id=f"{self.id}_{transform}", transform=transform, declared=self.id)

    @property
    def plain(self) -> Case:
        """Return the case as it was declared: what functions of (case, mesh) are called with."""
        return self if self.declared is None else replace(self, id=self.declared, transform=None, declared=None)

    @property
    def context_meshes(self) -> tuple[str, ...]:
        """Return the static arguments that are the mesh of the point."""
        return tuple(name for name, value in self.statics.items() if isinstance(value, ContextMesh))

    def refusal(self, side: str) -> Refusal | None:
        """Return the documented refusal of a side, if it has one in this case."""
        for refusal in self.refuses:
            if not refusal.variants or side in refusal.variants:
                return refusal
        return None


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)

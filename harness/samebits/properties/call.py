"""The call of one function: its arrays by name, and its program, forward and gradient."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samebits.errors import CouldNotRun, RequestError
from samebits.programs.implementations import parameters_of, signature_text
from samebits.programs.like import is_array
from samebits.user_errors import one_line

MASK = -1000.0
"""A float argument all of whose numbers are 0, 1 or below this is a mask, which is meant as it was passed; one that has
a single 1 along its last axis is an encoding of other integers, but for the identity."""


@dataclass(frozen=True, slots=True)
class NamedArray:
    """An array among the arguments or outputs.

    Args:
        name: `x`, `params.w` or `out[0]`.
        shape, dtype: of the array.
        array: an example of its values; None of an output.
        exact: whether its values are meant as passed, and not one example of many.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    array: Any = None
    exact: bool = False

    @property
    def argument(self) -> str:
        """The name of the argument that holds it."""
        return self.name.partition(".")[0]

    @property
    def is_float(self) -> bool:
        """Whether gradients with respect to it exist."""
        import jax

        return bool(jax.numpy.issubdtype(self.dtype, jax.numpy.floating))


QUICK: dict[str, str | bool] = {"xla_backend_optimization_level": "0", "xla_llvm_disable_expensive_passes": True}
"""Options of a CPU's compiler: what a program reads is the same however it is compiled."""


def name_of(function: Any) -> str:
    """Return the name of a function, or of the type of another callable."""
    return str(getattr(function, "__name__", type(function).__name__))


@contextlib.contextmanager
def running(what: str) -> Iterator[None]:
    """Say in one line what a function of the user's raises.

    Raises:
        CouldNotRun: it raised.
    """
    try:
        yield
    except (CouldNotRun, RequestError):
        raise
    except Exception as error:
        raise CouldNotRun(f"{what} {one_line(error)}".strip()) from error


class FlatCall:
    """A function as one of its arrays alone; what is not an array is passed on as it is.

    Args:
        function: of any pytrees of arrays.
        args, keywords: what it is called with.

    Raises:
        RequestError: it is not a function.
    """

    def __init__(self, function: Callable[..., Any], args: Sequence[Any], keywords: Mapping[str, Any]) -> None:
        import jax

        if not callable(function):
            raise RequestError(f"the first argument is {type(function).__name__}; expected a function")
        self.function = function
        self.name = name_of(function)
        top = _positional(function, len(args))
        paths, self._structure = jax.tree_util.tree_flatten_with_path((tuple(args), dict(keywords)))
        self._leaves = [leaf for _, leaf in paths]
        self._places = [number for number, leaf in enumerate(self._leaves) if is_array(leaf)]
        self.arrays = [self._leaves[place] for place in self._places]
        self.names = tuple(_leaf_name(paths[place][0], top) for place in self._places)

    @property
    def listed(self) -> str:
        """The names of all arrays, for a message."""
        return ", ".join(self.names)

    def run(self, arrays: Sequence[Any]) -> Any:
        """Return the outputs of the function on these arrays."""
        import jax

        leaves = list(self._leaves)
        for place, array in zip(self._places, arrays, strict=True):
            leaves[place] = array
        args, keywords = jax.tree.unflatten(self._structure, leaves)
        return self.function(*args, **keywords)


class Call(FlatCall):
    """A function with the arguments of one call.

    Args:
        function: of any pytrees of arrays.
        args, keywords: what it is called with: arrays, or `jax.ShapeDtypeStruct`, from which values are drawn.
        exactly: the names of arguments whose floats are meant as passed.
        options: by option of the property, the name of an argument that is meant as passed too.

    Raises:
        RequestError: there is no array among the arguments, or they do not fit.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        keywords: Mapping[str, Any],
        exactly: str | Sequence[str] = (),
        **options: str,
    ) -> None:
        super().__init__(function, args, keywords)
        if not self.arrays:
            raise RequestError(f"{self.name}{signature_text(function)}: no array among the arguments; give arrays")
        exact = self.selected("exactly=", exactly)
        exact += tuple(number for option, name in options.items() for number in self.selected(option, name))
        named = zip(self.names, self.arrays, strict=True)
        self.inputs = tuple(_input(name, array, exact=n in exact) for n, (name, array) in enumerate(named))

    def selected(self, option: str, names: str | Sequence[str]) -> tuple[int, ...]:
        """Return the numbers of the arrays that are named, or lie in arguments that are named.

        Raises:
            RequestError: a name is unknown.
        """
        names = (names,) if isinstance(names, str) else names
        for name in names:
            if not any(is_of(own, name) for own in self.names):
                raise RequestError(f"{option} names '{name}'; the arrays are {self.listed}")
        return tuple(n for n, own in enumerate(self.names) if any(is_of(own, name) for name in names))

    @functools.cached_property
    def forward(self) -> TracedProgram:
        """The program of the outputs."""
        return TracedProgram.of(self.name, self.run, self.inputs)

    def gradient(self, numbers: Sequence[int]) -> TracedProgram:
        """Return the program of the gradients with respect to some arrays: of all arrays and cotangents."""
        import jax

        floats = [leaf for leaf in self.forward.outputs if leaf.is_float]
        if not floats:
            raise RequestError(f"{self.name} returns no floats, so that it has no gradients")
        places = [n for n, leaf in enumerate(self.forward.outputs) if leaf.is_float]
        count = len(self.inputs)

        def pulled_back(arrays: Sequence[Any]) -> Any:
            own, cotangents = list(arrays[:count]), arrays[count:]

            def outputs(*differentiated: Any) -> list[Any]:
                for number, array in zip(numbers, differentiated, strict=True):
                    own[number] = array
                leaves = jax.tree.leaves(self.run(own))
                return [leaves[place] for place in places]

            _, pull = jax.vjp(outputs, *[arrays[number] for number in numbers])
            return list(pull(list(cotangents)))

        rng = np.random.default_rng(1)
        cotangents = tuple(
            NamedArray(f"cotangent of {leaf.name}", leaf.shape, leaf.dtype, _normal(rng, leaf)) for leaf in floats
        )
        names = [f"gradient of {self.inputs[number].name}" for number in numbers]
        return TracedProgram.of(self.name, pulled_back, (*self.inputs, *cotangents), names)


@dataclass(frozen=True)
class TracedProgram:
    """A function that is traced.

    Args:
        closed: the closed jaxpr.
        inputs, outputs: its arrays, in their order.
        run: the function of a list of arrays.
    """

    closed: Any
    inputs: tuple[NamedArray, ...]
    outputs: tuple[NamedArray, ...]
    run: Callable[..., Any]

    @classmethod
    def of(
        cls, name: str, run: Callable[..., Any], inputs: Sequence[NamedArray], names: Sequence[str] = ()
    ) -> TracedProgram:
        """Trace a function of a list of arrays; its outputs have these names, or those of their paths.

        Raises:
            CouldNotRun: it raises.
        """
        import jax

        types = [jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in inputs]
        with running(f"{name} could not be traced with {_types(inputs)}:"):
            closed, shapes = jax.make_jaxpr(lambda *arrays: run(arrays), return_shape=True)(*types)
        paths, _ = jax.tree_util.tree_flatten_with_path(shapes)
        names = names or [f"out{jax.tree_util.keystr(path)}" for path, _ in paths]
        outputs = tuple(
            NamedArray(own, tuple(shape.shape), shape.dtype) for own, (_, shape) in zip(names, paths, strict=True)
        )
        return cls(closed, tuple(inputs), outputs, run)

    def executed(self, arrays: Sequence[Any]) -> list[NDArray[Any]]:
        """Run the compiled program; where this backend cannot, such as kernels of another one, evaluate it."""
        import jax

        if self.not_run:
            from samebits.interpret.interpreter import Interpreter  # here, because it starts jax
            from samebits.interpret.oracle import Oracle

            return [np.asarray(output) for output in Interpreter(Oracle(), "cpu")(self.closed, *arrays)]
        return [np.asarray(jax.device_get(output)) for output in self._compiled(*arrays)]

    @functools.cached_property
    def not_run(self) -> str:
        """Why this backend cannot compile the program; empty where it can."""
        try:
            self._compiled  # noqa: B018
        except Exception as error:
            return one_line(error)
        return ""

    @functools.cached_property
    def _compiled(self) -> Callable[..., Any]:
        import jax

        types = [jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in self.inputs]
        program = jax.jit(lambda *arrays: jax.tree.leaves(self.run(arrays))).lower(*types)
        return program.compile(compiler_options=QUICK if jax.default_backend() == "cpu" else None)


def _types(leaves: Sequence[NamedArray]) -> str:
    words = [f"{leaf.name}={leaf.dtype}{list(leaf.shape)}" for leaf in leaves[:4]]
    more = f" and {len(leaves) - 4} more arrays" if len(leaves) > 4 else ""
    return f"{', '.join(words)}{more}"


def _positional(function: Callable[..., Any], count: int) -> list[str]:
    parameters = parameters_of(function) or ()
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    rest = next((p.name for p in parameters if p.kind is inspect.Parameter.VAR_POSITIONAL), "arg")
    return [names[n] if n < len(names) else f"{rest}{n - len(names)}" for n in range(count)]


def _leaf_name(path: Sequence[Any], top: Sequence[str]) -> str:
    """Return the name of an array: that of its argument, and its path in it with dots."""
    import jax

    kind, first, *rest = path
    name = top[first.idx] if kind.idx == 0 else first.key
    inner = jax.tree_util.keystr(tuple(rest), simple=True, separator=".")
    return f"{name}.{inner}" if inner else name


def is_of(leaf: str, name: str) -> bool:
    """Tell whether an array has a name, or lies in the argument or tree of this name."""
    return leaf == name or leaf.startswith(f"{name}.")


def _input(name: str, value: Any, *, exact: bool) -> NamedArray:
    """Return an array of the call; of a shape or of one number throughout, an example is drawn."""
    import jax

    shape, dtype = tuple(value.shape), jax.dtypes.canonicalize_dtype(value.dtype)
    if isinstance(value, np.ndarray):
        value = value.astype(dtype)
    leaf = NamedArray(name, shape, dtype)
    if isinstance(value, jax.ShapeDtypeStruct):
        rng = np.random.default_rng(len(name))
        drawn = _normal(rng, leaf) if leaf.is_float else rng.integers(0, 2, shape).astype(dtype)
        return replace(leaf, array=drawn)
    if exact or not leaf.is_float or _is_mask(value):
        return replace(leaf, array=value, exact=True)
    numbers = np.asarray(value, np.float64)
    constant = numbers.size > 1 and not np.ptp(numbers)
    return replace(leaf, array=_normal(np.random.default_rng(len(name)), leaf) if constant else value)


def _is_mask(value: Any) -> bool:
    numbers = np.asarray(value, np.float64)
    masked = numbers.size > 1 and bool(np.all((numbers == 0) | (numbers == 1) | (numbers <= MASK)))
    ones = numbers.ndim > 1 and bool(np.all((numbers == 1).sum(-1) == 1)) and not (numbers < 0).any()
    one_hot = ones and not np.array_equal(numbers, np.broadcast_to(np.eye(*numbers.shape[-2:]), numbers.shape))
    return masked and bool(np.ptp(numbers.clip(MASK))) and not one_hot


def _normal(rng: np.random.Generator, leaf: NamedArray) -> Any:
    return np.asarray(rng.standard_normal(leaf.shape), np.float32).astype(leaf.dtype)

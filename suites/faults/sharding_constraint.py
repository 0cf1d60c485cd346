"""Faults in the layout of an array: tensors that are dropped, bits lost on the way, specs that are not checked."""

from __future__ import annotations

from samebits import Fault, Request


def _request(case: str, mode: str, direction: str = "forward") -> Request:
    return Request(cases=(case,), modes=(mode,), directions=(direction,))


_SKIP = "return x if mesh.empty or _trivial(spec[: x.ndim], sums) else _laid(x, list(spec), sums, mesh)"
_AUTO = "return jax.lax.with_sharding_constraint(x, told)"
_EXPLICIT = "return jax.reshard(\n"
_PADDED = "entries = [*spec[: x.ndim], *(None,) * (x.ndim - len(spec))]"
_TWICE = "if axes.count(axis) > 1:"


def _fault(
    name: str,
    side: str,
    old: str | tuple[str, ...],
    new: str | tuple[str, ...],
    request: Request,
    verdict: str = "different",
) -> Fault:
    return Fault(name=name, pair="sharding_constraint", side=side, old=old, new=new, request=request, verdict=verdict)


FAULTS = (
    _fault(
        "tensor dropped where nothing is split",
        "no_trivial",
        _SKIP,
        _SKIP.replace("return x if", "return None if"),
        _request("trivial", "auto"),
    ),
    _fault(
        "copied by adding zero",
        "no_trivial",
        _SKIP,
        _SKIP.replace("return x if", "return x + 0 if"),
        _request("trivial", "explicit"),
        "bitwise",
    ),
    _fault(
        "moved in bfloat16",
        "no_size_one",
        _AUTO,
        _AUTO.replace("(x, told)", "(x.astype(jax.numpy.bfloat16), told).astype(x.dtype)"),
        _request("mixed", "auto"),
    ),
    _fault(
        "gathered by adding up parts",
        "lean",
        _AUTO,
        "return jax.lax.with_sharding_constraint(x + jax.numpy.zeros_like(x), told)",
        _request("free", "auto"),
        "bitwise",
    ),
    _fault(
        "a constraint that asserts in place of a reshard",
        "no_size_one",
        _EXPLICIT,
        "return jax.lax.with_sharding_constraint(\n",
        _request("moved", "explicit"),
        "error",
    ),
    _fault(
        "spec longer than the rank",
        "no_size_one",
        _PADDED,
        _PADDED.replace("[: x.ndim]", ""),
        _request("longer", "auto"),
        "error",
    ),
    _fault(
        "gradient stopped where skipped",
        "lean",
        "return x if _trivial(tuple",
        "return jax.lax.stop_gradient(x) if _trivial(tuple",
        _request("trivial", "auto", "gradient"),
    ),
    _fault("an axis used twice left to jax", "lean", _TWICE, "if False:", _request("twice", "explicit")),
    _fault(
        "rows exchanged by way of a transpose",
        "no_size_one",
        _AUTO,
        "return jax.lax.with_sharding_constraint(x.reshape(x.shape[::-1]).T, told)",
        _request("mixed", "auto"),
    ),
    _fault(
        "summed over reduced axes as if they held parts",
        "no_size_one",
        "kept = (now",
        "x, kept = x * (1 + len(sums.reduced)), (now",
        _request("reduced", "explicit"),
    ),
    _fault(
        "gradient of a reduced array summed once per device",
        "no_trivial",
        _SKIP,
        _SKIP.replace("return x if", "x = 4 * x - 3 * jax.lax.stop_gradient(x)\n    return x if"),
        _request("reduced", "explicit", "gradient"),
    ),
    _fault(
        "parts of a sum that are each the whole",
        "lean",
        "        return jax.reshard(\n",
        "        x = x + 0 if sums.reduced else x * (1 + 3 * bool(sums.unreduced))\n        return jax.reshard(\n",
        _request("unreduced", "explicit"),
    ),
)

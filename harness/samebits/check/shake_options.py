"""Compiler options that change rounding and no mathematics, by platform; and the excluded options with their reasons.

What an option does was tried on CPU for jax 0.10.2 and 0.12.0.1, on 19 small programs (sums, products, elementwise
functions, scans, convolutions, narrow formats): whether it is accepted, and whether a program or its bits change.
Those of GPU and TPU were not tried; an option that a compiler rejects or ignores is reported as such.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from samebits.user_errors import one_line

TOGETHER = "all together"
"""The name of the combination of all options that do not hide each other."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ShakeOption:
    """One way to shake the compiler.

    Args:
        settings: options of XLA with their values, set together.
        moves: what it changes, in words.
        aside: kinds of difference (`samebits.numerics.difference_kinds.KINDS`) that this option may make and that are
            not counted.
        combines: whether it is part of the combination of all; not where it hides what the others do.
        title: a name in place of the settings.
    """

    settings: tuple[tuple[str, Any], ...]
    moves: str
    aside: tuple[str, ...] = ()
    combines: bool = True
    title: str = ""

    @property
    def name(self) -> str:
        """As it is shown: the title, or `xla_allow_excess_precision=false`, of several settings the first."""
        if self.title:
            return self.title
        (name, value), *more = self.settings
        return f"{name}={_text(value)}" + (f" (and {len(more)} more)" if more else "")


def _one(name: str, value: Any, moves: str, *, combines: bool = True) -> ShakeOption:
    return ShakeOption(settings=((name, value),), moves=moves, combines=combines)


_EVERYWHERE = (_one("xla_allow_excess_precision", False, "narrow formats are rounded after every operation"),)

OPTIONS: dict[str, tuple[ShakeOption, ...]] = {
    "cpu": (
        *_EVERYWHERE,
        _one(
            "xla_backend_optimization_level",
            0,
            "no LLVM optimisation: no fused multiply-add, no vectorised sums",
            combines=False,
        ),
        _one("xla_cpu_prefer_vector_width", "128", "vector width, and with it the order of sums"),
        _one("xla_cpu_prefer_vector_width", "512", "vector width, and with it the order of sums", combines=False),
        _one("xla_llvm_disable_expensive_passes", True, "no vectorisation by LLVM", combines=False),
        _one("xla_cpu_enable_platform_dependent_math", False, "generic code for division, roots and functions"),
        _one("xla_reduce_window_rewrite_base_length", 0, "cumulative sums are not split into blocks"),
        _one("xla_cpu_multi_thread_eigen", False, "one thread for products and convolutions"),
        _one("xla_cpu_use_onednn", True, "products by oneDNN"),
        _one("xla_cpu_use_xnnpack", True, "products by XNNPACK", combines=False),
        _one("xla_cpu_strict_dot_conv_math", True, "products and convolutions without fast approximations"),
        _one("xla_cpu_use_fusion_emitters", False, "other loops, with other chances of contraction"),
        _one("xla_cpu_parallel_codegen_split_count", 32, "many pieces of machine code instead of one"),
        ShakeOption(
            settings=(
                ("xla_cpu_enable_fast_math", True),
                ("xla_cpu_fast_math_honor_nans", True),
                ("xla_cpu_fast_math_honor_infs", True),
                ("xla_cpu_fast_math_honor_division", True),
                ("xla_cpu_fast_math_honor_functions", True),
            ),
            moves="sums are reassociated; NaN, infinity, division and functions stay; the sign of zero is set aside",
            aside=("sign of zero",),
        ),
    ),
    "gpu": (
        *_EVERYWHERE,
        _one("xla_gpu_enable_triton_gemm", False, "products by libraries instead of Triton"),
        _one("xla_gpu_enable_cublaslt", True, "products by cuBLASLt"),
        _one("xla_gpu_autotune_level", 0, "the default algorithm of each product, not the fastest"),
        _one("xla_gpu_exclude_nondeterministic_ops", True, "no operation whose order of sums varies"),
        _one("xla_backend_optimization_level", 0, "no LLVM optimisation", combines=False),
    ),
    "tpu": (
        *_EVERYWHERE,
        _one("xla_tpu_scoped_vmem_limit_kib", "8192", "smaller tiles, and with them another order of sums"),
    ),
}
"""By platform, the likeliest to move bits first. What this XLA does not accept is said to be so."""

FLAGS: dict[str, tuple[ShakeOption, ...]] = {
    "cpu": (
        _one("xla_cpu_max_isa", "AVX2", "no AVX-512"),
        _one("xla_cpu_max_isa", "AVX", "no AVX2 and no fused multiply-add"),
    )
}
"""Options that XLA reads once per process: as options of a compilation they are accepted, and do nothing."""

LEFT_OUT: dict[str, str] = {
    "xla_cpu_enable_fast_math without the honor options": "assumes that no value is NaN or infinite",
    "xla_cpu_fast_math_honor_division=false": "replaces division by a product with an approximate reciprocal",
    "xla_cpu_fast_math_honor_functions=false": "replaces functions by approximations of unstated accuracy",
    "xla_cpu_enable_fast_min_max=true": "min and max may return either operand where one is NaN",
    "xla_cpu_ftz=true": "subnormal numbers become zero",
    "xla_gpu_enable_fast_min_max=true": "min and max may return either operand where one is NaN",
    "xla_gpu_ftz=true": "subnormal numbers become zero",
    "xla_disable_hlo_passes": "some passes are needed for a program to be right; see `samebits bisect flags --passes`",
    "jax_default_matmul_precision": "changes the program as it is written, not how it is compiled",
}
"""Options that change mathematics, or more than rounding, with the reason why they are not evidence."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AcceptedOptions:
    """The options of a platform that this XLA accepts, the combination last; and why it does not accept the others."""

    options: tuple[ShakeOption, ...]
    refused: tuple[tuple[str, str], ...]


@functools.cache
def accepted(platform: str) -> AcceptedOptions:
    """Return what can be tried on a platform; starts the backend."""
    options, refused = [], []
    for option in OPTIONS.get({"cuda": "gpu", "rocm": "gpu"}.get(platform, platform), ()):
        why = why_not(option)
        if why is None:
            options.append(option)
        else:
            refused.append((option.name, why))
    both = together(options)
    return AcceptedOptions(options=(*options, *both), refused=tuple(refused))


def together(options: Sequence[ShakeOption]) -> tuple[ShakeOption, ...]:
    """Return the combination of all options that can be combined; empty where that is one option or none."""
    combined = [option for option in options if option.combines]
    if len(combined) < 2:
        return ()
    settings = {name: value for option in combined for name, value in option.settings}
    aside = tuple(dict.fromkeys(kind for option in combined for kind in option.aside))
    return (
        ShakeOption(settings=tuple(settings.items()), moves="all that can be combined", aside=aside, title=TOGETHER),
    )


def why_not(option: ShakeOption) -> str | None:
    """Explain why this XLA does not accept an option; None where it does."""
    import jax

    try:
        jax.jit(lambda: 0).lower().compile(compiler_options=dict(option.settings))
    except RuntimeError as error:
        return one_line(error)
    return None


def flag_options(platform: str, instruction_sets: Sequence[str]) -> tuple[ShakeOption, ...]:
    """Return the options of a process that can do something on this processor."""
    has = {"AVX2": "avx512f", "AVX": "fma"}  # an instruction set that is lacking cannot be taken away
    return tuple(option for option in FLAGS.get(platform, ()) if has[str(option.settings[0][1])] in instruction_sets)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)

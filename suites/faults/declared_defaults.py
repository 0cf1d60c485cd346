"""Faults in a YAML file that should agree with its schema: keys, types and values, and what YAML 1.1 makes of texts."""

from __future__ import annotations

from samebits import Fault


def _fault(name: str, old: str, new: str) -> Fault:
    return Fault(name=name, pair="declared_defaults", side="yaml_file", old=old, new=new)


FAULTS = (
    _fault("changed in one place only", "float32_weight_sum: false", "float32_weight_sum: true"),
    # Without a dot it is a text.
    _fault("a number that YAML reads as a text", "eps: 1.0e-8", "eps: 1e-8"),
    _fault("an integer for a float", "capacity_factor: -1.0", "capacity_factor: -1"),
    _fault("a boolean for an integer", "num_experts: 1", "num_experts: true"),
    _fault("a boolean in quotes", "use_iota_embed: false", 'use_iota_embed: "false"'),
    _fault("none is a text, null is not", "dropout: null", "dropout: none"),
    _fault("a key renamed", "attention: flash", "attention_kernel: flash"),
    _fault("a key left out", "grad_dtype: float32\n", ""),
    _fault("a key that the schema lacks", "grad_dtype: float32", "grad_dtype: float32\nremat_policy: full"),
    _fault("a value beside its table", "  weight_decay: 0.1", "weight_decay: 0.1"),
    _fault("another order", "axes: [data, fsdp, tensor]", "axes: [fsdp, data, tensor]"),
    _fault("an axis left out", "axes: [data, fsdp, tensor]", "axes: [data, fsdp]"),
    _fault("the last digit", "b2: 0.95", "b2: 0.9500000000000001"),
    # The last one wins in silence; `samebits audit defaults` refuses such a file.
    _fault("a key given twice", "num_experts: 1", "num_experts: 1\nfloat32_weight_sum: true"),
)

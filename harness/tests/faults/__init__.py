"""Planted faults: every check is shown to fail on the fault that it is there for.

`samebits faults` runs them all and prints the table; `test_faults.py` makes a test of each.
"""

from __future__ import annotations

from harness.tests.faults.fault import Fault


def all_faults() -> list[Fault]:
    """Every planted fault, by pair, the harness's own last."""
    from harness.tests.faults import (
        activation_layout,
        attention,
        compiler_flags,
        cross_entropy,
        declared_defaults,
        decoder_layer,
        embedding,
        expert_weight_sum,
        grad_cast,
        gradient_accumulation,
        grouped_matmul,
        jit_form,
        machinery,
        microbatch_select,
        moe,
        moe_capacity,
        optimizer_state,
        output_cast,
        pipeline,
        remat_policy,
        rms_norm,
        scanned_stack,
        sequence_reorder,
        sharding_constraint,
        stage_rotation,
        token_exchange,
        token_sort,
        variable_sharding,
    )

    components = (
        sequence_reorder,
        rms_norm,
        stage_rotation,
        embedding,
        token_exchange,
        compiler_flags,
        cross_entropy,
        declared_defaults,
        token_sort,
        expert_weight_sum,
        microbatch_select,
        gradient_accumulation,
        moe,
        moe_capacity,
        attention,
        grouped_matmul,
        pipeline,
        optimizer_state,
        grad_cast,
        output_cast,
        sharding_constraint,
        activation_layout,
        remat_policy,
        jit_form,
        decoder_layer,
        variable_sharding,
        scanned_stack,
    )
    modules = (*components, machinery)
    return [fault for module in modules for fault in module.FAULTS]

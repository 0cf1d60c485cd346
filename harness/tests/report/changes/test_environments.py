"""Where two environments differ, by name."""

from dataclasses import replace

from samebits.report.changes.diff_document import environment_changes, environment_sentence
from tests.support.documents import ENVIRONMENT


def test_packages_flags_settings_and_processor_are_named() -> None:
    other = replace(
        ENVIRONMENT,
        versions={**ENVIRONMENT.versions, "jax": "0.12.0", "libtpu": "0.0.50", "samebits": "9"},
        instruction_sets=("avx2", "avx512f"),
        flags={"XLA_FLAGS": "--xla_a=1"},
        settings={"jax_enable_x64": "True"},
    )
    assert environment_sentence(environment_changes(ENVIRONMENT, other)) == (
        "jax 0.10.2 -> 0.12.0, libtpu none -> 0.0.50, instruction sets avx2 -> avx2/avx512f, "
        "XLA_FLAGS none -> --xla_a=1, jax_enable_x64 False -> True"
    )


def test_flax_and_optax_count_where_both_documents_know_them() -> None:
    """A model is made of them: a verdict may move with flax alone. A document of before has no versions of them."""
    old, new = (
        replace(ENVIRONMENT, versions={**ENVIRONMENT.versions, "flax": flax, "optax": "0.2.6"})
        for flax in ("0.11.0", "0.12.1")
    )
    assert environment_sentence(environment_changes(old, new)) == "flax 0.11.0 -> 0.12.1"
    assert environment_changes(ENVIRONMENT, new) == environment_changes(old, ENVIRONMENT) == ()
    gone = replace(new, versions={**new.versions, "optax": None})
    assert environment_sentence(environment_changes(new, gone)) == "optax 0.2.6 -> none"


def test_what_is_not_known_does_not_differ() -> None:
    assert environment_changes(None, ENVIRONMENT) == environment_changes(ENVIRONMENT, ENVIRONMENT) == ()

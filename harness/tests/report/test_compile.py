"""The JSON document of `samebits compile`: its published keys, in full and in order."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.invoke import samebits
from tests.support.real_tree import write_real_pair

DOCUMENT_KEYS = [
    "schema",
    "command",
    "environment",
    "results",
    "comparisons",
    "options",
    "problems",
    "notes",
    "summary",
    "written",
]
RESULT_KEYS = [
    "pair",
    "side",
    "case",
    "dtype",
    "mesh",
    "mode",
    "direction",
    "target",
    "shapes",
    "options",
    "compiler",
    "replay",
    "while_loops",
    "loop_turns",
    "gathers",
    "scatters",
    "copies",
    "collectives",
    "wire_bytes",
    "sparsecore",
    "sparsecore_operations",
    "custom_calls",
    "operations",
    "temp_bytes",
    "peak_bytes",
    "argument_bytes",
    "output_bytes",
    "bytes_accessed",
    "flops",
    "optimal_seconds",
    "compile_seconds",
    "cached",
    "program",
    "unordered",
]
COMPARISON_KEYS = [
    "pair",
    "variant",
    "reference",
    "case",
    "dtype",
    "mesh",
    "direction",
    "target",
    "same_program",
    "same_order",
    "verdict",
    "reason",
    "temp_ratio",
    "peak_ratio",
    "bytes_ratio",
    "wire_ratio",
    "operations",
    "expectations",
    "region",
]
EXPECTATION_KEYS = ["shows", "source", "finding", "holds", "ok", "got"]
SUMMARY_KEYS = [
    "programs",
    "cached",
    "comparisons",
    "same_program",
    "claims",
    "failed",
    "findings",
    "unknown",
    "seconds",
    "declared",
    "interrupted",
]
OPTION_KEYS = [
    "pair",
    "side",
    "case",
    "direction",
    "target",
    "options",
    "changed",
    "before",
    "after",
    "operations",
]
PROBLEM_KEYS = ["pair", "message", "exit_code"]


@pytest.mark.slow
@pytest.mark.parametrize("cached", [True, False])
def test_published_keys(cached: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One run with everything in it: a claim that holds, a finding, an option, a side that raises."""
    monkeypatch.setenv("SAMEBITS_CACHE_DIR", str(tmp_path / "cache"))
    claims = [
        'variant="turned", shows=VARIANT.gathers == 0',
        'variant="again", shows=VARIANT.gathers == 0, finding="one is left"',
    ]
    write_real_pair(tmp_path, claims=claims, variants=("turned", "again", "absent"))
    optimized = tmp_path / "optimized_impls" / "reorder.py"
    optimized.write_text(optimized.read_text() + "\n\ndef absent(x):\n    raise RuntimeError\n")
    file = tmp_path / "compiled.json"
    words = ["--direction", "forward", "--option", "turned:xla_allow_excess_precision=False"]
    words += [] if cached else ["--no-cache"]
    ended = samebits("compile", "--root", tmp_path, "--json", file, *words)
    assert ended.code == 3, ended
    document = json.loads(file.read_text())
    assert list(document) == DOCUMENT_KEYS
    assert (document["schema"], document["command"]) == ("samebits/1", "compile")
    assert [list(one) for one in document["results"]] == [RESULT_KEYS] * 4
    assert [list(one) for one in document["comparisons"]] == [COMPARISON_KEYS] * 2
    claimed = [judged for one in document["comparisons"] for judged in one["expectations"]]
    assert [list(judged) for judged in claimed] == [EXPECTATION_KEYS] * 2
    assert [list(one) for one in document["options"]] == [OPTION_KEYS]
    assert [list(one) for one in document["problems"]] == [PROBLEM_KEYS]
    assert list(document["summary"]) == SUMMARY_KEYS
    assert document["notes"] == []
    summary = {**document["summary"], "seconds": 0}
    assert summary == {
        "programs": 4,
        "cached": 0,
        "comparisons": 2,
        "same_program": 1,
        "claims": 2,
        "failed": 0,
        "findings": 1,
        "unknown": 0,
        "seconds": 0,
        "declared": 2,
        "interrupted": False,
    }

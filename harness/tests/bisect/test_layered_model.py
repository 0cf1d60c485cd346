"""`bisect pairs`, `steps` and `tensors` on a small model with known culprits, through the command line."""

import json
import math
import shlex
from pathlib import Path
from typing import Any

import pytest

from samebits.host import environment
from tests.bisect.layered_model import write_tree
from tests.support.invoke import samebits

environment.prepare()


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tree(tmp_path_factory.mktemp("layered"))


pytestmark = pytest.mark.usefixtures("own_cache")


def found(tree: Path, tmp_path: Path, what: str, *words: str, code: int = 1) -> dict[str, Any]:
    """What a bisection writes."""
    path = tmp_path / f"{what}.json"
    ended = samebits("bisect", what, *words, "--root", tree, "--json", path)
    assert ended.code == code, ended.err + ended.out
    finding: dict[str, Any] = json.loads(path.read_text())["finding"]
    assert finding["sentence"] in " ".join(ended.out.split())
    return finding


def shown_again(finding: dict[str, Any]) -> dict[str, Any]:
    """The printed command, run: it must end with 1 and say the same."""
    words = shlex.split(finding["replay"])
    assert words[0] == "samebits"
    ended = samebits(*words[1:])
    assert ended.code == 1, ended.err
    return {"out": " ".join(ended.out.split())}


# --- pairs -----------------------------------------------------------------------------------------------------------


def test_one_wrong_choice_of_one_layer_is_named(tree: Path, tmp_path: Path) -> None:
    """Four layers and another pair were changed."""
    finding = found(tree, tmp_path, "pairs", "--config", "one_wrong", "--steps", "2")
    assert finding["culprits"] == [["scale@layer3"]]
    assert finding["detail"]["whole"]
    assert len(finding["detail"]["choices"]) == 5
    assert finding["candidates"] == [*finding["detail"]["choices"]]
    culprit = finding["candidates"].index("scale@layer3")
    assert [trial["outcome"] for trial in finding["trials"] if trial["taken"] == [culprit]] == ["fail"]
    assert finding["runs"] <= math.ceil(math.log2(5)) + 4, "one beyond the bound proves that there is no other"
    assert finding["sentence"] == "scale@layer3 (wrong in place of plain) alone makes the training part: step 1: loss"
    assert "loss at step 1 is off by" in finding["witness"]
    assert "scale@layer3 (wrong in place of plain) alone" in shown_again(finding)["out"]


@pytest.mark.slow
def test_a_cause_that_shows_at_a_later_step_is_another_cause(tree: Path, tmp_path: Path) -> None:
    """The first shows in step 1, where the search stops; the other choices are judged over all steps."""
    words = ("--config", "good", "--choice", "scale@layer1=wrong", "--choice", "descend=stuck", "--steps", "7")
    finding = found(tree, tmp_path, "pairs", *words)
    assert finding["culprits"] == [["scale@layer1"]]
    assert finding["sentence"].endswith("another cause is among the others, descend: step 7: parameter/layer1")
    rows = [(trial["point"], trial["outcome"], trial["detail"]) for trial in finding["trials"]]
    assert ("descend", "pass", "identical bits, in 1 step") in rows
    assert rows[-1][:2] == ("descend", "fail") and rows[-1][2].startswith("step 7: parameter/layer1 off by")
    assert finding["detail"]["later"]["choices"] == ["descend"]
    again = next(note for note in finding["notes"] if note.startswith("the other cause is searched for by: "))
    assert again.endswith(
        f"--choice scale@layer1=wrong --choice descend=stuck --choice scale@layer1=plain --steps 7 --root {tree}"
    )


@pytest.mark.slow
def test_two_choices_that_fail_only_together_are_named(tree: Path, tmp_path: Path) -> None:
    finding = found(tree, tmp_path, "pairs", "--config", "together")
    assert finding["culprits"] == [["arrange", "largest"]]
    assert "make it part only together" in finding["sentence"]
    outcomes = {trial["point"]: trial["outcome"] for trial in finding["trials"]}
    assert (outcomes["arrange"], outcomes["largest"]) == ("pass", "pass")
    shown_again(finding)


@pytest.mark.slow
def test_a_defect_is_named_at_its_site(tree: Path, tmp_path: Path) -> None:
    """Against the same configuration without it: only where it is planted can it be."""
    finding = found(tree, tmp_path, "pairs", "--defect", "second layer negated")
    assert finding["culprits"] == [["scale@layer2"]]
    assert "with the fault 'second layer negated'" in finding["sentence"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("against", "how"), [("good", "0.25 in place of the default"), ("shifted_more", "0.25 in place of 0.5")]
)
def test_an_option_is_named_among_choices_and_another_mesh(tree: Path, tmp_path: Path, against: str, how: str) -> None:
    """Two devices and other sides are harmless; the good value stays where the option is not taken."""
    finding = found(tree, tmp_path, "pairs", "--config", "shifted", "--against", against, "--steps", "1")
    assert finding["culprits"] == [["option:shift"]]
    assert finding["detail"]["choices"]["mesh"] == "data2 in place of data1"
    assert finding["detail"]["choices"]["option:shift"] == how


@pytest.mark.slow
def test_healthy_choices_leave_nothing_to_search(tree: Path, tmp_path: Path) -> None:
    finding = found(tree, tmp_path, "pairs", "--config", "healthy", code=0)
    assert not finding["found"]
    assert "there is nothing to search for" in finding["sentence"]


@pytest.mark.slow
def test_a_killed_search_is_resumed_from_its_journal(tree: Path, tmp_path: Path) -> None:
    """The journal cut after two looks: they are not run again, and the answer is the same."""
    journal = tmp_path / "journal.jsonl"
    first = found(tree, tmp_path, "pairs", "--config", "one_wrong", "--journal", str(journal))
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(lines[:3]) + lines[3][:10])
    again = found(tree, tmp_path, "pairs", "--config", "one_wrong", "--journal", str(journal))
    assert again["culprits"] == first["culprits"]
    assert again["trials"][0]["remembered"]
    assert journal.read_text().splitlines()[1:3] == [line.rstrip("\n") for line in lines[1:3]]
    other = samebits("bisect", "pairs", "--config", "together", "--root", tree, "--journal", journal)
    assert other.code == 2 and other.lines == [
        f"samebits: journal {journal}: belongs to another search; give another file, or remove it to start over"
    ]


# --- steps -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_step_of_a_late_fault_is_named_and_its_part(tree: Path, tmp_path: Path) -> None:
    """The optimizer stands still in step 7; later steps follow from its state, and are not blamed."""
    finding = found(tree, tmp_path, "steps", "--config", "late", "--steps", "12")
    assert finding["culprits"] == [["step 7", "update", "parameter/layer1"]]
    assert [trial["outcome"] for trial in finding["trials"]] == ["pass"] * 6 + ["fail"]
    assert [trial["left"] for trial in finding["trials"]] == [*([[number, 11]] for number in range(1, 7)), [[6, 6]]]
    assert finding["candidates"][6] == "step 7"
    assert "step 7 is the first that differs" in shown_again(finding)["out"]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("config", "part", "leaf"), [("one_wrong", "forward", "loss"), ("unpulled", "backward", "gradient/layer2")]
)
def test_the_part_of_a_step_is_named(tree: Path, tmp_path: Path, config: str, part: str, leaf: str) -> None:
    finding = found(tree, tmp_path, "steps", "--config", config, "--steps", "2")
    assert finding["culprits"] == [["step 1", part, leaf]]


@pytest.mark.slow
def test_steps_of_a_healthy_training_leave_nothing_to_search(tree: Path, tmp_path: Path) -> None:
    assert not found(tree, tmp_path, "steps", "--config", "healthy", "--steps", "3", code=0)["found"]


# --- tensors ---------------------------------------------------------------------------------------------------------


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("config", "tensor", "backward", "rounded"),
    [
        ("one_wrong", "output value of scale@layer3", False, False),
        ("unpulled", "the cotangent of input w of scale@layer2", True, False),
        ("narrow", "output value of scale@layer1", False, True),
    ],
)
def test_the_first_wrong_tensor_is_named(
    tree: Path, tmp_path: Path, config: str, tensor: str, backward: bool, rounded: bool
) -> None:
    """Blocks after it, whose inputs would be wrong, get the good ones, and are not blamed."""
    finding = found(tree, tmp_path, "tensors", "--config", config, "--choice", "arrange=plain")
    assert finding["detail"]["tensor"] == tensor
    assert finding["detail"]["before"] < finding["detail"]["compared"]
    assert all(trial["taken"] for trial in finding["trials"])
    assert (finding["detail"]["backward"], finding["detail"]["rounded"]) == (backward, rounded)
    assert "in the good step and" in finding["witness"]
    assert tensor in shown_again(finding)["out"]


def test_tensors_of_a_healthy_training_leave_nothing_to_search(tree: Path, tmp_path: Path) -> None:
    words = ("--config", "healthy", "--choice", "arrange=plain")
    finding = found(tree, tmp_path, "tensors", *words, code=0)
    assert "in its first step are those of healthy_reference, in float64 and rounded" in finding["sentence"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("config", ["healthy", "shifted", "late"])
def test_another_order_that_a_later_part_undoes_is_not_blamed(tree: Path, tmp_path: Path, config: str) -> None:
    """Sorted the other way round, and the largest taken: `arrange` differs, and the step does not."""
    finding = found(tree, tmp_path, "tensors", "--config", config, code=0)
    assert not finding["found"] and finding["sentence"].endswith("; there is nothing to search for")
    assert {trial["outcome"] for trial in finding["trials"]} == {"pass"}


def test_a_difference_that_reaches_nothing_is_passed_over(tree: Path, tmp_path: Path) -> None:
    """`arrange` differs first; the gradient of the second layer is what is wrong."""
    finding = found(tree, tmp_path, "tensors", "--config", "unpulled")
    assert finding["detail"]["tensor"] == "the cotangent of input w of scale@layer2"
    assert [
        note for note in finding["notes"] if note.startswith("output value of arrange differs, but reaches neither")
    ]
    assert not [note for note in finding["notes"] if "was not tried" in note]


@pytest.mark.sampled(1)
def test_an_order_that_a_later_part_needs_is_blamed(tree: Path, tmp_path: Path) -> None:
    finding = found(tree, tmp_path, "tensors", "--config", "together")
    assert finding["detail"]["tensor"] == "output value of arrange"


# --- wrong requests --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["steps", "tensors"])
def test_two_trainings_that_do_not_differ_are_refused(tree: Path, what: str) -> None:
    ended = samebits("bisect", what, "--config", "good", "--root", tree)
    assert ended.code == 2
    assert ended.lines == ["samebits: good_reference and good do not differ; there is nothing to bisect"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "give --config NAME, the training that differs (samebits train --list shows them)"),
        (("--config", "one_wrng"), "config 'one_wrng' is unknown; did you mean one_wrong?"),
        (("--config", "good", "--against", "godo"), "config 'godo' is unknown; did you mean good?"),
        (("--defect", "third"), "defect 'third' is unknown; "),
        (("--config", "good"), "good_reference and good do not differ; there is nothing to bisect"),
        (
            ("--config", "good", "--against", "sized"),
            "sized and good have different sizes, so their losses cannot be compared",
        ),
        (
            ("--config", "one_wrong", "--only", "largest"),
            "--only largest: the two trainings do not differ there; they do in arrange, scale@layer1, ",
        ),
        (
            ("--config", "good", "--choice", "scale@layer9=wrong"),
            "config 'good': choice 'scale@layer9' names a site that scale does not have; its sites are layer1, ",
        ),
        (("--config", "good", "--choice", "arrange@layer1=downward"), "its sites are none; it is used once"),
        (("--config", "one_wrong", "--json", "nowhere/x.json"), "the folder 'nowhere' does not exist"),
    ],
)
def test_wrong_requests_get_one_line(tree: Path, words: tuple[str, ...], message: str) -> None:
    ended = samebits("bisect", "pairs", *words, "--root", tree)
    assert ended.code == 2
    assert len(ended.lines) == 1 and message in ended.lines[0]

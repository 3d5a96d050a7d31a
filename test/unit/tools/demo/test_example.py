"""tools.demo.exhibit: the list of examples, and the text of one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.demo.exhibit import EXAMPLES, UnknownExampleError, example_names, find_example

SET = "apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\nmetadata:\n  name: {}\n"
SCALER = """kind: HorizontalPodAutoscaler
spec:
  minReplicas: 2
  scaleTargetRef:
    name: b
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine" / "two.yaml").write_text(
        "---\n".join(["# Two.\n#\n#   look\n", SET.format("a"), SET.format("b"), SCALER])
    )
    (tmp_path / "one.yaml").write_text("# One.\n" + SET.format("c"))
    (tmp_path / "README.md").write_text("no manifest")
    return tmp_path


def test_names(directory: Path) -> None:
    assert example_names(directory) == ["engine/two", "one"]


@pytest.mark.parametrize("name", ["engine/two", "engine/two.yaml"])
def test_an_example_is_parsed(directory: Path, name: str) -> None:
    example = find_example(name, directory)
    assert (example.name, list(example.sets), example.least) == ("engine/two", ["a", "b"], {"b": 2})
    assert example.comment == ("Two.", "", "  look")


@pytest.mark.parametrize("name", ["three", "../one", ""])
def test_an_unknown_name_lists_all_examples(directory: Path, name: str) -> None:
    with pytest.raises(UnknownExampleError, match="engine/two, one"):
        find_example(name, directory)


def test_every_example_is_valid() -> None:
    examples = [find_example(name) for name in example_names()]
    assert all(
        (example.sets or example.disaggregated) and "What to look at" in " ".join(example.comment)
        for example in examples
    )
    assert {path for path in EXAMPLES.rglob("*.yaml")} == {example.path for example in examples}


def test_examples_list_their_requirements() -> None:
    needs = {name: example.needs for name in example_names() if (example := find_example(name)).needs}
    assert list(needs) == ["disaggregated/keda"]
    (definition,) = needs["disaggregated/keda"]
    assert "name: scaledobjects.keda.sh" in definition.read_text("utf-8")


def test_sets_of_another_controller_are_not_waited_for() -> None:
    example = find_example("managed-by")
    assert (list(example.sets), example.left_alone) == (["managed-here"], ("managed-elsewhere",))


def test_disaggregated_sets_and_the_minimum_of_their_autoscalers() -> None:
    example = find_example("disaggregated/hpa")
    assert (list(example.sets), list(example.disaggregated)) == ([], ["scaled"])
    assert example.least == {"scaled-decode": 2}

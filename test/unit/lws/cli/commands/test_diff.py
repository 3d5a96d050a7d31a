"""lws.cli.commands.diff: exit codes, which are the same as for `kubectl diff`."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from lws.cli.commands import diff as module
from lws.cli.commands.diff import diff_data, difference_lines, headline, side_by_side
from lws.cli.histories import SetHistory, set_history
from lws.cli.main import main
from lws.cli.screen import yaml_text
from lws.cli.sets import NamedSet
from lws.leaderworkerset.revisions.history import describe
from lws.runtime.actions import Object
from lws_api.leaderworkerset.v1 import EXCLUSIVE_TOPOLOGY_ANNOTATION
from test.unit.builders import make_set
from test.unit.lws.cli.histories import past, revision_of, sets, snapshot_of

A, B = make_set(image="app:1"), make_set(image="app:2")
HISTORY = [revision_of(A, 1), revision_of(B, 2)]


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    async def find(session: Any, name: NamedSet) -> Object:
        return B

    async def history_of(session: Any, obj: Object) -> SetHistory:
        return set_history(snapshot_of(B, HISTORY), HISTORY)

    def run(target: Any, action: Any) -> Any:
        coroutine = action(None)
        try:
            coroutine.send(None)
        except StopIteration as end:
            return end.value
        raise AssertionError("nothing is waited for")

    monkeypatch.setattr(module, "find", find)
    monkeypatch.setattr(module, "history_of", history_of)
    monkeypatch.setattr(module, "run", run)


@pytest.mark.parametrize(
    ("arguments", "code", "last"),
    [
        ([], 1, "worker template container main image: app:1 → app:2"),
        (["--from", "1", "--to", "1"], 0, "no difference that a pod depends on"),
        (["--to", "7"], 2, "error: set demo has no revision 7: there is 1, 2"),
        (["--to", "x"], 2, "'x' is not a valid integer range. (see lws diff --help)"),
    ],
)
def test_exit_codes(arguments: list[str], code: int, last: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["diff", "lws/demo", *arguments])
    out, err = capsys.readouterr()
    assert end.value.code == code
    assert (out + err).splitlines()[-1].endswith(last)


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_data_in_each_format(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["diff", "lws/demo", "-o", form])
    data = yaml.safe_load(capsys.readouterr().out)
    assert (end.value.code, data["name"]) == (1, "demo")
    assert (data["from"]["revision"], data["to"]["revision"]) == (1, 2)


def test_an_error_of_the_system_is_no_difference(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(target: Any, action: Any) -> Any:
        raise OSError("too many open files")

    monkeypatch.setattr(module, "run", run)
    with pytest.raises(SystemExit) as end:
        main(["diff", "lws/demo"])
    assert (end.value.code, capsys.readouterr().err) == (2, "error: too many open files\n")


OLD, NEW = sets("app:1", "app:2")
NEW["spec"]["leaderWorkerTemplate"]["workerTemplate"]["metadata"]["labels"] = {"new": "yes"}
NEW["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"][0]["args"] = ["--x"]


def test_added_and_removed_lines_have_colours() -> None:
    history = past(OLD, NEW)
    old, new = history.revisions
    lines = {(line.text, line.style) for line in difference_lines(describe(old.record, new.record))}
    assert lines == {
        ("worker template container main args added", "green"),
        ("worker template container main image: app:1 → app:2", "yellow"),
        ("worker template label new added: yes", "green"),
    }
    back = {(line.text, line.style) for line in difference_lines(describe(new.record, old.record))}
    assert ("worker template container main args removed", "red") in back
    assert ("worker template label new removed, was yes", "red") in back


def test_headline() -> None:
    old, new = past(OLD, NEW).revisions
    assert headline(old, new).text == f"revision 1 ({old.key}) → revision 2 ({new.key})"


def test_side_by_side_shows_differences_with_some_context() -> None:
    before = "\n".join(["a: 1", *(f"same{i}: x" for i in range(10)), "z: 1"])
    right = "\n".join(["a: 2", *(f"same{i}: x" for i in range(10)), "z: 1", "new: 3"])
    block = side_by_side(("old", "new"), (before, right))
    assert block.is_even
    assert [tuple(cell.text for cell in cells) for cells in block.rows] == [
        ("a: 1", "a: 2"),
        ("same0: x", "same0: x"),
        ("same1: x", "same1: x"),
        ("⋮", "⋮"),
        ("same9: x", "same9: x"),
        ("z: 1", "z: 1"),
        ("", "new: 3"),
    ]
    first, last = block.rows[0], block.rows[-1]
    assert [cell.style for cell in first] == ["red", "green"]
    assert last[1].style == "green"


def test_another_spelling_is_no_difference() -> None:
    spelled = make_set(image="app:1", template={"leaderTemplate": None})
    spelled["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"][0]["resources"] = {}
    history = past(OLD, spelled)
    first, second = history.revisions
    assert yaml_text(history.compared(first)) == yaml_text(history.compared(second))
    assert list(difference_lines(describe(first.record, second.record))) == []


def test_annotations_that_pods_depend_on_are_compared() -> None:
    placed = make_set(image="app:1", annotations={EXCLUSIVE_TOPOLOGY_ANNOTATION: "rack"})
    history = past(placed)
    (revision,) = history.revisions
    assert history.compared(revision)["metadata"] == {"annotations": {EXCLUSIVE_TOPOLOGY_ANNOTATION: "rack"}}


def test_data() -> None:
    old, new = past(OLD, NEW).revisions
    data = diff_data("demo", old, new, describe(old.record, new.record))
    assert data["name"] == "demo"
    assert data["from"] == {"revision": 1, "key": old.key, "name": old.name}
    assert data["to"] == {"revision": 2, "key": new.key, "name": new.name}
    assert data["changes"] == [line.text for line in difference_lines(describe(old.record, new.record))]
    assert diff_data("demo", new, new, describe(new.record, new.record))["changes"] == []

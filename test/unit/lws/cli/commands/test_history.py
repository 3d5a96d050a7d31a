"""lws.cli.commands.history: the printed history."""

from __future__ import annotations

from dataclasses import replace

from lws.cli.commands.history import (
    changes,
    history_data,
    history_table,
    one_revision,
)
from lws.cli.screen import plain, yaml_text
from lws.history.revision import CHANGE_CAUSE_ANNOTATION
from lws.leaderworkerset.revisions.history import record
from lws_api.leaderworkerset.v1 import EXCLUSIVE_TOPOLOGY_ANNOTATION
from test.unit.builders import NOW, make_set
from test.unit.lws.cli.histories import past, revision_of, sets

A, B = sets("app:1", "app:2", replicas=3)
KEY_A, KEY_B = record(A).key, record(B).key
CHANGE = "worker template container main image: app:1 → app:2"


def test_table() -> None:
    table = history_table(past(A, B, running=[A, B, B]), NOW)
    width = max(len(KEY_A), len(KEY_B)) + 3
    assert list(table.lines()) == [
        f"REVISION   {'KEY':<{width}}AGE   GROUPS    CHANGE",
        f"1          {KEY_A:<{width}}59d   1 (0)     the first revision",
        f"2          {KEY_B:<{width}}59d   2 (1-2)   {CHANGE}",
    ]


def test_change_causes_have_a_column_if_there_are_any() -> None:
    caused = make_set(image="app:2", replicas=3, annotations={CHANGE_CAUSE_ANNOTATION: "new model"})
    table = history_table(past(A, caused), NOW)
    assert table.columns[-2:] == ("CHANGE-CAUSE", "CHANGE")
    assert [row[-2].text for row in table.rows] == ["<none>", "new model"]


def test_many_changes_are_truncated_only_in_the_table() -> None:
    lws = make_set(image="app:2", size=4, replicas=3, networkConfig={"subdomainPolicy": "UniquePerReplica"})
    lws["spec"]["leaderWorkerTemplate"]["workerTemplate"]["metadata"]["labels"] = {"a": "b"}
    history = past(A, lws)
    lines = changes(history, history.numbered(2))
    assert len(lines) == 4
    assert history_table(history, NOW).rows[1][-1].text == "; ".join(lines[:3]) + "; and 1 more"
    wide = history_table(history, NOW, wide=True)
    assert wide.columns == ("REVISION", "NAME", "KEY", "AGE", "GROUPS", "CHANGE")
    assert [cells[1].text for cells in wide.rows] == [revision.name for revision in history.revisions]
    assert wide.rows[1][-1].text == "; ".join(lines)


def test_changes_of_each_revision() -> None:
    recorded_only = make_set(replicas=3, image="app:2", template={"restartPolicy": "None"})
    broken = {**revision_of(A, 5), "data": None}
    history = past(A, B, recorded_only, extra=[broken])
    by_revision = [changes(history, revision) for revision in history.revisions]
    assert by_revision == [["the first revision"], [CHANGE], ["no change that affects pods"], []]


def test_a_history_with_pruned_revisions() -> None:
    history = past(B, extra=[])
    assert changes(history, history.revisions[0]) == ["the first revision"]
    later = past(B, extra=[revision_of(A, 7)])
    alone = [revision for revision in later.revisions if revision.number == 7]
    assert changes(replace(later, revisions=tuple(alone)), alone[0]) == ["the oldest one that is kept"]


def test_a_broken_revision_is_marked() -> None:
    history = past(A, extra=[{**revision_of(B, 2), "data": None}])
    cell = history_table(history, NOW).rows[1][-1]
    assert cell.text.startswith("broken: ControllerRevision demo-")


def test_groups_of_each_revision() -> None:
    history = past(A, B, running=[A, B, A])
    assert [history.groups_text(revision.key) for revision in history.revisions] == ["2 (0, 2)", "1 (1)"]
    assert past(A, B).groups_text(KEY_A) == "0"


def test_one_revision_in_full() -> None:
    history = past(A, B)
    lines = list(plain(one_revision(history, history.numbered(2), NOW)))
    assert lines[0] == "Revision:     2 (what the set asks for)"
    assert f"Key:          {KEY_B}" in lines
    assert "Groups:       3 (0-2)" in lines
    assert "Change-cause: <none>" in lines
    assert lines[lines.index("Change:") + 1] == f"  {CHANGE}"
    assert lines[lines.index("Template:") + 1 :] == [
        f"  {line}" for line in yaml_text(history.recorded(history.numbered(2))).splitlines()
    ]


def test_data() -> None:
    history = past(A, B, running=[A, B, B])
    data = history_data(history, history.revisions, with_content=False)
    assert data["name"] == "demo"
    assert data["revisions"][1] == {
        "revision": 2,
        "key": KEY_B,
        "name": f"demo-{KEY_B}-2",
        "created": "2026-01-01T00:00:00Z",
        "wanted": True,
        "groups": [1, 2],
        "changes": [CHANGE],
    }
    (with_spec,) = history_data(history, [history.numbered(1)], with_content=True)["revisions"]
    worker = with_spec["spec"]["leaderWorkerTemplate"]["workerTemplate"]
    assert worker["spec"]["containers"][0]["image"] == "app:1"
    assert "$patch" not in with_spec["spec"]["leaderWorkerTemplate"]


def test_data_of_a_broken_revision() -> None:
    history = past(A, extra=[{**revision_of(B, 2), "data": None}])
    data = history_data(history, history.revisions, with_content=True)["revisions"][1]
    assert "contains no leaderWorkerTemplate" in data["broken"]
    assert "spec" not in data


def test_a_template_includes_its_recorded_annotations() -> None:
    lws = make_set(annotations={EXCLUSIVE_TOPOLOGY_ANNOTATION: "rack", "other": "x"})
    history = past(lws)
    assert history.recorded(history.revisions[0])["annotations"] == {EXCLUSIVE_TOPOLOGY_ANNOTATION: "rack"}

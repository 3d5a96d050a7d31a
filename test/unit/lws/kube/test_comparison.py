"""lws.kube.comparison: canonical form, equality, and differences in words."""

from __future__ import annotations

import copy
import subprocess
import sys
import time
from typing import Any

import pytest

from lws.kube.comparison import canonical, explain

DEPLOYED: dict[str, Any] = {
    "metadata": {"labels": {"app.kubernetes.io/name": "a", "spec": "b"}},
    "spec": {
        "containers": [
            {
                "name": "main",
                "image": "a:1",
                "args": ["--fast"],
                "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}],
                "resources": {"limits": {"nvidia.com/gpu": "8"}},
                "ports": [{"containerPort": 80}],
                "volumeMounts": [{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/b"}],
            },
            {"name": "spec", "image": "s:1"},
        ],
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
    },
}


def _at(obj: Any, *path: Any) -> Any:
    for part in path:
        obj = obj[part]
    return obj


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"a": None, "b": {"c": None}}, {"b": {}}),
        ({"metadata": {}, "status": {}, "resources": {}}, {}),
        ({"metadata": {"labels": {}, "annotations": None}}, {}),
        ({"resources": {"limits": {}}}, {}),
        ({"emptyDir": {}, "securityContext": {}}, {"emptyDir": {}, "securityContext": {}}),
        ({"a": []}, {"a": []}),
        ([{"a": None}, None], [{}, None]),
        (("a",), ["a"]),
        ("", ""),
        (None, None),
    ],
    ids=repr,
)
def test_canonical(value: Any, expected: Any) -> None:
    before = copy.deepcopy(value)
    assert canonical(value) == expected
    assert value == before


@pytest.mark.parametrize(
    ("one", "other", "verdict"),
    [
        pytest.param({"a": 1, "b": 2}, {"b": 2, "a": 1}, True, id="key order"),
        pytest.param({"a": None}, {}, True, id="null"),
        pytest.param({"metadata": {}}, {}, True, id="noise"),
        pytest.param({"emptyDir": {}}, {}, False, id="a meaningful empty mapping"),
        pytest.param([1, 2], [2, 1], False, id="list order"),
        pytest.param([1], [1, 1], False, id="list length"),
        pytest.param({"a": True}, {"a": 1}, False, id="true is not 1"),
        pytest.param({"a": [{"b": False}]}, {"a": [{"b": 0}]}, False, id="false is not 0"),
        pytest.param({"a": "1"}, {"a": 1}, False, id="text is not a number"),
        pytest.param({"a": ""}, {}, False, id="an empty text"),
        pytest.param({"a": {}}, {"a": []}, False, id="a mapping is not a list"),
        pytest.param({"a": []}, {"a": "b"}, False, id="a list is not a text"),
    ],
)
def test_equivalent_values_are_not_listed(one: Any, other: Any, verdict: bool) -> None:
    assert (explain(one, other) == []) is verdict
    assert (explain(other, one) == []) is verdict


def _changed(path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    changed = copy.deepcopy(DEPLOYED)
    _at(changed, *path[:-1])[path[-1]] = value
    return changed


MAIN = ("spec", "containers", 0)


@pytest.mark.parametrize(
    ("new", "lines"),
    [
        pytest.param(_changed((*MAIN, "image"), "a:2"), ["container main image: a:1 → a:2"], id="image"),
        pytest.param(
            _changed((*MAIN, "env", 0, "value"), "3"), ["container main env X: 1 → 3"], id="environment"
        ),
        pytest.param(
            _changed((*MAIN, "env"), [{"name": "Y", "value": "2"}]),
            ["container main env X removed, was 1"],
            id="environment variable removed",
        ),
        pytest.param(
            _changed((*MAIN, "env"), list(reversed(DEPLOYED["spec"]["containers"][0]["env"]))),
            ["container main env order: X, Y → Y, X"],
            id="environment, order",
        ),
        pytest.param(
            _changed((*MAIN, "env", 0), {"name": "X", "valueFrom": {"fieldRef": {"fieldPath": "p"}}}),
            ['container main env X: 1 → {"valueFrom": {"fieldRef": {"fieldPath": "p"}}}'],
            id="environment, from a field",
        ),
        pytest.param(
            _changed((*MAIN, "resources", "limits"), {"nvidia.com/gpu": "4"}),
            ["container main limit nvidia.com/gpu: 8 → 4"],
            id="limit",
        ),
        pytest.param(
            _changed((*MAIN, "args"), ["--fast", "--safe"]),
            ["container main args[1] added: --safe"],
            id="argument",
        ),
        pytest.param(_changed((*MAIN, "args"), None), ["container main args removed"], id="all arguments"),
        pytest.param(_changed((*MAIN, "tty"), True), ["container main tty added: true"], id="flag"),
        pytest.param(
            _changed((*MAIN, "volumeMounts", 1, "name"), "w"),
            ["container main volume mount /b name: v → w"],
            id="mounts go by path",
        ),
        pytest.param(
            _changed((*MAIN, "ports", 0, "protocol"), "UDP"),
            ["container main port 80 protocol added: UDP"],
            id="ports go by number",
        ),
        pytest.param(
            _changed(("spec", "containers", 1, "image"), "s:2"),
            ["container spec image: s:1 → s:2"],
            id="a name that is also a field",
        ),
        pytest.param(_changed(("metadata", "labels", "spec"), "c"), ["label spec: b → c"], id="such a label"),
        pytest.param(
            _changed(("metadata", "labels", "__private"), "c"), ["label __private added: c"], id="underscores"
        ),
        pytest.param(
            _changed(("spec", "tolerations", 0, "key"), "tpu"),
            ["toleration[0] key: gpu → tpu"],
            id="nameless",
        ),
        pytest.param(
            _changed(("spec", "volumes"), [{"name": "v", "emptyDir": {}}, {"name": "w"}]),
            ["volume v added", "volume w added"],
            id="a complete list",
        ),
        pytest.param(
            _changed((*MAIN, "resources"), None),
            ["container main limit nvidia.com/gpu removed, was 8"],
            id="all resources",
        ),
        pytest.param(
            _changed(("metadata",), {}),
            ["label app.kubernetes.io/name removed, was a", "label spec removed, was b"],
            id="all metadata",
        ),
        pytest.param(
            _changed((*MAIN, "securityContext"), {"runAsUser": 1}),
            ["container main securityContext added"],
            id="a structure",
        ),
        pytest.param(
            _changed(("spec", "containers"), DEPLOYED["spec"]["containers"][:1]),
            ["container spec removed"],
            id="container removed",
        ),
        pytest.param(
            _changed((*MAIN, "image"), "a:" + "1" * 100),
            ["container main image: a:1 → a:" + "1" * 57 + "…"],
            id="long values are cut",
        ),
        pytest.param(_changed((*MAIN, "image"), ""), ['container main image: a:1 → ""'], id="empty text"),
    ],
)
def test_explain(new: dict[str, Any], lines: list[str]) -> None:
    assert explain(DEPLOYED, new) == lines


def test_explain_uses_custom_names() -> None:
    words = {"theirTemplate": "their template", "outer": ""}
    assert explain({"outer": {"theirTemplate": {"a": 1}}}, {"outer": {"theirTemplate": {"a": 2}}}, words) == [
        "their template a: 1 → 2"
    ]


def test_explain_whole_values() -> None:
    assert explain(1, 2) == ["value: 1 → 2"]
    assert explain(None, {"spec": {"a": 1}, "b": {"c": 2}}) == ["a added: 1", "b added"]
    assert explain({"a": {}}, {}) == ["a removed"]


def test_elements_with_the_same_name_are_compared_by_position() -> None:
    old = {"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}
    new = {"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "3"}]}
    assert explain(old, new) == ["env[1] value: 2 → 3"]


# Every line occurs often, but none so often that difflib would ignore it.
MANY_LINES, MORE_LINES = ("".join(f"{index * step % 500}\n" for index in range(20_000)) for step in (1, 7))


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        pytest.param([*"abc"], [*"axbc"], ["args[1] added: x"], id="one element added"),
        pytest.param([*"abc"], [*"ac"], ["args[1] removed, was b"], id="one element removed"),
        pytest.param(
            ["x"] * 9999 + ["a"],
            ["x"] * 9999 + ["b"],
            ["args[9999]: a → b"],
            id="the last of many equal elements",
        ),
        pytest.param(
            [f"--a{index}" for index in range(3000)],
            [f"--{'ba'[index % 2]}{index}" for index in range(3000)],
            ["args: many elements changed (3000)"],
            id="every second of many elements",
        ),
        pytest.param(
            ["x"] * 51,
            [f"{index}" for index in range(49)],
            ["args: many elements changed (51 → 49)"],
            id="all of more than 50",
        ),
        pytest.param(
            [{"values": ["x"] * 9999 + ["a"]}],
            [{"values": ["x"] * 9999 + ["b"]}],
            ["args[0] values[9999]: a → b"],
            id="in a nested list",
        ),
        pytest.param(
            ["-c", f"begin\n{MANY_LINES}"],
            ["-c", f"start\n{MORE_LINES}", "y"],
            [
                f"args[1]: begin\n{MANY_LINES[:53]}… → start\n{MORE_LINES[:53]}…",
                "args[2] added: y",
            ],
            id="texts of many lines",
        ),
    ],
)
def test_long_lists_are_compared_in_linear_time(
    before: list[Any], after: list[Any], lines: list[str]
) -> None:
    began = time.process_time()
    assert explain({"args": before}, {"args": after}) == lines
    assert time.process_time() - began < 2.0, "it took up to 35 s"


@pytest.mark.parametrize(
    ("used", "is_imported"),
    [
        pytest.param("c.canonical({})", False, id="no words"),
        pytest.param("c.explain({'a': {'b': 1}}, {'a': {'b': 2}})", False, id="fields"),
        pytest.param("c.explain({'args': ['x']}, {'args': ['y']})", True, id="lists"),
    ],
)
def test_deepdiff_is_imported_only_to_compare_lists(used: str, is_imported: bool) -> None:
    load = f"import sys, lws.kube.comparison as c; {used}"
    code = f"{load}; sys.exit('deepdiff' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=False)
    assert done.returncode == int(is_imported)

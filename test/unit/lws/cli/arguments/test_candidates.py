"""lws.cli.arguments.candidates: names and numbers for the shell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.shell_completion import ShellComplete

from lws.cli.arguments import candidates
from lws.cli.arguments.candidates import (
    complete_contexts,
    complete_namespaces,
    complete_revisions,
    complete_sets,
)
from lws.cli.arguments.set_name import TYPES, NamedSet
from lws.cli.main import commands
from lws.cli.session import Session, Target
from lws_api.leaderworkerset.v1 import KIND

SETS = [{"metadata": {"name": name}} for name in ("demo", "demo-two", "other")]
NAMESPACES = [{"metadata": {"name": name}} for name in ("default", "team")]
REVISIONS = [
    {"revision": 1, "metadata": {"name": "demo-a-1", "ownerReferences": [{"kind": KIND}]}},
    {"revision": 12, "metadata": {"name": "demo-b-12", "ownerReferences": [{"kind": KIND}]}},
    {"revision": 1, "metadata": {"name": "demo-5", "ownerReferences": [{"kind": "StatefulSet"}]}},
]


class FakeCluster:
    async def listed(self, kind: str, namespace: str, selector: str = "") -> list[dict[str, Any]]:
        if kind == "Namespace":
            assert namespace == ""
            return NAMESPACES
        assert namespace == "team"
        assert selector in ("", "leaderworkerset.sigs.k8s.io/name=demo")
        return SETS if kind == KIND else REVISIONS


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    async def connected(target: Target, action: Any) -> Any:
        assert target == Target(namespace="team")
        return await action(Session(FakeCluster(), "team"))  # type: ignore[arg-type]

    monkeypatch.setattr(candidates, "connected", connected)


def context(**params: Any) -> click.Context:
    found = click.Context(click.Command("history"))
    found.params = {"namespace": "team", **params}
    return found


def values(items: list[Any]) -> list[str]:
    return [item.value for item in items]


def test_sets(cluster: None) -> None:
    assert values(complete_sets(context(), click.Argument(["name"]), "de")) == ["demo", "demo-two"]
    assert values(complete_sets(context(), click.Argument(["name"]), "")) == ["demo", "demo-two", "other"]


def test_sets_after_their_type(cluster: None) -> None:
    items = complete_sets(context(), click.Argument(["name"]), "lws/demo")
    assert values(items) == ["lws/demo", "lws/demo-two"]


def test_disaggregated_sets_and_their_revisions(monkeypatch: pytest.MonkeyPatch) -> None:
    class Disaggregated:
        async def listed(self, kind: str, namespace: str, selector: str = "") -> list[dict[str, Any]]:
            if kind == "DisaggregatedSet":
                return [{"metadata": {"name": "llm"}}]
            assert (kind, selector) == ("ControllerRevision", "disaggregatedset.x-k8s.io/name=llm")
            owners = [{"kind": "DisaggregatedSet"}]
            return [{"revision": 3, "metadata": {"name": "llm-0123abcd-3", "ownerReferences": owners}}]

    async def connected(target: Target, action: Any) -> Any:
        return await action(Session(Disaggregated(), "team"))  # type: ignore[arg-type]

    monkeypatch.setattr(candidates, "connected", connected)
    assert values(complete_sets(context(), click.Argument(["name"]), "dset/")) == ["dset/llm"]
    for name in ("dset/llm", NamedSet("llm", TYPES[1])):
        assert values(complete_revisions(context(name=name), click.Option(["--revision"]), "")) == ["3"]


def test_namespaces(cluster: None) -> None:
    option = click.Option(["--namespace"])
    assert values(complete_namespaces(context(), option, "")) == ["default", "team"]
    assert values(complete_namespaces(context(), option, "t")) == ["team"]


def test_contexts_of_the_kubeconfig(tmp_path: Path) -> None:
    config, broken = tmp_path / "config", tmp_path / "broken"
    config.write_text(yaml.safe_dump({"contexts": [{"name": name} for name in ("work", "home")]}))
    broken.write_text("contexts: [1]")
    option = click.Option(["--context"])
    assert values(complete_contexts(context(kubeconfig=str(config)), option, "")) == ["work", "home"]
    assert values(complete_contexts(context(kubeconfig=str(config)), option, "h")) == ["home"]
    assert complete_contexts(context(kubeconfig=str(broken)), option, "") == []
    assert complete_contexts(context(kubeconfig=str(tmp_path / "none")), option, "") == []


def test_revisions_of_the_set_that_is_named(cluster: None) -> None:
    option = click.Option(["--revision"])
    items = complete_revisions(context(name="demo"), option, "1")
    assert [(item.value, item.help) for item in items] == [("1", "demo-a-1"), ("12", "demo-b-12")]
    assert complete_revisions(context(), option, "") == []


@pytest.mark.parametrize(
    "typed",
    [
        ["history", "demo", "-n", "team", "--revision"],
        ["history", "-n", "team", "demo", "--revision"],
        ["diff", "demo", "-n", "team", "--from", "1", "--to"],
        ["undo", "demo", "-n", "team", "--to-revision"],
        ["undo", "lws/demo", "-n", "team", "--to-revision"],
    ],
    ids=" ".join,
)
def test_numbers_are_found_where_they_are_asked_for(cluster: None, typed: list[str]) -> None:
    complete = ShellComplete(commands, {}, "lws", "_LWS_COMPLETE")
    assert values(complete.get_completions(typed, "")) == ["1", "12"]
    assert values(complete.get_completions([*typed[:-1]], f"{typed[-1]}=12")) == ["12"]


def test_a_silent_cluster_completes_nothing(tmp_path: Path) -> None:
    config = tmp_path / "config"
    cluster = {"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}
    contexts = [{"name": "c", "context": {"cluster": "c", "user": "u"}}]
    config.write_text(yaml.safe_dump({"current-context": "c", "clusters": [cluster], "contexts": contexts}))
    assert complete_sets(context(kubeconfig=str(config)), click.Argument(["name"]), "") == []
    assert complete_sets(context(kubeconfig=str(tmp_path / "none")), click.Argument(["name"]), "") == []

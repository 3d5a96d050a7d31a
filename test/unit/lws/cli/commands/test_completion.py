"""lws.cli.commands.completion: names and numbers for the shell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.shell_completion import ShellComplete

from lws.cli.commands import completion
from lws.cli.commands.completion import complete_revisions, complete_sets
from lws.cli.main import commands
from lws.cli.session import Session, Target
from lws_api.leaderworkerset.v1 import KIND

SETS = [{"metadata": {"name": name}} for name in ("demo", "demo-two", "other")]
REVISIONS = [
    {"revision": 1, "metadata": {"name": "demo-a-1", "ownerReferences": [{"kind": KIND}]}},
    {"revision": 12, "metadata": {"name": "demo-b-12", "ownerReferences": [{"kind": KIND}]}},
    {"revision": 1, "metadata": {"name": "demo-5", "ownerReferences": [{"kind": "StatefulSet"}]}},
]


class FakeCluster:
    async def listed(self, kind: str, namespace: str, selector: str = "") -> list[dict[str, Any]]:
        assert namespace == "team"
        assert selector in ("", "leaderworkerset.sigs.k8s.io/name=demo")
        return SETS if kind == KIND else REVISIONS


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    async def connected(target: Target, action: Any) -> Any:
        assert target == Target(namespace="team")
        return await action(Session(FakeCluster(), "team"))  # type: ignore[arg-type]

    monkeypatch.setattr(completion, "connected", connected)


def context(**params: Any) -> click.Context:
    found = click.Context(click.Command("history"))
    found.params = {"namespace": "team", **params}
    return found


def values(items: list[Any]) -> list[str]:
    return [item.value for item in items]


def test_sets(cluster: None) -> None:
    assert values(complete_sets(context(), click.Argument(["name"]), "de")) == ["demo", "demo-two"]
    assert values(complete_sets(context(), click.Argument(["name"]), "")) == ["demo", "demo-two", "other"]


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

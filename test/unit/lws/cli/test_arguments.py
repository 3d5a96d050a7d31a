"""lws.cli.arguments: completion of names and numbers in the shell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from lws.cli import arguments
from lws.cli.arguments import (
    SetName,
    cluster_options,
    complete_contexts,
    complete_namespaces,
    complete_revisions,
    complete_sets,
    split_set_name,
)
from lws.cli.main import commands
from lws.cli.session import ClusterOptions, Session
from lws.cli.sets import KINDS, NamedSet
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
    async def connected(target: ClusterOptions, action: Any) -> Any:
        assert target == ClusterOptions(namespace="team")
        return await action(Session(FakeCluster(), "team"))  # type: ignore[arg-type]

    monkeypatch.setattr(arguments, "connected", connected)


def context(**params: Any) -> click.Context:
    result = click.Context(click.Command("history"))
    result.params = {"namespace": "team", **params}
    return result


def values(items: list[Any]) -> list[str]:
    return [item.value for item in items]


def test_sets_are_completed(cluster: None) -> None:
    assert values(complete_sets(context(), click.Argument(["name"]), "de")) == ["demo", "demo-two"]
    assert values(complete_sets(context(), click.Argument(["name"]), "")) == ["demo", "demo-two", "other"]


def test_sets_are_completed_after_their_type(cluster: None) -> None:
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

    async def connected(target: ClusterOptions, action: Any) -> Any:
        return await action(Session(Disaggregated(), "team"))  # type: ignore[arg-type]

    monkeypatch.setattr(arguments, "connected", connected)
    assert values(complete_sets(context(), click.Argument(["name"]), "dset/")) == ["dset/llm"]
    for name in ("dset/llm", NamedSet("llm", KINDS[1])):
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


def test_revisions_of_the_given_set_are_completed(cluster: None) -> None:
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
def test_revision_numbers_are_completed_for_the_option(cluster: None, typed: list[str]) -> None:
    complete = ShellComplete(commands, {}, "lws", "_LWS_COMPLETE")
    assert values(complete.get_completions(typed, "")) == ["1", "12"]
    assert values(complete.get_completions([*typed[:-1]], f"{typed[-1]}=12")) == ["12"]


def test_an_unreachable_cluster_gives_no_completions(tmp_path: Path) -> None:
    config = tmp_path / "config"
    cluster = {"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}
    contexts = [{"name": "c", "context": {"cluster": "c", "user": "u"}}]
    config.write_text(yaml.safe_dump({"current-context": "c", "clusters": [cluster], "contexts": contexts}))
    assert complete_sets(context(kubeconfig=str(config)), click.Argument(["name"]), "") == []
    assert complete_sets(context(kubeconfig=str(tmp_path / "none")), click.Argument(["name"]), "") == []


@pytest.mark.parametrize(
    "word",
    [
        "demo",
        "lws/demo",
        "leaderworkerset/demo",
        "leaderworkersets/demo",
        "LeaderWorkerSet/demo",
        "leaderworkerset.leaderworkerset.x-k8s.io/demo",
        "leaderworkersets.v1.leaderworkerset.x-k8s.io/demo",
    ],
)
def test_a_name_with_or_without_its_type(word: str) -> None:
    assert SetName().convert(word, None, None) == "demo"


@pytest.mark.parametrize(
    ("word", "problem"),
    [
        ("pod/demo", "'pod/demo' is no LeaderWorkerSet or DisaggregatedSet: use NAME, lws/NAME or dis"),
        ("/demo", "'/demo' is no LeaderWorkerSet or"),
        ("lws/", "'lws/' does not have a single type and name"),
        ("lws/demo/0", "'lws/demo/0' does not have a single type and name"),
        ("", "'' does not have a single type and name"),
    ],
)
def test_invalid_names_are_rejected(word: str, problem: str) -> None:
    with pytest.raises(click.BadParameter) as error:
        SetName().convert(word, None, None)
    assert error.value.message.startswith(problem)


def test_the_type_and_the_name() -> None:
    assert split_set_name("lws/de") == ("lws/", "de")
    assert split_set_name("de") == ("", "de")


@pytest.mark.parametrize("kind", ["dset", "DisaggregatedSet", "disaggregatedsets.disaggregatedset.x-k8s.io"])
def test_disaggregated_sets(kind: str) -> None:
    name = SetName().convert(f"{kind}/llm", None, None)
    assert (name, name.kind.resource.kind) == ("llm", "DisaggregatedSet")
    plain = SetName().convert("llm", None, None)
    assert (plain, plain.kind.resource.kind) == ("llm", "LeaderWorkerSet")
    assert SetName().convert(name, None, None) is name


def test_options_select_the_cluster() -> None:
    seen: list[tuple[str, ClusterOptions]] = []

    @click.command()
    @click.argument("name")
    @cluster_options
    def command(name: str, target: ClusterOptions) -> None:
        seen.append((name, target))

    runner = CliRunner()
    runner.invoke(command, ["demo"], standalone_mode=False)
    arguments = ["-n", "team", "demo", "--context", "c", "--kubeconfig", "k"]
    runner.invoke(command, arguments, standalone_mode=False)
    assert seen == [("demo", ClusterOptions()), ("demo", ClusterOptions("team", "c", "k"))]


def test_help_text_of_cluster_options() -> None:
    @click.command()
    @cluster_options
    def command(target: ClusterOptions) -> None: ...

    text = " ".join(CliRunner().invoke(command, ["--help"]).output.split())
    assert "-n, --namespace NAME Namespace (default: from context)." in text
    assert "--context NAME Context of the kubeconfig (default: the current context)." in text
    assert (
        "--kubeconfig FILE Path to the kubeconfig file (default: $KUBECONFIG, then ~/.kube/config)." in text
    )

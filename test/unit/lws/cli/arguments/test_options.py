"""lws.cli.arguments.options: what commands share."""

from __future__ import annotations

import click
from click.testing import CliRunner

from lws.cli.arguments.options import cluster_options
from lws.cli.session import Target


def test_the_options_say_which() -> None:
    seen: list[tuple[str, Target]] = []

    @click.command()
    @click.argument("name")
    @cluster_options
    def command(name: str, target: Target) -> None:
        seen.append((name, target))

    runner = CliRunner()
    runner.invoke(command, ["demo"], standalone_mode=False)
    arguments = ["-n", "team", "demo", "--context", "c", "--kubeconfig", "k"]
    runner.invoke(command, arguments, standalone_mode=False)
    assert seen == [("demo", Target()), ("demo", Target("team", "c", "k"))]
    assert [target.is_explicit for _, target in seen] == [False, True]


def test_how_they_are_explained() -> None:
    @click.command()
    @cluster_options
    def command(target: Target) -> None: ...

    text = " ".join(CliRunner().invoke(command, ["--help"]).output.split())
    assert "-n, --namespace NAME Namespace (default: from context)." in text
    assert "--context NAME Context of the kubeconfig (default: the current context)." in text
    assert (
        "--kubeconfig FILE Path to the kubeconfig file (default: $KUBECONFIG, then ~/.kube/config)." in text
    )

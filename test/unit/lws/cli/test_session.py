"""lws.cli.session: which cluster is meant, and how its refusals read."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from lws.cli.refusal import Refusal
from lws.cli.session import Session, Target, cluster_options, run, worded
from lws.cluster.client.errors import ClusterError, Forbidden, Invalid, Unreachable


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (Unreachable("GET /x: refused"), "no answer from the cluster: GET /x: refused"),
        (ClusterError("kubeconfig a is not a file"), "kubeconfig a is not a file"),
        (
            Forbidden(403, "Forbidden", 'pods is forbidden: User "a" cannot list resource "pods"'),
            'pods is forbidden: User "a" cannot list resource "pods". Nothing was changed: ask whoever '
            "manages the cluster for the role view (to look) or edit (to change) in this namespace",
        ),
        (
            Forbidden(403, "Forbidden", "admission webhook denied the request: wrong"),
            "admission webhook denied the request: wrong",
        ),
        (
            Invalid(422, "Invalid", ' "" is invalid: patch: Invalid value: "{\\"a\\":{}}": unknown "x"'),
            'unknown "x"',
        ),
    ],
)
def test_words(error: ClusterError, said: str) -> None:
    assert worded(error).message == said


def test_how_a_refusal_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    refusal = Refusal("it cannot be")
    refusal.show()
    assert capsys.readouterr() == ("", "error: it cannot be\n")
    assert refusal.exit_code == 1


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


def test_no_cluster_at_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)

    async def nothing(session: Session) -> None:
        raise AssertionError("there is no cluster")

    with pytest.raises(Refusal, match=r"^no cluster to talk to: give --kubeconfig"):
        run(Target(), nothing)

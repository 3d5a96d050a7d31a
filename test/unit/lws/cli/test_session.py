"""lws.cli.session: which cluster is used, and how its rejections are reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from lws.cli.session import ClusterOptions, Refusal, Session, run, worded
from lws.runtime.errors import ApiError, ClusterError, Forbidden, Invalid, Unreachable


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (Unreachable("GET /x: refused"), "Unable to connect to the server: GET /x: refused"),
        (ClusterError("kubeconfig a is not a file"), "error: kubeconfig a is not a file"),
        (
            Forbidden(403, "Forbidden", 'pods is forbidden: User "a" cannot list resource "pods"'),
            'Error from server (Forbidden): pods is forbidden: User "a" cannot list resource "pods". '
            "Nothing was changed: ask an administrator of the cluster for the role view (to look) or "
            "edit (to change) in this namespace",
        ),
        (
            Forbidden(403, "Forbidden", "admission webhook denied the request: wrong"),
            "Error from server (Forbidden): admission webhook denied the request: wrong",
        ),
        (
            Invalid(422, "Invalid", ' "" is invalid: patch: Invalid value: "{\\"a\\":{}}": unknown "x"'),
            'Error from server (Invalid): unknown "x"',
        ),
        (ApiError(500, "", "no luck"), "Error from server: no luck"),
    ],
)
def test_messages_of_errors(error: ClusterError, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    worded(error).show()
    assert capsys.readouterr() == ("", f"{message}\n")


def test_a_refusal_is_printed_as_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    refusal = Refusal("it cannot be")
    refusal.show()
    assert capsys.readouterr() == ("", "error: it cannot be\n")
    assert refusal.exit_code == 1


def test_no_cluster_is_configured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)

    async def nothing(session: Session) -> None:
        raise AssertionError("there is no cluster")

    with pytest.raises(Refusal, match=r"^no cluster configured: give --kubeconfig"):
        run(ClusterOptions(), nothing)

"""A TLS context is created again when its files change, not for every request."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from kubernetes.aio.client.configuration import Configuration

from lws.runtime.client import transport
from lws.runtime.client.transport import Trust


class FakeClient:
    """A stand-in for the kubernetes client's own function, which counts its calls."""

    def __init__(self) -> None:
        self.count = 0
        self.error: Exception | None = None

    def __call__(self, configuration: Configuration) -> FakeClient:
        if self.error is not None:
            raise self.error
        self.count += 1
        return self

    @property
    def ssl_context(self) -> str:
        return f"context {self.count}"


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeClient]:
    client = FakeClient()
    monkeypatch.setattr(transport, "RESTClientObject", client)
    yield client


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def replaced(path: Path, text: str) -> None:
    """Replace a file as Kubernetes volumes do."""
    fresh = path.with_suffix(".new")
    fresh.write_text(text)
    os.replace(fresh, path)


def test_files_are_checked_once_a_second(client: FakeClient, tmp_path: Path) -> None:
    path, clock = tmp_path / "ca.crt", Clock()
    path.write_text("one")
    trusted = Trust(Configuration(ssl_ca_cert=str(path)), clock)
    replaced(path, "two")
    assert trusted.context == "context 1", "looked at a moment ago"
    clock.now = 1.0
    assert [str(trusted.context) for _ in range(3)] == ["context 2"] * 3
    clock.now = 2.0
    assert trusted.context == "context 2", "nothing has changed"


def test_a_client_certificate_of_a_plugin_is_used_at_once(client: FakeClient, tmp_path: Path) -> None:
    configuration = Configuration()
    trusted = Trust(configuration, Clock())
    configuration.cert_file = configuration.key_file = str(tmp_path / "pair")
    assert trusted.context == "context 2"


def test_unreadable_files_keep_the_former_context(
    client: FakeClient, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, clock = tmp_path / "ca.crt", Clock()
    path.write_text("one")
    trusted = Trust(Configuration(ssl_ca_cert=str(path)), clock)
    client.error = OSError("no start line")
    for clock.now in (1.0, 2.0):
        replaced(path, f"half written at {clock.now}")
        assert trusted.context == "context 1"
    assert "certificates for the API server cannot be used: no start line" in caplog.text
    client.error = None
    replaced(path, "whole")
    clock.now = 3.0
    assert trusted.context == "context 2"

"""A certificate directory as the kubelet maintains it.

Its files are links into a directory that the kubelet replaces as a whole.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lws import timing
from lws.runtime.certificates.directory import CertificateDirectory
from lws.runtime.certificates.serving_certificate import Certificates, KeyPair, renewed

pytestmark = pytest.mark.usefixtures("shared_keys")

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def certificate(created: datetime = NOW) -> KeyPair:
    result = renewed(Certificates(), ("webhook.test",), created)
    assert result is not None
    return result[0].server


class Volume:
    """The volume of a Secret, and a server that uses its files."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.served: list[KeyPair] = []
        self.refusal = ""
        self.arrived = asyncio.Event()
        self.reads: list[bool] = []
        self.now = NOW
        self.directory = CertificateDirectory(root, self.install, self.reads.append, lambda: self.now)

    def install(self, certificate: bytes, key: bytes) -> None:
        if self.refusal:
            raise ValueError(self.refusal)
        self.served.append(KeyPair(certificate, key))
        self.arrived.set()

    def hold(self, pair: KeyPair, version: str) -> None:
        content = self.root / version
        content.mkdir()
        (content / "tls.crt").write_bytes(pair.certificate)
        (content / "tls.key").write_bytes(pair.key)
        for name in ("tls.crt", "tls.key"):
            link = self.root / f"new-{name}"
            link.symlink_to(content / name)
            link.replace(self.root / name)


@pytest.fixture
def volume(tmp_path: Path) -> Volume:
    return Volume(tmp_path)


def test_certificate_is_served(volume: Volume) -> None:
    pair = certificate()
    volume.hold(pair, "1")
    assert not volume.directory.is_ready
    volume.directory.check()
    assert volume.served == [pair]
    assert volume.directory.is_ready
    assert volume.directory.expires == NOW + timedelta(days=365)


def test_ready_while_the_certificate_is_valid(volume: Volume) -> None:
    volume.hold(certificate(NOW + timedelta(days=1)), "1")
    volume.directory.check()
    assert len(volume.served) == 1 and not volume.directory.is_ready
    volume.now = NOW + timedelta(days=1)
    assert volume.directory.is_ready
    volume.now = NOW + timedelta(days=400)
    assert not volume.directory.is_ready


def test_unchanged_certificate_is_served_once(volume: Volume) -> None:
    volume.hold(certificate(), "1")
    volume.directory.check()
    volume.directory.check()
    assert len(volume.served) == 1 and volume.reads == [True]


def test_changed_certificate_is_served_too(volume: Volume) -> None:
    first, second = certificate(), certificate(NOW + timedelta(days=1))
    volume.hold(first, "1")
    volume.directory.check()
    volume.hold(second, "2")
    volume.directory.check()
    assert volume.served == [first, second]
    assert volume.directory.expires == NOW + timedelta(days=366)


def test_missing_files_are_reported_once(volume: Volume, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        volume.directory.check()
        volume.directory.check()
    assert len(caplog.records) == 1
    assert "tls.crt" in caplog.records[0].getMessage()
    assert not volume.directory.is_ready


def test_a_pair_that_the_server_rejects_is_retried(volume: Volume) -> None:
    first, second = certificate(), certificate()
    volume.hold(first, "1")
    volume.directory.check()
    volume.hold(second, "2")
    volume.refusal = "the two do not belong together"
    volume.directory.check()
    assert volume.served == [first]
    volume.refusal = ""
    volume.directory.check()
    assert volume.served == [first, second] and volume.reads == [True, False, True]


async def test_run_polls(volume: Volume, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "CERTIFICATE_FILES_SECONDS", 0.001)
    pair = certificate()
    running = asyncio.create_task(volume.directory.run())
    await asyncio.sleep(0)
    assert volume.served == []
    volume.hold(pair, "1")
    await asyncio.wait_for(volume.arrived.wait(), 60)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert volume.served == [pair]

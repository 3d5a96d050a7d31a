"""Which versions and ciphers of TLS do the ports of the manager speak? Scanned: each by itself is tried."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lws.cluster.certificates.serving_certificate import Certificates, renewed
from test.harness.product import Product

OLD = ("TLSv1", "TLSv1_1")
NEW = ("TLSv1_2", "TLSv1_3")
# Keys of a session stay secret when that of the certificate is lost; no cipher that is known to be weak.
FORWARD_SECRET = ("ECDHE-", "DHE-")
WEAK = ("NULL", "RC4", "DES", "MD5", "EXP", "ADH", "AECDH", "PSK", "SRP", "CAMELLIA", "SEED", "ARIA", "IDEA")


def speaks(port: int, version: str, ciphers: str = "ALL:COMPLEMENTOFALL") -> str:
    """The cipher that a client gets who can do this and no more; empty where there is none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    # Without it OpenSSL itself would not offer what is old.
    context.set_ciphers(f"{ciphers}:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
    try:
        with (
            socket.create_connection(("127.0.0.1", port), 30) as sock,
            context.wrap_socket(sock) as connection,
        ):
            found = connection.cipher()
            return found[0] if found else ""
    except (ssl.SSLError, ConnectionError):
        return ""


def offered() -> list[str]:
    """Every cipher of TLS 1.2 and below that this machine's OpenSSL can offer."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_ciphers("ALL:COMPLEMENTOFALL:@SECLEVEL=0")
    return [each["name"] for each in context.get_ciphers() if each["protocol"] != "TLSv1.3"]


def ports(product: Product) -> dict[str, int]:
    return {"webhooks": product.manager.webhook_port, "metrics": product.manager.metrics_port}


@pytest.mark.parametrize("which", ["webhooks", "metrics"])
def test_nothing_older_than_tls_1_2_is_spoken(product: Product, which: str) -> None:
    port = ports(product)[which]
    with pytest.warns(DeprecationWarning):
        old = {version: speaks(port, version) for version in OLD}
    assert old == dict.fromkeys(OLD, "")
    assert all(speaks(port, version) for version in NEW)


@pytest.mark.parametrize("which", ["webhooks", "metrics"])
def test_every_cipher_that_is_spoken_keeps_the_past_secret(product: Product, which: str) -> None:
    port = ports(product)[which]
    tried = offered()
    accepted = [name for name in tried if speaks(port, "TLSv1_2", name)]
    print(which, len(tried), accepted)
    assert accepted
    assert any("NULL" in each for each in tried) and "AES128-SHA" in tried, "weak ones were tried"
    assert [each for each in accepted if not each.startswith(FORWARD_SECRET)] == []
    assert [each for each in accepted if any(word in each for word in WEAK)] == []


def test_the_scan_would_find_what_is_old(tmp_path: Path) -> None:
    with an_old_server(tmp_path) as port, pytest.warns(DeprecationWarning):
        assert speaks(port, "TLSv1")
        assert speaks(port, "TLSv1_2", "AES128-SHA") == "AES128-SHA"


@contextmanager
def an_old_server(directory: Path) -> Iterator[int]:
    """One that takes whatever comes, twice."""
    made = renewed(Certificates(), ("localhost",), datetime.now(UTC))
    assert made is not None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers("ALL:COMPLEMENTOFALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning):
        context.minimum_version = ssl.TLSVersion.TLSv1
    (directory / "crt").write_bytes(made[0].server.certificate)
    (directory / "key").write_bytes(made[0].server.key)
    context.load_cert_chain(directory / "crt", directory / "key")

    def serve(listening: socket.socket) -> None:
        for _ in range(2):
            sock, _ = listening.accept()
            with sock, context.wrap_socket(sock, server_side=True) as connection:
                connection.recv(1)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, args=(listening,))
        thread.start()
        yield listening.getsockname()[1]
        thread.join(60)

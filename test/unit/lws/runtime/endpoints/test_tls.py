"""TLS handshakes in memory: what clients see before and after the certificate is replaced."""

from __future__ import annotations

import asyncio
import itertools
import ssl
from dataclasses import dataclass

import pytest

from lws.config import TlsSettings
from lws.runtime.certificates.serving_certificate import Certificates
from lws.runtime.endpoints.server_tls import ServerTls


@dataclass
class Client:
    """A client that trusts one CA and by default accepts every version that OpenSSL supports."""

    authority: bytes
    protocols: tuple[str, ...] = ()
    newest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3
    ciphers: str = ""

    def call(self, tls: ServerTls) -> ssl.SSLObject:
        """Return the client's side of the connection, or raise the error of the handshake."""
        context = ssl.create_default_context(cadata=self.authority.decode())
        context.maximum_version = self.newest
        if self.protocols:
            context.set_alpn_protocols(list(self.protocols))
        if self.ciphers:
            context.set_ciphers(self.ciphers)
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        caller = context.wrap_bio(to_client, to_server, server_hostname="webhook.test")
        callee = tls.context.wrap_bio(to_server, to_client, server_side=True)
        waiting = {caller, callee}
        for side in itertools.islice(itertools.cycle([caller, callee]), 8):
            try:
                side.do_handshake()
                waiting.discard(side)
            except ssl.SSLWantReadError:
                continue
        assert not waiting
        return caller


def serving(certificates: Certificates, policy: TlsSettings | None = None) -> ServerTls:
    tls = ServerTls(policy or TlsSettings())
    tls.install(certificates.server.certificate, certificates.server.key)
    return tls


async def test_the_port_waits_for_the_first_certificate(certificates: Certificates) -> None:
    tls = ServerTls(TlsSettings())
    waiting = asyncio.create_task(tls.loaded.wait())
    await asyncio.sleep(0)
    assert not waiting.done()
    tls.install(certificates.server.certificate, certificates.server.key)
    await waiting


def test_clients_see_the_certificate(certificates: Certificates) -> None:
    connection = Client(certificates.authority.certificate).call(serving(certificates))
    assert connection.version() == "TLSv1.3"
    assert connection.getpeercert(binary_form=True) == ssl.PEM_cert_to_DER_cert(
        certificates.server.certificate.decode()
    )


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [(("h2", "http/1.1"), "http/1.1"), (("h2",), None), ((), None)],
    ids=["both", "only HTTP/2", "nothing"],
)
def test_only_http_1_is_offered(
    certificates: Certificates, offered: tuple[str, ...], chosen: str | None
) -> None:
    connection = Client(certificates.authority.certificate, protocols=offered).call(serving(certificates))
    assert connection.selected_alpn_protocol() == chosen


def test_tls_1_2_is_enough_by_default(certificates: Certificates) -> None:
    client = Client(certificates.authority.certificate, newest=ssl.TLSVersion.TLSv1_2)
    assert client.call(serving(certificates)).version() == "TLSv1.2"
    assert ServerTls(TlsSettings()).context.minimum_version == ssl.TLSVersion.TLSv1_2


def test_tls_1_3_can_be_demanded(certificates: Certificates) -> None:
    client = Client(certificates.authority.certificate, newest=ssl.TLSVersion.TLSv1_2)
    with pytest.raises(ssl.SSLError):
        client.call(serving(certificates, TlsSettings(minimum_version=ssl.TLSVersion.TLSv1_3)))


def test_ciphers_of_tls_1_2_can_be_chosen(certificates: Certificates) -> None:
    allowed, refused = "ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-RSA-AES128-GCM-SHA256"
    tls = serving(certificates, TlsSettings(ciphers=(allowed,)))
    client = Client(certificates.authority.certificate, newest=ssl.TLSVersion.TLSv1_2)
    cipher = client.call(tls).cipher()
    assert cipher is not None
    assert cipher[0] == allowed
    client.ciphers = refused
    with pytest.raises(ssl.SSLError):
        client.call(tls)


def test_unknown_ciphers_are_an_error() -> None:
    with pytest.raises(ssl.SSLError):
        ServerTls(TlsSettings(ciphers=("NO-SUCH-CIPHER",)))


def test_new_connections_get_a_new_certificate(
    certificates: Certificates, other_certificates: Certificates
) -> None:
    tls = serving(certificates)
    before = Client(certificates.authority.certificate).call(tls)
    tls.install(other_certificates.server.certificate, other_certificates.server.key)
    after = Client(other_certificates.authority.certificate).call(tls)
    assert after.getpeercert(binary_form=True) != before.getpeercert(binary_form=True)
    with pytest.raises(ssl.SSLCertVerificationError):
        Client(certificates.authority.certificate).call(tls)


ENCRYPTED = b"""-----BEGIN RSA PRIVATE KEY-----
Proc-Type: 4,ENCRYPTED
DEK-Info: AES-128-CBC,00000000000000000000000000000000

AAAA
-----END RSA PRIVATE KEY-----
"""


@pytest.mark.parametrize("bad", ["other key", "no key", "no certificate", "encrypted key"])
def test_an_invalid_pair_is_rejected_and_the_previous_one_is_kept(
    certificates: Certificates, other_certificates: Certificates, bad: str
) -> None:
    certificate, key = {
        "other key": (other_certificates.server.certificate, certificates.server.key),
        "no key": (other_certificates.server.certificate, b""),
        "no certificate": (b"", other_certificates.server.key),
        "encrypted key": (other_certificates.server.certificate, ENCRYPTED),
    }[bad]
    tls = serving(certificates)
    with pytest.raises(ValueError, match="certificate and key cannot be used"):
        tls.install(certificate, key)
    Client(certificates.authority.certificate).call(tls)


async def test_an_invalid_first_pair_is_not_served(certificates: Certificates) -> None:
    tls = ServerTls(TlsSettings())
    with pytest.raises(ValueError, match="belong together"):
        tls.install(certificates.server.certificate, b"")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(tls.loaded.wait(), 0)

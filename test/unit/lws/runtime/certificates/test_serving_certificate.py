"""Validation and renewal of certificates, compared with the results of OpenSSL and the API server's rules."""

from __future__ import annotations

import itertools
import ssl
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, ExtensionOID, NameOID

from lws.runtime.certificates.serving_certificate import (
    Certificates,
    KeyPair,
    authority_flaw,
    expiry,
    renewed,
    server_flaw,
    split,
)

pytestmark = pytest.mark.usefixtures("shared_keys")

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
NAMES = ("lws-webhook-service.lws-system.svc", "10.0.0.7")


def days(count: float) -> timedelta:
    return timedelta(days=count)


@pytest.fixture
def first(shared_keys: None) -> Certificates:
    renewal = renewed(Certificates(), NAMES, NOW)
    assert renewal is not None
    return renewal[0]


@pytest.fixture
def other(first: Certificates) -> Certificates:
    renewal = renewed(Certificates(), NAMES, NOW)
    assert renewal is not None
    return renewal[0]


def parsed(pair: KeyPair) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pair.certificate)


def test_authority_has_the_fields_of_upstream(first: Certificates) -> None:
    certificate = parsed(first.authority)
    assert certificate.subject == certificate.issuer
    assert certificate.subject.rfc4514_string() == "CN=lws-ca,O=lws"
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["lws-ca"]
    assert certificate.not_valid_before_utc == NOW - timedelta(hours=1)
    assert certificate.not_valid_after_utc == NOW + days(3650)
    usage = certificate.extensions.get_extension_for_class(x509.KeyUsage).value
    assert (usage.digital_signature, usage.key_encipherment, usage.key_cert_sign) == (True, True, True)
    assert certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert certificate.serial_number > 0


def test_server_certificate_has_the_fields_of_upstream(first: Certificates) -> None:
    certificate = parsed(first.server)
    assert certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value == NAMES[0]
    assert certificate.issuer == parsed(first.authority).subject
    assert certificate.not_valid_before_utc == NOW - timedelta(hours=1)
    assert certificate.not_valid_after_utc == NOW + days(365) == expiry(first.server.certificate)
    usage = certificate.extensions.get_extension_for_class(x509.KeyUsage).value
    assert (usage.digital_signature, usage.key_encipherment, usage.key_cert_sign) == (True, True, False)
    purposes = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(purposes) == [ExtendedKeyUsageOID.SERVER_AUTH]
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == [NAMES[0]]
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == [NAMES[1]]


@pytest.mark.parametrize("part", ["authority", "server"])
def test_keys_are_rsa_2048_in_pkcs1(first: Certificates, part: str) -> None:
    pair: KeyPair = getattr(first, part)
    assert pair.key.startswith(b"-----BEGIN RSA PRIVATE KEY-----")
    key = serialization.load_pem_private_key(pair.key, None)
    assert isinstance(key, rsa.RSAPrivateKey)
    assert key.key_size == 2048


def test_a_strict_client_trusts_the_server(tmp_path: Path) -> None:
    renewal = renewed(Certificates(), ("webhook.test",), datetime.now(UTC))
    assert renewal is not None
    certificate, key = tmp_path / "crt", tmp_path / "key"
    certificate.write_bytes(renewal[0].server.certificate)
    key.write_bytes(renewal[0].server.key)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate, key)
    client = ssl.create_default_context(cadata=renewal[0].authority.certificate.decode())
    client.verify_flags |= ssl.VERIFY_X509_STRICT

    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    caller = client.wrap_bio(to_client, to_server, server_hostname="webhook.test")
    callee = server.wrap_bio(to_server, to_client, server_side=True)
    waiting = [caller, callee]
    for side in itertools.islice(itertools.cycle([caller, callee]), 8):
        try:
            side.do_handshake()
            waiting = [connection for connection in waiting if connection is not side]
        except ssl.SSLWantReadError:
            continue
    assert waiting == []
    assert caller.getpeercert()["subjectAltName"] == (("DNS", "webhook.test"),)  # type: ignore[index]


def test_valid_certificates_are_not_renewed(first: Certificates) -> None:
    assert renewed(first, NAMES, NOW) is None
    assert renewed(first, NAMES[:1], NOW) is None
    assert renewed(first, NAMES, NOW + days(365 - 91)) is None


def test_server_certificate_is_renewed_from_the_kept_authority(first: Certificates) -> None:
    renewal = renewed(first, NAMES, NOW + days(365 - 89))
    assert renewal is not None
    after, why = renewal
    assert after.authority == first.authority
    assert after.server != first.server
    assert not server_flaw(after.server, first.authority.certificate, NAMES, NOW + days(365 - 89))
    assert why == "new server certificate: the current one is valid only until 2027-03-01 12:00 UTC"


def test_certificates_that_are_not_valid_yet_are_replaced(first: Certificates) -> None:
    early = NOW - days(2)
    renewal = renewed(first, NAMES, early)
    assert renewal is not None
    after, why = renewal
    assert why == "new CA and server certificate: the CA is valid only from 2026-03-01 11:00 UTC on"
    assert after.retired == (), "clients do not accept the certificate yet"
    assert not server_flaw(after.server, after.authority.certificate, NAMES, early)
    assert renewed(after, NAMES, early) is None
    assert renewed(after, NAMES, NOW) is None, "the clock that is ahead finds nothing to do"


def test_a_serving_certificate_that_is_not_valid_yet_is_replaced(first: Certificates) -> None:
    ahead = renewed(replace(first, server=KeyPair()), NAMES, NOW + days(2))
    assert ahead is not None
    renewal = renewed(ahead[0], NAMES, NOW)
    assert renewal is not None
    assert renewal[0].authority == first.authority
    assert renewal[1] == "new server certificate: the current one is valid only from 2026-03-03 11:00 UTC on"


@pytest.mark.parametrize("key", ["rsa", "elliptic"])
def test_the_ca_of_the_stored_certificate_stays_trusted_for_a_day(key: str, first: Certificates) -> None:
    """cert-manager's SelfSigned issuer creates such a certificate, which has no CA and verifies itself."""
    former = self_signed(key, NAMES)
    renewal = renewed(Certificates(KeyPair(former.certificate), former), NAMES, NOW)
    assert renewal is not None
    after = renewal[0]
    assert after.trusted == (after.authority.certificate, former.certificate)
    assert renewed(after, NAMES, NOW + timedelta(hours=23)) is None
    later = renewed(after, NAMES, NOW + timedelta(hours=25))
    assert later is not None and later[0].retired == ()


def self_signed(key: str, names: tuple[str, ...]) -> KeyPair:
    private = (
        rsa.generate_private_key(65537, 2048) if key == "rsa" else ec.generate_private_key(ec.SECP256R1())
    )
    alternatives = [x509.DNSName(names[0])]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([]))
        .issuer_name(x509.Name([]))
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - days(1))
        .not_valid_after(NOW + days(90))
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=True)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(private, hashes.SHA256())
    )
    return KeyPair(
        certificate.public_bytes(serialization.Encoding.PEM),
        private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ),
    )


def test_a_certificate_without_a_required_name_is_replaced(first: Certificates) -> None:
    renewal = renewed(first, (*NAMES, "webhook.example"), NOW)
    assert renewal is not None
    assert renewal[0].authority == first.authority
    assert renewal[1] == "new server certificate: the current one is not for webhook.example"


def test_authority_is_replaced_90_days_before_its_end_and_stays_trusted(first: Certificates) -> None:
    late = NOW + days(3650 - 89)
    renewal = renewed(first, NAMES, late)
    assert renewal is not None
    after, why = renewal
    assert after.authority != first.authority
    assert after.trusted == (after.authority.certificate, first.authority.certificate)
    assert not server_flaw(after.server, after.authority.certificate, NAMES, late)
    assert "the CA is valid only until 2036-02-27 12:00 UTC" in why


@pytest.mark.parametrize(
    ("hours", "is_trusted"), [(1, True), (23.9, True), (24.1, False)], ids=["new", "within a day", "later"]
)
def test_replaced_authority_is_trusted_for_a_day(
    first: Certificates, other: Certificates, hours: float, is_trusted: bool
) -> None:
    rotated = replace(other, retired=(first.authority.certificate,))
    renewal = renewed(rotated, NAMES, NOW + timedelta(hours=hours))
    assert (renewal is None) is is_trusted
    if renewal is not None:
        assert renewal == (other, "earlier CAs are no longer trusted")


def test_cas_of_served_certificates_stay_trusted(first: Certificates) -> None:
    renewal = renewed(Certificates(), NAMES, NOW, in_use=(first.authority.certificate, b""))
    assert renewal is not None
    assert renewal[0].retired == (first.authority.certificate,)


@pytest.mark.parametrize(
    "retired",
    [b"", b"no certificate", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"],
    ids=["empty", "text", "broken PEM"],
)
def test_unusable_retired_cas_are_not_trusted(first: Certificates, retired: bytes) -> None:
    renewal = renewed(replace(first, authority=KeyPair(retired, b""), retired=(retired,)), NAMES, NOW)
    assert renewal is not None
    assert renewal[0].retired == ()


def test_a_ca_with_an_unreadable_extension_is_replaced(first: Certificates) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "foreign")])
    garbage = x509.UnrecognizedExtension(ExtensionOID.SUBJECT_ALTERNATIVE_NAME, b"\xff\xff")
    builder = x509.CertificateBuilder(name, name, key.public_key(), 5, NOW - days(1), NOW + days(1000))
    foreign = builder.add_extension(garbage, critical=False).sign(key, hashes.SHA256())
    authority = KeyPair(foreign.public_bytes(serialization.Encoding.PEM), first.authority.key)
    renewal = renewed(replace(first, authority=authority), NAMES, NOW)
    assert renewal is not None
    assert renewal[0].retired == () and authority_flaw(renewal[0].authority, NOW) == ""


@pytest.mark.parametrize("spelling", ["fd00::1", "FD00::1", "fd00:0:0:0:0:0:0:1", "fd00::1%eth0"])
def test_any_spelling_of_an_address_is_covered(first: Certificates, spelling: str) -> None:
    renewal = renewed(first, (spelling,), NOW)
    assert renewal is not None and renewed(renewal[0], (spelling,), NOW) is None


def test_server_certificates_are_not_trusted_as_authorities(first: Certificates) -> None:
    renewal = renewed(Certificates(KeyPair(first.server.certificate)), NAMES, NOW)
    assert renewal is not None
    assert renewal[0].retired == ()


def test_expired_authorities_are_not_trusted(first: Certificates) -> None:
    renewal = renewed(Certificates(retired=(first.authority.certificate,)), NAMES, NOW + days(3651))
    assert renewal is not None
    assert renewal[0].retired == ()


def test_server_certificate_does_not_outlive_its_authority(first: Certificates) -> None:
    renewal = renewed(replace(first, server=KeyPair()), NAMES, NOW + days(3650 - 91))
    assert renewal is not None
    assert renewal[0].authority == first.authority
    assert expiry(renewal[0].server.certificate) == NOW + days(3650)


def test_long_dns_names_are_left_out_of_the_common_name(first: Certificates) -> None:
    name = f"{'a' * 40}.{'b' * 40}.svc"
    renewal = renewed(first, (name,), NOW)
    assert renewal is not None
    certificate = parsed(renewal[0].server)
    assert certificate.subject.rfc4514_string() == "O=lws"
    assert not server_flaw(renewal[0].server, first.authority.certificate, (name,), NOW)


def test_authority_of_upstream_with_serial_number_0_is_kept() -> None:
    key = rsa.generate_private_key(65537, 2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "lws-ca")])
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(NOW)
        .not_valid_after(NOW + days(3650))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    )
    signed = builder.sign(key, hashes.SHA256())
    # The builder rejects 0. In DER, the serial number is the INTEGER after the version. The signature is
    # invalid then, but clients do not verify the signature of a root certificate.
    der = signed.public_bytes(serialization.Encoding.DER)
    version = bytes.fromhex("a003020102")
    altered = der.replace(version + bytes.fromhex("020101"), version + bytes.fromhex("020100"), 1)
    assert altered != der
    pem = ssl.DER_cert_to_PEM_cert(altered).encode()
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )

    renewal = renewed(Certificates(KeyPair(pem, secret)), NAMES, NOW)

    assert renewal is not None
    assert renewal[0].authority == KeyPair(pem, secret)
    assert not server_flaw(renewal[0].server, pem, NAMES, NOW)


def elliptic_key() -> bytes:
    return ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def short_key() -> bytes:
    return rsa.generate_private_key(65537, 1024).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def test_flaws_of_authorities(first: Certificates, other: Certificates) -> None:
    certificate = first.authority.certificate
    assert authority_flaw(first.authority, NOW) == ""
    assert authority_flaw(KeyPair(), NOW) == "missing"
    assert authority_flaw(KeyPair(certificate, other.authority.key), NOW) == "of another key"
    assert authority_flaw(KeyPair(certificate, b""), NOW).startswith("unreadable (")
    flaw = authority_flaw(KeyPair(certificate, elliptic_key()), NOW)
    assert flaw == "unreadable (the key is not an RSA key)"
    flaw = authority_flaw(KeyPair(certificate, short_key()), NOW)
    assert flaw == "unreadable (the key has 1024 bits, fewer than 2048)"
    assert authority_flaw(KeyPair(b"x", first.authority.key), NOW).startswith("unreadable (")
    assert authority_flaw(first.server, NOW) == "not allowed to sign certificates"
    early = NOW - timedelta(hours=2)
    assert authority_flaw(first.authority, early) == "valid only from 2026-03-01 11:00 UTC on"


def test_flaws_of_server_certificates(first: Certificates, other: Certificates) -> None:
    authority = first.authority.certificate

    def flaw(server: KeyPair, names: tuple[str, ...] = NAMES, when: datetime = NOW) -> str:
        return server_flaw(server, authority, names, when)

    assert flaw(first.server) == ""
    assert flaw(KeyPair()) == "missing"
    assert flaw(other.server) == "of another CA"
    assert flaw(replace(first.server, key=other.server.key)) == "of another key"
    assert flaw(replace(first.server, certificate=b"x")).startswith("unreadable (")
    assert flaw(first.server, ("b.example", "a.example", NAMES[0])) == "not for a.example, b.example"
    assert flaw(first.server, when=NOW + days(366)) == "valid only until 2027-03-01 12:00 UTC"


def test_bundles_are_split_into_certificates(first: Certificates, other: Certificates) -> None:
    one, two = first.authority.certificate, other.authority.certificate
    assert split(one + b"# a comment\n" + two) == (one, two)
    assert split(b"") == ()

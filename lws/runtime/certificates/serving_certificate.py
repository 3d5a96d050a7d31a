"""Judge a stored serving certificate, and create a new one if it must be replaced.

The result is None if the stored certificate is valid, otherwise the new content of the Secret and the reason.
There is no I/O, but keys are generated here. All fields are as in upstream's certificates, so that either
controller can take over from the other. Only serial numbers differ: RFC 5280 requires them to be positive and
unique.
"""

from __future__ import annotations

import ipaddress
import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.utils import CryptographyDeprecationWarning
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from lws import timing

_AUTHORITY_NAME, _ORGANIZATION = "lws-ca", "lws"
_KEY_BITS = 2048
# RFC 5280, ub-common-name.
_LONGEST_COMMON_NAME = 64
_BLOCK = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
UNREADABLE = (
    ValueError,
    TypeError,
    UnsupportedAlgorithm,
    x509.DuplicateExtension,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
)


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its key in PEM. Both are empty if there is none."""

    certificate: bytes = b""
    key: bytes = b""


@dataclass(frozen=True, slots=True)
class Certificates:
    """The CA and the serving certificate, as stored in the Secret.

    authority: the CA that signs serving certificates. retired: earlier CAs that clients still trust, because
    another replica may still serve a certificate that one of them signed; also a self-signed serving
    certificate, as cert-manager creates it.
    """

    authority: KeyPair = KeyPair()
    server: KeyPair = KeyPair()
    retired: tuple[bytes, ...] = ()

    @property
    def trusted(self) -> tuple[bytes, ...]:
        """The CAs that clients must trust, with the current one first."""
        return (self.authority.certificate, *self.retired)


def renewed(
    stored: Certificates, names: tuple[str, ...], now: datetime, in_use: tuple[bytes, ...] = ()
) -> tuple[Certificates, str] | None:
    """Return new certificates and the reason; None if all stored ones are valid for 90 more days.

    names: DNS names and IP addresses that the serving certificate must cover, at least one.
    in_use: CAs of certificates that this process serves. They stay trusted when a new CA replaces them.
    """
    # Both times are checked, because a clock that was ahead may have issued one that is not valid yet.
    later = now + timing.RENEW_BEFORE
    flaw = authority_flaw(stored.authority, now) or authority_flaw(stored.authority, later)
    if flaw:
        authority = _new_authority(now)
        retired = tuple(
            pem
            for pem in _still_valid((stored.authority.certificate, *stored.retired, *in_use), now)
            if _is_authority(read(pem)) or _has_issued(pem, stored.server.certificate)
        )
        server = _new_server(authority, names, now)
        return Certificates(authority, server, retired), f"new CA and server certificate: the CA is {flaw}"
    retired = _still_trusted(stored, now)
    updated = replace(stored, retired=retired)
    issuer = stored.authority.certificate
    flaw = server_flaw(stored.server, issuer, names, now) or server_flaw(stored.server, issuer, names, later)
    if flaw:
        server = _new_server(stored.authority, names, now)
        return replace(updated, server=server), f"new server certificate: the current one is {flaw}"
    if updated != stored:
        return updated, "earlier CAs are no longer trusted"
    return None


def authority_flaw(authority: KeyPair, when: datetime) -> str:
    """Return why this cannot be the CA at that time, as a phrase that follows “it is”; empty if it can."""
    if not authority.certificate:
        return "missing"
    try:
        certificate = read(authority.certificate)
        if not _is_authority(certificate):
            return "not allowed to sign certificates"
        if _read_key(authority.key).public_key() != certificate.public_key():
            return "of another key"
        return time_flaw(certificate, when)
    except UNREADABLE as error:
        return f"unreadable ({error})"


def server_flaw(server: KeyPair, authority: bytes, names: tuple[str, ...], when: datetime) -> str:
    """Return why this certificate cannot be served at that time, as `authority_flaw` does."""
    if not server.certificate:
        return "missing"
    try:
        certificate = read(server.certificate)
        if _read_key(server.key).public_key() != certificate.public_key():
            return "of another key"
        certificate.verify_directly_issued_by(read(authority))
        uncovered = {str(_general_name(name).value) for name in names} - names_in(certificate)
        if uncovered:
            return f"not for {', '.join(sorted(uncovered))}"
        return time_flaw(certificate, when)
    except InvalidSignature:
        return "of another CA"
    except UNREADABLE as error:
        return f"unreadable ({error})"


def split(bundle: bytes) -> tuple[bytes, ...]:
    """Return the certificates in a PEM bundle, in order, each as a PEM text of its own."""
    return tuple(block + b"\n" for block in _BLOCK.findall(bundle))


def expiry(certificate: bytes) -> datetime:
    """Return the time at which a certificate (PEM) expires. Raises ValueError if it is unreadable."""
    try:
        return read(certificate).not_valid_after_utc
    except UNREADABLE as error:
        raise ValueError(f"unreadable ({error})") from error


def _new_authority(now: datetime) -> KeyPair:
    key = rsa.generate_private_key(public_exponent=65537, key_size=_KEY_BITS)
    name = _distinguished_name(_AUTHORITY_NAME)
    builder = (
        _builder(key.public_key(), now)
        .subject_name(name)
        .issuer_name(name)
        .not_valid_after(now + timing.CA_LIFE)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(_AUTHORITY_NAME)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
    )
    return _pair(builder.sign(key, hashes.SHA256()), key)


def _new_server(authority: KeyPair, names: tuple[str, ...], now: datetime) -> KeyPair:
    issuer, signing_key = read(authority.certificate), _read_key(authority.key)
    key = rsa.generate_private_key(public_exponent=65537, key_size=_KEY_BITS)
    builder = (
        _builder(key.public_key(), now)
        .subject_name(_distinguished_name(names[0]))
        .issuer_name(issuer.subject)
        .not_valid_after(min(now + timing.CERTIFICATE_LIFE, issuer.not_valid_after_utc))
        .add_extension(x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(_issuer_identifier(issuer), critical=False)
    )
    return _pair(builder.sign(signing_key, hashes.SHA256()), key)


def _builder(key: rsa.RSAPublicKey, now: datetime) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timing.CERTIFICATE_BACKDATING)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _distinguished_name(common_name: str) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, _ORGANIZATION)]
    if len(common_name) <= _LONGEST_COMMON_NAME:
        attributes.append(x509.NameAttribute(NameOID.COMMON_NAME, common_name))
    return x509.Name(attributes)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_encipherment=True,
        key_cert_sign=signs_certificates,
        content_commitment=False,
        data_encipherment=False,
        key_agreement=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )


def _issuer_identifier(issuer: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    try:
        extension = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier)
    except x509.ExtensionNotFound:
        key = issuer.public_key()
        assert isinstance(key, rsa.RSAPublicKey)
        return x509.AuthorityKeyIdentifier.from_issuer_public_key(key)
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(extension.value)


def _pair(certificate: x509.Certificate, key: rsa.RSAPrivateKey) -> KeyPair:
    return KeyPair(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(
            serialization.Encoding.PEM,
            # PKCS#1, which upstream can read.
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        ),
    )


def read(certificate: bytes) -> x509.Certificate:
    """Return the first certificate in a PEM text. Raises one of UNREADABLE."""
    with warnings.catch_warnings():
        # Upstream gives its CA the serial number 0.
        warnings.simplefilter("ignore", CryptographyDeprecationWarning)
        return x509.load_pem_x509_certificate(certificate)


@lru_cache(maxsize=8)
def _read_key(key: bytes) -> rsa.RSAPrivateKey:
    # Cached: validating an RSA key takes 50 ms, and the same two keys are checked every minute.
    private = serialization.load_pem_private_key(key, password=None)
    if not isinstance(private, rsa.RSAPrivateKey):
        raise ValueError("the key is not an RSA key")
    if private.key_size < _KEY_BITS:
        raise ValueError(f"the key has {private.key_size} bits, fewer than {_KEY_BITS}")
    return private


def _is_authority(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (x509.ExtensionNotFound, *UNREADABLE):
        return False


def _has_issued(issuer: bytes, certificate: bytes) -> bool:
    try:
        read(certificate).verify_directly_issued_by(read(issuer))
    except (InvalidSignature, *UNREADABLE):
        return False
    return True


def time_flaw(certificate: x509.Certificate, when: datetime) -> str:
    """Return why the certificate is not valid at that time; empty if it is."""
    if certificate.not_valid_before_utc > when:
        return f"valid only from {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC on"
    if certificate.not_valid_after_utc < when:
        return f"valid only until {certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC"
    return ""


def _general_name(name: str) -> x509.GeneralName:
    try:
        # Certificates have no zones.
        return x509.IPAddress(ipaddress.ip_address(name.partition("%")[0]))
    except ValueError:
        return x509.DNSName(name)


def names_in(certificate: x509.Certificate) -> set[str]:
    """Return the DNS names and IP addresses that the certificate covers."""
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return set()
    return {str(name.value) for name in extension.value}


def _still_trusted(stored: Certificates, now: datetime) -> tuple[bytes, ...]:
    """Return the retired CAs that clients still must trust.

    There are none a day after the current CA was created, because every replica uses it by then.
    """
    current = stored.authority.certificate
    created = read(current).not_valid_before_utc + timing.CERTIFICATE_BACKDATING
    if now > created + timing.CA_OVERLAP:
        return ()
    return tuple(retired for retired in _still_valid(stored.retired, now) if retired != current)


def _still_valid(certificates: Iterable[bytes], now: datetime) -> tuple[bytes, ...]:
    """Return the certificates that are readable and valid now, without duplicates."""
    valid: dict[bytes, None] = {}
    for pem in certificates:
        try:
            if not time_flaw(read(pem), now):
                valid[pem] = None
        except UNREADABLE:
            continue
    return tuple(valid)

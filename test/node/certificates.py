"""Create certificates for tests, and read the certificate that a manager's webhooks present."""

from __future__ import annotations

import base64
import json
import socket
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from test.node.groups import Pod
from tools.deployment import NAMESPACE
from tools.realnode.cluster import RealCluster

SECRET = "lws-webhook-server-cert"
NAME = f"lws-webhook-service.{NAMESPACE}.svc"

_PORT = 9443
_SECONDS = 30.0


@dataclass(frozen=True)
class Pair:
    """A certificate and its key."""

    certificate: x509.Certificate
    key: rsa.RSAPrivateKey

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        format = serialization.PrivateFormat.TraditionalOpenSSL
        return self.key.private_bytes(serialization.Encoding.PEM, format, serialization.NoEncryption())


def authority(life: timedelta) -> Pair:
    """Return a new CA."""
    key = _key()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "lws-ca")])
    builder = _builder(key, name, name, life)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    return Pair(builder.sign(key, hashes.SHA256()), key)


def server(names: list[str], life: timedelta, signer: Pair | None = None) -> Pair:
    """Return a certificate for these names, self-signed without a signer."""
    key = _key()
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0][:64])])
    issuer = signer.certificate.subject if signer else subject
    builder = _builder(key, subject, issuer, life)
    alternatives = x509.SubjectAlternativeName([x509.DNSName(name) for name in names])
    builder = builder.add_extension(alternatives, critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    builder = builder.add_extension(usage, critical=False)
    return Pair(builder.sign(signer.key if signer else key, hashes.SHA256()), key)


def presented_by(pod: Pod) -> x509.Certificate:
    """Return the certificate that a manager's webhooks present now, without verification."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection((pod["status"]["podIP"], _PORT), _SECONDS) as plain,
        context.wrap_socket(plain, server_hostname=NAME) as connection,
    ):
        return x509.load_der_x509_certificate(connection.getpeercert(binary_form=True) or b"")


def store(cluster: RealCluster, name: str, data: dict[str, bytes]) -> None:
    """Write these keys to a Secret of the product; other keys stay."""
    encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
    patch = json.dumps({"data": encoded})
    cluster.kubectl("patch", "secret", name, "-n", NAMESPACE, "--type=merge", "-p", patch)


def _key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def _builder(
    key: rsa.RSAPrivateKey, subject: x509.Name, issuer: x509.Name, life: timedelta
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
    return builder.not_valid_before(now - timedelta(hours=1)).not_valid_after(now + life)

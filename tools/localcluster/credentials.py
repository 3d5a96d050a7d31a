"""Write the CA, certificates, keys and tokens of a cluster."""

from __future__ import annotations

import csv
import datetime
import io
import ipaddress
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tools.localcluster.ports import LOOPBACK

SERVICE_RANGE = "10.96.0.0/16"
REAL_NODE = "node-0"
"""The name of the node, if the cluster has a real one."""

# User → group. Components of the control plane use the names that Kubernetes' own bootstrap RBAC knows.
USERS: Mapping[str, str] = {
    "admin": "system:masters",
    "kwok": "system:masters",
    "kubelet": "system:masters",
    "system:kube-controller-manager": "",
    "system:kube-scheduler": "",
    f"system:node:{REAL_NODE}": "system:nodes",
    "system:kube-proxy": "",
}

_LIFETIME = datetime.timedelta(days=30)
_SERVER_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
# Pods know the API server by the first address of the service range.
_SERVER_ADDRESSES = (LOOPBACK, str(ipaddress.ip_network(SERVICE_RANGE)[1]))


@dataclass(frozen=True)
class Credentials:
    """The paths of all files, and the token of each user in USERS."""

    ca: Path
    certificate: Path
    key: Path
    service_account_key: Path
    client_certificate: Path
    client_key: Path
    token_file: Path
    tokens: Mapping[str, str]


def write_credentials(directory: Path) -> Credentials:
    """Write fresh credentials into `directory`, readable by this user only."""
    directory.mkdir(mode=0o700, parents=True)
    credentials = Credentials(
        ca=directory / "ca.crt",
        certificate=directory / "server.crt",
        key=directory / "server.key",
        service_account_key=directory / "service-account.key",
        client_certificate=directory / "kubelet-client.crt",
        client_key=directory / "kubelet-client.key",
        token_file=directory / "tokens.csv",
        tokens={user: secrets.token_urlsafe(32) for user in USERS},
    )
    ca_key = ec.generate_private_key(ec.SECP256R1())
    ca = _certificate("localcluster-ca", ca_key, issuer=None)
    server_key, client_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    server = _certificate("kube-apiserver", server_key, issuer=(ca, ca_key))
    client = _certificate("kube-apiserver-kubelet-client", client_key, (ca, ca_key), group="system:masters")
    credentials.ca.write_bytes(ca.public_bytes(serialization.Encoding.PEM))
    credentials.certificate.write_bytes(server.public_bytes(serialization.Encoding.PEM))
    _write_key(credentials.key, server_key)
    credentials.client_certificate.write_bytes(client.public_bytes(serialization.Encoding.PEM))
    _write_key(credentials.client_key, client_key)
    service_account_key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    _write_key(credentials.service_account_key, service_account_key)
    credentials.token_file.write_text(token_table(credentials.tokens))
    credentials.token_file.chmod(0o600)
    return credentials


def token_table(tokens: Mapping[str, str]) -> str:
    """Return the API server's static token file: token, user, UID and quoted groups."""
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    for user, token in tokens.items():
        writer.writerow([token, user, user, *([USERS[user]] if USERS[user] else [])])
    return table.getvalue()


def _certificate(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: tuple[x509.Certificate, ec.EllipticCurvePrivateKey] | None,
    group: str = "",
) -> x509.Certificate:
    """Create a certificate: of a CA without `issuer`, of a client with `group`, and otherwise of a server."""
    groups = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group)] if group else []
    subject = x509.Name([*groups, x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer[0].subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # The certificate is valid since an hour ago, because clocks of virtual machines jump.
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    if issuer is None:
        builder = builder.add_extension(_ca_key_usage(), critical=True)
    else:
        names: list[x509.GeneralName] = [x509.DNSName(name) for name in _SERVER_NAMES]
        names += [x509.IPAddress(ipaddress.ip_address(address)) for address in _SERVER_ADDRESSES]
        usage = ExtendedKeyUsageOID.CLIENT_AUTH if group else ExtendedKeyUsageOID.SERVER_AUTH
        authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer[1].public_key())
        builder = (
            builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(authority, critical=False)
        )
    return builder.sign(issuer[1] if issuer else key, hashes.SHA256())


def _ca_key_usage() -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> None:
    path.touch(mode=0o600)
    form, plain = serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    path.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, plain))

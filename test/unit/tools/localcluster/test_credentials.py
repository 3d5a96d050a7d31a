"""tools.localcluster.credentials: files of certificates, keys and tokens."""

from __future__ import annotations

import csv
import ipaddress
import ssl
import stat
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from tools.localcluster.credentials import USERS, token_table, write_credentials

pytestmark = pytest.mark.usefixtures("shared_keys")


def test_server_certificate_is_signed_for_the_loopback_address(tmp_path: Path) -> None:
    credentials = write_credentials(tmp_path / "pki")
    ca = x509.load_pem_x509_certificate(credentials.ca.read_bytes())
    server = x509.load_pem_x509_certificate(credentials.certificate.read_bytes())
    server.verify_directly_issued_by(ca)
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert ipaddress.ip_address("127.0.0.1") in names.get_values_for_type(x509.IPAddress)
    assert "localhost" in names.get_values_for_type(x509.DNSName)
    ssl.create_default_context(cafile=str(credentials.ca))
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(credentials.certificate, credentials.key)
    serialization.load_pem_private_key(credentials.service_account_key.read_bytes(), None)


def test_secrets_are_for_this_user_only_and_differ(tmp_path: Path) -> None:
    credentials = write_credentials(tmp_path / "pki")
    for path in (credentials.key, credentials.service_account_key, credentials.token_file):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "pki").stat().st_mode) == 0o700
    assert len(set(credentials.tokens.values())) == len(USERS)


def test_token_table() -> None:
    text = token_table({"admin": "a,b", "system:kube-scheduler": "c"})
    assert list(csv.reader(text.splitlines())) == [
        ["a,b", "admin", "admin", "system:masters"],
        ["c", "system:kube-scheduler", "system:kube-scheduler"],
    ]


def test_credentials_of_a_real_node(tmp_path: Path) -> None:
    credentials = write_credentials(tmp_path / "pki")
    server = x509.load_pem_x509_certificate(credentials.certificate.read_bytes())
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert ipaddress.ip_address("10.96.0.1") in names.get_values_for_type(x509.IPAddress)
    client = x509.load_pem_x509_certificate(credentials.client_certificate.read_bytes())
    client.verify_directly_issued_by(x509.load_pem_x509_certificate(credentials.ca.read_bytes()))
    assert client.subject.rfc4514_string() == "CN=kube-apiserver-kubelet-client,O=system:masters"
    assert stat.S_IMODE(credentials.client_key.stat().st_mode) == 0o600
    assert USERS["system:node:node-0"] == "system:nodes"

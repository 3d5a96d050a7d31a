"""The manager's ports accept only secure TLS versions and ciphers.

The test scans the ports with each version and cipher. It also checks that the API server keeps calling
replicas that still present cert-manager's certificate after cert-manager was disabled.
"""

from __future__ import annotations

import base64
import ipaddress
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID

from lws.runtime.certificates.internal import CONFIGURATIONS
from lws.runtime.certificates.serving_certificate import Certificates, KeyPair, renewed
from test.harness.manifests import a_set
from test.harness.product import Product
from test.harness.waiting import eventually
from tools.deployment import NAMESPACE
from tools.localcluster import ClusterAccess, CommandError

OLD = ("TLSv1", "TLSv1_1")
NEW = ("TLSv1_2", "TLSv1_3")
# With these, session keys stay secret if the certificate's key is lost; no weak cipher is among them.
FORWARD_SECRET = ("ECDHE-", "DHE-")
WEAK = ("NULL", "RC4", "DES", "MD5", "EXP", "ADH", "AECDH", "PSK", "SRP", "CAMELLIA", "SEED", "ARIA", "IDEA")


def negotiated_cipher(port: int, version: str, ciphers: str = "ALL:COMPLEMENTOFALL") -> str:
    """Return the negotiated cipher of a client with only this version and these ciphers, or ""."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    # At a higher level, OpenSSL itself would not offer old ciphers.
    context.set_ciphers(f"{ciphers}:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
    try:
        with (
            socket.create_connection(("127.0.0.1", port), 30) as sock,
            context.wrap_socket(sock) as connection,
        ):
            cipher = connection.cipher()
            return cipher[0] if cipher else ""
    except (ssl.SSLError, ConnectionError):
        return ""


def offered() -> list[str]:
    """Return every cipher of TLS 1.2 and below that this machine's OpenSSL can offer."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_ciphers("ALL:COMPLEMENTOFALL:@SECLEVEL=0")
    return [cipher["name"] for cipher in context.get_ciphers() if cipher["protocol"] != "TLSv1.3"]


def ports(product: Product) -> dict[str, int]:
    return {"webhooks": product.manager.webhook_port, "metrics": product.manager.metrics_port}


@pytest.mark.parametrize("which", ["webhooks", "metrics"])
def test_versions_below_tls_1_2_are_rejected(product: Product, which: str) -> None:
    port = ports(product)[which]
    with pytest.warns(DeprecationWarning):
        old = {version: negotiated_cipher(port, version) for version in OLD}
    assert old == dict.fromkeys(OLD, "")
    assert all(negotiated_cipher(port, version) for version in NEW)


@pytest.mark.parametrize("which", ["webhooks", "metrics"])
def test_every_accepted_cipher_has_forward_secrecy(product: Product, which: str) -> None:
    port = ports(product)[which]
    tried = offered()
    accepted = [name for name in tried if negotiated_cipher(port, "TLSv1_2", name)]
    print(which, len(tried), accepted)
    assert accepted
    assert any("NULL" in name for name in tried) and "AES128-SHA" in tried, "weak ciphers were tried"
    assert [name for name in accepted if not name.startswith(FORWARD_SECRET)] == []
    assert [name for name in accepted if any(word in name for word in WEAK)] == []


def test_the_scan_would_find_old_versions_and_ciphers(tmp_path: Path) -> None:
    with an_old_server(tmp_path) as port, pytest.warns(DeprecationWarning):
        assert negotiated_cipher(port, "TLSv1")
        assert negotiated_cipher(port, "TLSv1_2", "AES128-SHA") == "AES128-SHA"


def test_a_replica_with_cert_managers_certificate_is_called_after_it_is_disabled(
    product: Product, cluster: ClusterAccess, tmp_path: Path
) -> None:
    """The mutating webhooks call the first manager with certificates of its own.

    The validating ones call an older replica, which still presents cert-manager's certificate: self-signed,
    and no CA.
    """
    product.stop()
    host = cluster.host_address
    former = cert_manager_key_pair(host)
    write_as_cert_manager(cluster, former)
    try:
        with former_replica(former, host, tmp_path) as port:
            product.start()
            kind, name = CONFIGURATIONS[1]
            stored = json.loads(cluster.kubectl("get", kind, name, "-o", "json"))
            patch = [
                {
                    "op": "replace",
                    "path": f"/webhooks/{index}/clientConfig/url",
                    "value": f"https://{host}:{port}/",
                }
                for index in range(len(stored["webhooks"]))
            ]
            cluster.kubectl("patch", kind, name, "--type=json", "-p", json.dumps(patch))
            probe = json.dumps(a_set("probe"))
            refused = eventually(
                "both webhooks are trusted", lambda: refusal(cluster, probe), lambda why: not why
            )
            assert [refused, refusal(cluster, probe)] == ["", ""]
    finally:
        product.deployment.point_webhooks(product.manager)


def refusal(cluster: ClusterAccess, manifest: str) -> str:
    try:
        cluster.kubectl("create", "--dry-run=server", "-f", "-", input=manifest)
    except CommandError as error:
        return str(error)
    return ""


def cert_manager_key_pair(address: str) -> KeyPair:
    key, now, nobody = rsa.generate_private_key(65537, 2048), datetime.now(UTC), x509.Name([])
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
    certificate = (
        x509.CertificateBuilder(nobody, nobody, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=90))
        .add_extension(names, critical=True)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return KeyPair(certificate.public_bytes(serialization.Encoding.PEM), private)


def write_as_cert_manager(cluster: ClusterAccess, former: KeyPair) -> None:
    """Write Secret and configurations as cert-manager and its injector leave them."""
    certificate, key = (base64.b64encode(part).decode() for part in (former.certificate, former.key))
    data = {"ca.crt": certificate, "ca.key": None, "tls.crt": certificate, "tls.key": key}
    where, merge = ("secret", "lws-webhook-server-cert", "-n", NAMESPACE), "--type=merge"
    cluster.kubectl("patch", *where, merge, "-p", json.dumps({"data": data}))
    for kind, name in CONFIGURATIONS:
        stored = json.loads(cluster.kubectl("get", kind, name, "-o", "json"))
        patch = [
            {"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": certificate}
            for index in range(len(stored["webhooks"]))
        ]
        cluster.kubectl("patch", kind, name, "--type=json", "-p", json.dumps(patch))


class _Admitting(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = json.dumps({**review, "response": {"uid": review["request"]["uid"], "allowed": True}})
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer.encode())))
        self.end_headers()
        self.wfile.write(answer.encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def former_replica(key_pair: KeyPair, host: str, directory: Path) -> Iterator[int]:
    pair = directory / "former.pem"
    pair.write_bytes(key_pair.certificate + key_pair.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair)
    with ThreadingHTTPServer((host, 0), _Admitting) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join(60)


@contextmanager
def an_old_server(directory: Path) -> Iterator[int]:
    """Run a server that accepts any two connections."""
    renewal = renewed(Certificates(), ("localhost",), datetime.now(UTC))
    assert renewal is not None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers("ALL:COMPLEMENTOFALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning):
        context.minimum_version = ssl.TLSVersion.TLSv1
    (directory / "crt").write_bytes(renewal[0].server.certificate)
    (directory / "key").write_bytes(renewal[0].server.key)
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

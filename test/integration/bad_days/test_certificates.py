"""Webhooks stay trusted when two managers start at once, CA bundles are emptied, or certificates expire."""

from __future__ import annotations

import base64
import json
import socket
import ssl
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from test.harness.manifests import a_set
from test.harness.proxied import Stage
from test.harness.waiting import eventually
from test.harness.world import SET, World
from test.integration.bad_days.reviews import ca_bundles, secret_of, trust
from tools.deployment import NAMESPACE, ManagerProcess
from tools.localcluster import ApiError, LocalCluster

pytestmark = pytest.mark.local_only

SECRET = "lws-webhook-server-cert"


def test_managers_that_start_concurrently_agree_on_one_certificate(
    stage: Stage, cluster: LocalCluster, world: World
) -> None:
    cluster.kubectl("patch", "secret", SECRET, "-n", NAMESPACE, "--type=merge", "-p", '{"data":null}')
    empty_bundles(cluster)
    managers = [stage.manager(), stage.manager()]
    for manager in managers:
        manager.start()
    for manager in managers:
        manager.wait_ready()
    authority = secret_of(cluster)["ca.crt"]
    assert authority.count(b"BEGIN CERTIFICATE") == 1
    eventually(
        "all webhooks have the CA bundle",
        lambda: ca_bundles(cluster),
        lambda bundles: bundles == [authority] * 4,
    )
    eventually(
        "both managers present the same certificate",
        lambda: len({served_by(manager, cluster) for manager in managers}) == 1,
    )
    for manager in managers:
        stage.serve(manager)
        eventually("sets are admitted", lambda: admits(world))


def test_edited_secrets_and_ca_bundles_are_repaired(
    stage: Stage, cluster: LocalCluster, world: World
) -> None:
    """A CA bundle is removed and the certificate expires tomorrow: each check repairs both."""
    manager = stage.start()
    authority, certificate = secret_of(cluster)["ca.crt"], served_by(manager, cluster)
    store_certificate_that_ends_tomorrow(cluster)
    empty_bundles(cluster)
    eventually("the CA bundles are restored", lambda: all(ca_bundles(cluster)))
    assert ca_bundles(cluster) == [authority] * 4
    eventually("another certificate is presented", lambda: served_by(manager, cluster) != certificate)
    assert ends_at(served_by(manager, cluster)) > datetime.now(UTC) + timedelta(days=300)
    assert secret_of(cluster)["tls.crt"] == ssl.DER_cert_to_PEM_cert(served_by(manager, cluster)).encode()
    eventually("sets are admitted", lambda: admits(world))
    assert "Traceback" not in manager.log_path.read_text()


def admits(world: World) -> bool:
    """Report whether both webhooks admit a set."""
    try:
        world.api.create(f"{world.path(SET)}?dryRun=All", a_set("probe"))
    except ApiError as refusal:
        assert "failed calling webhook" in str(refusal)
        return False
    return True


def empty_bundles(cluster: LocalCluster) -> None:
    for kind in ("mutating", "validating"):
        name, resource = f"lws-{kind}-webhook-configuration", f"{kind}webhookconfiguration"
        webhooks = json.loads(cluster.kubectl("get", resource, name, "-o", "json"))["webhooks"]
        patch = [
            {"op": "remove", "path": f"/webhooks/{index}/clientConfig/caBundle"}
            for index, webhook in enumerate(webhooks)
            if webhook["clientConfig"].get("caBundle")
        ]
        cluster.kubectl("patch", resource, name, "--type=json", "-p", json.dumps(patch))


def served_by(manager: ManagerProcess, cluster: LocalCluster) -> bytes:
    """Return the certificate (DER) that a manager presents, verified as the API server does."""
    address = ("127.0.0.1", manager.webhook_port)
    context = trust(cluster)
    name = f"lws-webhook-service.{NAMESPACE}.svc"
    with (
        socket.create_connection(address, 30) as plain,
        context.wrap_socket(plain, server_hostname=name) as tls,
    ):
        return tls.getpeercert(binary_form=True) or b""


def ends_at(certificate: bytes) -> datetime:
    return x509.load_der_x509_certificate(certificate).not_valid_after_utc


def store_certificate_that_ends_tomorrow(cluster: LocalCluster) -> None:
    """Store a certificate that the CA in the Secret signs for the same names as the one that it replaces."""
    stored = secret_of(cluster)
    authority = x509.load_pem_x509_certificate(stored["ca.crt"])
    signer = serialization.load_pem_private_key(stored["ca.key"], password=None)
    assert isinstance(signer, rsa.RSAPrivateKey)
    former = x509.load_pem_x509_certificate(stored["tls.crt"])
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(
        former.issuer, former.subject, key.public_key(), x509.random_serial_number()
    )
    builder = builder.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    for extension in former.extensions:
        if not isinstance(extension.value, x509.SubjectKeyIdentifier | x509.AuthorityKeyIdentifier):
            builder = builder.add_extension(extension.value, extension.critical)
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key())  # type: ignore[arg-type]
    certificate = builder.add_extension(issuer, critical=False).sign(signer, hashes.SHA256())
    data = {
        "tls.crt": certificate.public_bytes(serialization.Encoding.PEM),
        "tls.key": key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        ),
    }
    patch = {"data": {name: base64.b64encode(value).decode() for name, value in data.items()}}
    cluster.kubectl("patch", "secret", SECRET, "-n", NAMESPACE, "--type=merge", "-p", json.dumps(patch))

"""The internal CA, with one replica or two racing ones.

The cluster is a dictionary of objects with resourceVersions.
"""

from __future__ import annotations

import asyncio
import base64
import copy
import logging
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lws import timing
from lws.config import TlsSettings
from lws.runtime.actions import Object, Reference
from lws.runtime.certificates.internal import CONFIGURATIONS, InternalCertificates, SecretReference
from lws.runtime.certificates.serving_certificate import KeyPair, server_flaw, split
from lws.runtime.endpoints.server_tls import ServerTls
from lws.runtime.errors import AlreadyExists, ClusterError, Conflict, Forbidden, NotFound, Unreachable

pytestmark = pytest.mark.usefixtures("shared_keys")

NAMES = ("lws-webhook-service.lws-system.svc",)
PLACE = SecretReference("lws-system", "lws-webhook-server-cert", NAMES)
SECRET = ("Secret", "lws-webhook-server-cert")
MUTATING, VALIDATING = CONFIGURATIONS


class FakeCluster:
    """A cluster with objects by kind and name.

    before: a function called before each request, which may raise or change objects.
    """

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self.writes: list[str] = []
        self.before: Callable[[str, str], None] = lambda verb, kind: None
        self._version = 0

    def put(self, kind: str, name: str, **content: Any) -> None:
        metadata = {"name": name, "uid": f"uid-{name}", "resourceVersion": self._next()}
        self.objects[kind, name] = {"apiVersion": "x", "kind": kind, "metadata": metadata, **content}

    async def get(self, kind: str, namespace: str, name: str) -> dict[str, Any]:
        await self._arrive("get", kind)
        assert namespace == ("lws-system" if kind == "Secret" else "")
        if (kind, name) not in self.objects:
            raise NotFound(404, "NotFound", f"{kind} {name} not found")
        return copy.deepcopy(self.objects[kind, name])

    async def create(self, obj: Object) -> dict[str, Any]:
        await self._arrive("create", obj["kind"])
        key = (obj["kind"], obj["metadata"]["name"])
        if key in self.objects:
            raise AlreadyExists(409, "AlreadyExists", f"{key} exists")
        return self._store(key, obj)

    async def replace(self, obj: Object) -> dict[str, Any]:
        await self._arrive("replace", obj["kind"])
        key = (obj["kind"], obj["metadata"]["name"])
        self._check(key, obj["metadata"]["resourceVersion"])
        return self._store(key, obj)

    async def merge(self, target: Reference, patch: Object) -> dict[str, Any]:
        await self._arrive("merge", target.kind)
        key = (target.kind, target.name)
        assert target.uid == self.objects[key]["metadata"]["uid"]
        assert set(patch) == {"metadata", "webhooks"}
        self._check(key, patch["metadata"]["resourceVersion"])
        return self._store(key, {**self.objects[key], "webhooks": patch["webhooks"]})

    async def _arrive(self, verb: str, kind: str) -> None:
        # Every request yields to the others, as on a network.
        await asyncio.sleep(0)
        self.before(verb, kind)
        if verb != "get":
            self.writes.append(f"{verb} {kind}")

    def _check(self, key: tuple[str, str], version: str) -> None:
        if version != self.objects[key]["metadata"]["resourceVersion"]:
            raise Conflict(409, "Conflict", f"{key} has been modified")

    def _store(self, key: tuple[str, str], obj: Object) -> dict[str, Any]:
        metadata = {**obj["metadata"], "resourceVersion": self._next()}
        self.objects[key] = copy.deepcopy({**obj, "metadata": metadata})
        return self.objects[key]

    def _next(self) -> str:
        self._version += 1
        return str(self._version)


class Replica:
    """One manager, with the certificate that it serves and a clock that only tests advance."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.now = datetime(2026, 3, 1, tzinfo=UTC)
        self.served: list[tuple[bytes, bytes]] = []
        self.checks: list[bool] = []
        self.certificates = InternalCertificates(
            cluster,
            PLACE,
            lambda certificate, key: self.served.append((certificate, key)),
            lambda: self.now,
            lambda is_good, seconds: self.checks.append(is_good and seconds >= 0),
        )

    async def check(self, after: timedelta = timedelta()) -> None:
        self.now += after
        await self.certificates.check()


@pytest.fixture
def cluster() -> FakeCluster:
    """A cluster as the chart installs it: an empty Secret, configurations without caBundle."""
    cluster = FakeCluster()
    cluster.put(*SECRET, type="Opaque")
    cluster.objects[SECRET]["metadata"]["namespace"] = "lws-system"
    cluster.objects[SECRET]["metadata"]["labels"] = {"app": "lws"}
    service = {"service": {"name": "lws-webhook-service", "namespace": "lws-system", "path": "/x"}}
    for kind, name in CONFIGURATIONS:
        webhooks = [{"name": entry, "clientConfig": service, "rules": []} for entry in ("a", "b")]
        cluster.put(kind, name, webhooks=webhooks)
    return cluster


@pytest.fixture
def replica(cluster: FakeCluster) -> Replica:
    return Replica(cluster)


def secret_data(cluster: FakeCluster) -> dict[str, bytes]:
    return {key: base64.b64decode(value) for key, value in cluster.objects[SECRET]["data"].items()}


def bundle_in(cluster: FakeCluster, configuration: tuple[str, str]) -> tuple[bytes, ...]:
    """Return the CAs that all entries of a configuration trust."""
    (bundle,) = {entry["clientConfig"]["caBundle"] for entry in cluster.objects[configuration]["webhooks"]}
    return split(base64.b64decode(bundle))


async def test_first_start_fills_secret_and_configurations(cluster: FakeCluster, replica: Replica) -> None:
    assert not replica.certificates.is_ready
    assert replica.certificates.expires is None

    await replica.check()

    data = secret_data(cluster)
    assert sorted(data) == ["ca.crt", "ca.key", "tls.crt", "tls.key"]
    assert replica.served == [(data["tls.crt"], data["tls.key"])]
    assert bundle_in(cluster, MUTATING) == bundle_in(cluster, VALIDATING) == (data["ca.crt"],)
    assert replica.certificates.is_ready
    assert replica.certificates.expires == replica.now + timedelta(days=365)


async def test_nothing_else_is_touched(cluster: FakeCluster, replica: Replica) -> None:
    before = copy.deepcopy(cluster.objects)
    await replica.check()
    secret = cluster.objects[SECRET]
    assert secret["type"] == "Opaque"
    assert secret["metadata"]["labels"] == {"app": "lws"}
    for configuration in CONFIGURATIONS:
        for old, new in zip(
            before[configuration]["webhooks"], cluster.objects[configuration]["webhooks"], strict=True
        ):
            assert new["clientConfig"].pop("caBundle")
            assert new == old


async def test_a_second_check_only_reads(cluster: FakeCluster, replica: Replica) -> None:
    await replica.check()
    cluster.writes.clear()
    await replica.check(timedelta(minutes=1))
    assert cluster.writes == []
    assert len(replica.served) == 1


async def test_a_restarted_replica_uses_the_stored_certificate(
    cluster: FakeCluster, replica: Replica
) -> None:
    await replica.check()
    cluster.writes.clear()
    restarted = Replica(cluster)
    await restarted.check()
    assert restarted.served == replica.served
    assert cluster.writes == []


async def test_missing_secret_is_created(cluster: FakeCluster, replica: Replica) -> None:
    del cluster.objects[SECRET]
    await replica.check()
    secret = cluster.objects[SECRET]
    assert (secret["apiVersion"], secret["type"]) == ("v1", "Opaque")
    assert secret["metadata"]["namespace"] == "lws-system"
    assert replica.served == [(secret_data(cluster)["tls.crt"], secret_data(cluster)["tls.key"])]


async def test_missing_secret_without_create_permission_is_reported_with_a_remedy(
    cluster: FakeCluster, replica: Replica
) -> None:
    del cluster.objects[SECRET]

    def refuse(verb: str, kind: str) -> None:
        if verb == "create":
            raise Forbidden(403, "Forbidden", "secrets is forbidden")

    cluster.before = refuse
    with pytest.raises(ClusterError, match=r"lws-webhook-server-cert is missing.*create it, empty"):
        await replica.check()
    assert not replica.certificates.is_ready


@pytest.mark.parametrize("has_secret", [True, False], ids=["empty Secret", "no Secret"])
async def test_concurrent_replicas_agree_on_one_certificate(cluster: FakeCluster, has_secret: bool) -> None:
    if not has_secret:
        del cluster.objects[SECRET]
    replicas = [Replica(cluster) for _ in range(3)]
    await asyncio.gather(*(replica.check() for replica in replicas))

    data = secret_data(cluster)
    for replica in replicas:
        assert replica.served == [(data["tls.crt"], data["tls.key"])]
        assert replica.certificates.is_ready
    assert bundle_in(cluster, MUTATING) == bundle_in(cluster, VALIDATING) == (data["ca.crt"],)
    assert cluster.writes.count("create Secret" if not has_secret else "replace Secret") == 3


async def test_removed_ca_bundle_is_repaired(cluster: FakeCluster, replica: Replica) -> None:
    await replica.check()
    del cluster.objects[MUTATING]["webhooks"][1]["clientConfig"]["caBundle"]
    cluster.objects[VALIDATING]["webhooks"][0]["clientConfig"]["caBundle"] = "Cg=="
    cluster.writes.clear()
    await replica.check(timedelta(minutes=1))
    trusted = (secret_data(cluster)["ca.crt"],)
    assert bundle_in(cluster, MUTATING) == bundle_in(cluster, VALIDATING) == trusted
    assert cluster.writes == ["merge MutatingWebhookConfiguration", "merge ValidatingWebhookConfiguration"]
    assert len(replica.served) == 1


async def test_concurrent_change_of_a_configuration_is_kept(cluster: FakeCluster, replica: Replica) -> None:
    def add_entry(verb: str, kind: str) -> None:
        if verb == "merge" and kind == MUTATING[0]:
            cluster.before = lambda verb, kind: None
            webhooks = cluster.objects[MUTATING]["webhooks"]
            cluster.put(*MUTATING, webhooks=[*webhooks, {"name": "c", "clientConfig": {}}])

    cluster.before = add_entry
    await replica.check()
    assert [entry["name"] for entry in cluster.objects[MUTATING]["webhooks"]] == ["a", "b", "c"]
    assert bundle_in(cluster, MUTATING) == (secret_data(cluster)["ca.crt"],)


async def test_missing_configuration_is_skipped_and_reported_once(
    cluster: FakeCluster, replica: Replica, caplog: pytest.LogCaptureFixture
) -> None:
    mutating = cluster.objects.pop(MUTATING)
    with caplog.at_level(logging.WARNING):
        await replica.check()
        await replica.check()
    assert [record.getMessage() for record in caplog.records] == [
        "MutatingWebhookConfiguration lws-mutating-webhook-configuration is missing: "
        "its webhooks are not called; install the chart to get it"
    ]
    assert replica.certificates.is_ready
    assert bundle_in(cluster, VALIDATING) == (secret_data(cluster)["ca.crt"],)

    cluster.objects[MUTATING] = mutating
    await replica.check()
    assert bundle_in(cluster, MUTATING) == (secret_data(cluster)["ca.crt"],)


async def test_server_certificate_is_renewed_without_a_new_authority(
    cluster: FakeCluster, replica: Replica
) -> None:
    await replica.check()
    authority = secret_data(cluster)["ca.crt"]
    await replica.check(timedelta(days=276))
    data = secret_data(cluster)
    assert data["ca.crt"] == authority
    assert len(replica.served) == 2
    assert replica.served[1] == (data["tls.crt"], data["tls.key"])


def lose_authority_key(cluster: FakeCluster) -> None:
    """Remove the CA's key from the Secret, the simplest reason for a new CA."""
    secret = cluster.objects[SECRET]
    data = {key: value for key, value in secret["data"].items() if key != "ca.key"}
    cluster.put(*SECRET, type="Opaque", data=data)
    cluster.objects[SECRET]["metadata"]["namespace"] = "lws-system"


def is_trusted(cluster: FakeCluster, replica: Replica) -> bool:
    pair = KeyPair(*replica.served[-1])
    return all(
        any(not server_flaw(pair, authority, NAMES, replica.now) for authority in bundle)
        for bundle in (bundle_in(cluster, MUTATING), bundle_in(cluster, VALIDATING))
    )


async def test_new_authority_is_trusted_before_its_certificate_is_served(cluster: FakeCluster) -> None:
    rotating, following = Replica(cluster), Replica(cluster)
    for replica in (rotating, following):
        await replica.check()
    old = secret_data(cluster)["ca.crt"]
    lose_authority_key(cluster)

    await rotating.check()
    new = split(secret_data(cluster)["ca.crt"])[0]
    assert new != old
    assert bundle_in(cluster, MUTATING) == bundle_in(cluster, VALIDATING) == (new, old)
    assert len(rotating.served) == 1

    certificate = secret_data(cluster)["tls.crt"]
    for replica in (rotating, following):
        assert is_trusted(cluster, replica)
        await replica.check(timedelta(seconds=29))
        assert len(replica.served) == 1
        await replica.check(timedelta(seconds=31))
        assert replica.served[1:] == [(certificate, secret_data(cluster)["tls.key"])]
        assert is_trusted(cluster, replica)


async def test_replaced_authority_is_trusted_for_a_day(cluster: FakeCluster, replica: Replica) -> None:
    await replica.check()
    lose_authority_key(cluster)
    await replica.check()
    new, old = split(secret_data(cluster)["ca.crt"])
    await replica.check(timedelta(hours=23))
    assert bundle_in(cluster, VALIDATING) == (new, old)
    await replica.check(timedelta(hours=2))
    assert split(secret_data(cluster)["ca.crt"]) == bundle_in(cluster, VALIDATING) == (new,)
    assert is_trusted(cluster, replica)


async def test_a_starting_replica_serves_the_old_certificate_until_the_new_one_is_trusted(
    cluster: FakeCluster, replica: Replica
) -> None:
    await replica.check()
    lose_authority_key(cluster)
    starting = Replica(cluster)
    await starting.check()
    assert starting.served == replica.served
    await starting.check(timedelta(minutes=1))
    assert starting.served[1:] == [(secret_data(cluster)["tls.crt"], secret_data(cluster)["tls.key"])]


async def test_expired_certificates_are_replaced_at_once(cluster: FakeCluster, replica: Replica) -> None:
    await replica.check()
    await replica.check(timedelta(days=4000))
    data = secret_data(cluster)
    assert replica.served[1:] == [(data["tls.crt"], data["tls.key"])]
    assert split(data["ca.crt"]) == bundle_in(cluster, MUTATING)
    assert len(split(data["ca.crt"])) == 1


async def test_expired_certificate_is_replaced_even_if_no_ca_bundle_can_be_patched(
    cluster: FakeCluster, replica: Replica
) -> None:
    await replica.check()

    def refuse(verb: str, kind: str) -> None:
        if verb == "merge":
            raise Forbidden(403, "Forbidden", "no")

    cluster.before = refuse
    with pytest.raises(Forbidden):
        await replica.check(timedelta(days=4000))
    assert len(replica.served) == 2


async def test_emptied_secret_is_restored(cluster: FakeCluster, replica: Replica) -> None:
    await replica.check()
    before = cluster.objects[SECRET]["data"]
    cluster.put(*SECRET, type="Opaque", data={})
    cluster.objects[SECRET]["metadata"]["namespace"] = "lws-system"
    await replica.check(timedelta(minutes=1))
    assert cluster.objects[SECRET]["data"] == before
    assert len(replica.served) == 1


async def test_deleted_secret_is_recreated(cluster: FakeCluster, replica: Replica) -> None:
    await replica.check()
    before = cluster.objects.pop(SECRET)["data"]
    await replica.check(timedelta(minutes=1))
    assert cluster.objects[SECRET]["data"] == before
    assert len(replica.served) == 1


async def test_ready_while_the_served_certificate_is_valid(cluster: FakeCluster, replica: Replica) -> None:
    await replica.check()
    replica.now += timedelta(days=366)
    assert not replica.certificates.is_ready
    await replica.check()
    assert replica.certificates.is_ready


async def test_a_certificate_from_the_future_is_replaced(cluster: FakeCluster) -> None:
    ahead, right = Replica(cluster), Replica(cluster)
    await ahead.check(timedelta(days=2))
    await right.check()
    data = secret_data(cluster)
    assert right.served == [(data["tls.crt"], data["tls.key"])] and right.certificates.is_ready
    assert is_trusted(cluster, right)
    await ahead.check(timedelta(minutes=1))
    assert ahead.certificates.is_ready and secret_data(cluster) == data


@pytest.mark.parametrize("part", ["tls.crt", "tls.key", "ca.crt", "ca.key"])
@pytest.mark.parametrize(
    "spoiled",
    [b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", b"-----BEGIN CERTIFICATE-----\nMII"],
    ids=["broken", "cut"],
)
@pytest.mark.parametrize("is_first", [True, False], ids=["starting", "running"])
async def test_a_broken_second_block_does_not_prevent_serving(
    cluster: FakeCluster, replica: Replica, part: str, spoiled: bytes, is_first: bool
) -> None:
    await replica.check()
    data = {**secret_data(cluster)}
    data[part] += spoiled
    encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
    cluster.put(*SECRET, type="Opaque", data=encoded)
    cluster.objects[SECRET]["metadata"]["namespace"] = "lws-system"
    tested = Replica(cluster) if is_first else replica
    tls = ServerTls(TlsSettings())
    served = tested.served

    def install(certificate: bytes, key: bytes) -> None:
        tls.install(certificate, key)
        served.append((certificate, key))

    tested.certificates._install = install
    for _ in range(4):
        with suppress(ClusterError):
            await tested.check(timedelta(minutes=1))
    await tested.check()
    assert tested.certificates.is_ready and is_trusted(cluster, tested)
    assert tested.served[-1] == (secret_data(cluster)["tls.crt"], secret_data(cluster)["tls.key"])


async def test_other_data_in_the_secret_is_kept(cluster: FakeCluster, replica: Replica) -> None:
    cluster.objects[SECRET]["data"] = {"notes": "aGVsbG8="}
    await replica.check()
    assert secret_data(cluster)["notes"] == b"hello"


@pytest.mark.parametrize("kind", ["Secret", "MutatingWebhookConfiguration"])
async def test_repeated_conflicts_end_with_an_error(
    cluster: FakeCluster, replica: Replica, kind: str
) -> None:
    def interfere(verb: str, requested: str) -> None:
        if verb in ("replace", "merge") and requested == kind:
            (key,) = (key for key in cluster.objects if key[0] == kind)
            cluster.objects[key]["metadata"]["resourceVersion"] += "x"

    cluster.before = interfere
    with pytest.raises(ClusterError, match=f"^{kind} .* keeps being changed by another client$"):
        await replica.check()


async def test_run_retries_after_an_error(
    replica: Replica, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(timing, "CERTIFICATES_PAUSE", timing.Backoff(0.001, 0.001))
    checks, has_gone_on = 0, asyncio.Event()

    async def check() -> None:
        nonlocal checks
        checks += 1
        if checks == 1:
            raise Unreachable("GET /x: connection refused")
        if checks == 3:
            has_gone_on.set()

    monkeypatch.setattr(replica.certificates, "check", check)
    with caplog.at_level(logging.WARNING):
        running = asyncio.create_task(replica.certificates.run())
        await asyncio.wait_for(has_gone_on.wait(), 60)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)

    assert [record.getMessage() for record in caplog.records] == [
        "serving certificate: GET /x: connection refused; next try in about 0 s"
    ]
    assert replica.checks[:2] == [False, True]

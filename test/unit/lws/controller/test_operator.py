"""How kopf is run: nothing of what it would write is on, and it comes in as we do."""

from __future__ import annotations

import dataclasses
import datetime
import itertools
from collections.abc import Iterable, Sized
from typing import Any, cast

import kopf
import pytest

from lws.cluster.connection import Cluster, Credentials
from lws.cluster.store import Store
from lws.controller.admission_server import AdmissionServer
from lws.controller.operator import build_registry, build_settings
from lws.controller.webhooks import ENDPOINTS

SERVER = cast(AdmissionServer, object())
CREDENTIALS = Credentials(
    server="https://10.0.0.1:443",
    ca_path="/ca.crt",
    insecure=False,
    token="Bearer secret",
    certificate_path=None,
    key_path=None,
)


@dataclasses.dataclass
class FakeCluster:
    """Knows credentials."""

    found: Credentials

    async def credentials(self) -> Credentials:
        return self.found


def registry_of(found: Credentials = CREDENTIALS, server: Any = SERVER) -> kopf.OperatorRegistry:
    store = Store(lambda before, after: None)
    return build_registry(cast(Cluster, FakeCluster(found)), store, server)


async def login(found: Credentials) -> kopf.ConnectionInfo:
    (handler,) = registry_of(found)._activities.get_all_handlers()
    info: kopf.ConnectionInfo = await cast(Any, handler.fn)(logger=None, memo=None)
    return info


def test_kopf_does_not_keep_sets_that_nothing_happens_to() -> None:
    assert 0 < build_settings(SERVER).queueing.idle_timeout <= 1


def test_kopf_writes_nothing_of_its_own() -> None:
    settings = build_settings(SERVER)
    assert not settings.posting.enabled, "Events are ours"
    assert settings.peering.standalone, "the Lease decides, not a peering object"
    assert settings.scanning.disabled, "it would watch all CustomResourceDefinitions and namespaces"
    assert settings.admission.managed is None, "webhook configurations are the chart's"
    assert settings.admission.server is SERVER


def test_kopf_never_gives_a_request_up() -> None:
    """It would end the process, and with it the webhooks."""
    backoffs = build_settings(SERVER).networking.error_backoffs
    assert not isinstance(backoffs, Sized), "kopf takes a length for the number of attempts"
    assert isinstance(backoffs, Iterable)
    for _ in range(2):
        seconds = list(itertools.islice(backoffs, 1000))
        assert seconds == sorted(seconds)
        assert 0.1 <= seconds[0] <= 1.0 and seconds[-1] <= 5.0


def test_without_webhooks_there_is_no_server() -> None:
    assert build_settings(None).admission.server is None
    assert list(registry_of(server=None)._webhooks.get_all_handlers()) == []


def test_what_kopf_is_given() -> None:
    registry = registry_of()
    assert len(list(registry._webhooks.get_all_handlers())) >= len(ENDPOINTS)
    assert len(list(registry._watching.get_all_handlers())) == 1
    for writing in (registry._changing, registry._spawning, registry._indexing):
        assert list(writing.get_all_handlers()) == []


@pytest.mark.parametrize(
    ("token", "scheme", "expected"),
    [
        pytest.param("Bearer secret", "Bearer", "secret", id="as our client has it"),
        pytest.param("bearer secret", "Bearer", "secret", id="in small letters"),
        pytest.param("secret", None, "secret", id="without a scheme"),
        pytest.param(None, None, None, id="none"),
        pytest.param("", None, None, id="empty"),
    ],
)
async def test_the_token_of_our_own_connection(
    token: str | None, scheme: str | None, expected: str | None
) -> None:
    info = await login(dataclasses.replace(CREDENTIALS, token=token))
    assert (info.scheme, info.token) == (scheme, expected)
    assert (info.server, info.ca_path, info.insecure) == ("https://10.0.0.1:443", "/ca.crt", False)


async def test_a_token_is_fetched_again_before_it_ends_and_a_certificate_is_not() -> None:
    now = datetime.datetime.now(datetime.UTC)
    with_token = await login(CREDENTIALS)
    assert with_token.expiration is not None
    assert now < with_token.expiration <= now + datetime.timedelta(minutes=15)
    certified = dataclasses.replace(CREDENTIALS, token=None, certificate_path="/a.crt", key_path="/a.key")
    with_certificate = await login(certified)
    assert with_certificate.expiration is None
    assert (with_certificate.certificate_path, with_certificate.private_key_path) == ("/a.crt", "/a.key")

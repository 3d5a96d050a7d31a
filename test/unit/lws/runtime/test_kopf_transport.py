"""kopf's stream reaches the API server in the same way as our own requests.

It uses the same proxies, the same server name for TLS, and the current credentials and authorities.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import kopf
import pytest
import yaml
from aiohttp import web
from kopf._cogs.clients import api as kopf_api
from kopf._cogs.clients.auth import vault_var
from kopf._cogs.structs.credentials import Vault
from kubernetes.aio.client.configuration import Configuration
from yarl import URL

from lws import timing
from lws.leaderworkerset.tables import TABLES
from lws.registrations import REGISTRATIONS
from lws.runtime.certificates.serving_certificate import Certificates
from lws.runtime.client.connection import Cluster
from lws.runtime.client.kubeconfig import load_configuration
from lws.runtime.client.transport import Lifetime, Renewal
from lws.runtime.errors import ApiError, Unreachable
from lws.runtime.operator import build_registry, build_settings
from lws.runtime.store import Store
from test.unit.connect_proxy import proxying
from test.unit.fake_api import Answer, FakeApi, answer_json, failure, plain, serving

NAME = "webhook.test"
UNAUTHORIZED = failure(401, "Unauthorized", "Unauthorized")

Ask = Callable[[], Awaitable[Any]]


def served(certificates: Certificates, directory: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    pair = directory / "server.pem"
    pair.write_bytes(certificates.server.certificate + certificates.server.key)
    context.load_cert_chain(pair)
    return context


def authority(certificates: Certificates, directory: Path) -> str:
    """Return the file of trusted CAs, replaced as the kubelet does it."""
    path, fresh = directory / "ca.crt", directory / "ca.new"
    fresh.write_bytes(certificates.authority.certificate)
    os.replace(fresh, path)
    return str(path)


def settings_of_kopf() -> kopf.OperatorSettings:
    settings = build_settings(None)
    settings.networking.error_backoffs = [0.0]
    return settings


@asynccontextmanager
async def clients(configuration: Configuration) -> AsyncIterator[dict[str, Ask]]:
    """Yield a request function of our client and one of kopf, which logs in as in the manager."""
    cluster = Cluster(configuration, "test")
    registry = build_registry(cluster, Store(lambda before, after: None, TABLES), REGISTRATIONS, None)
    (login,) = registry._activities.get_all_handlers()
    info: kopf.AiohttpSession = await cast(Any, login.fn)()
    vault = Vault({"login": info})
    token = vault_var.set(vault)

    async def kopf_asks() -> Any:
        return await kopf_api.get("/version", settings=settings_of_kopf(), logger=logging.getLogger("test"))

    try:
        yield {"ours": cluster.version, "kopf": kopf_asks}
    finally:
        vault_var.reset(token)
        await vault.close()
        await info.aiohttp_session.close()
        await cluster.close()


def port_of(api: FakeApi) -> int:
    port = URL(api.url).port
    assert port is not None
    return port


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.mark.parametrize("client", ["ours", "kopf"])
@pytest.mark.parametrize("comes_from", ["environment", "kubeconfig"])
async def test_proxy_and_tls_name_are_the_same_for_our_client_and_kopf(
    client: str, comes_from: str, certificates: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(served(certificates, tmp_path)) as api, proxying(port_of(api)) as proxy:
        configuration = Configuration(host="https://api.test:6443", tls_server_name=NAME)
        configuration.ssl_ca_cert = authority(certificates, tmp_path)
        if comes_from == "kubeconfig":
            configuration.proxy = proxy.url
        else:
            monkeypatch.setenv("HTTPS_PROXY", proxy.url)
            monkeypatch.setenv("NO_PROXY", "10.0.0.0/8,.svc")
        api.will(answer_json({"gitVersion": "v1"}))
        async with clients(configuration) as requests:
            await requests[client]()
        assert proxy.asked == ["api.test:6443"]
        assert [seen.path for seen in api.requests] == ["/version"]


@pytest.mark.parametrize("client", ["ours", "kopf"])
async def test_no_proxy_is_the_same_for_our_client_and_kopf(
    client: str, certificates: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loopback addresses bypass the proxy; nothing listens at the proxy's address."""
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    async with serving(served(certificates, tmp_path)) as api:
        configuration = Configuration(host=api.url, ssl_ca_cert=authority(certificates, tmp_path))
        api.will(answer_json({"gitVersion": "v1"}))
        async with clients(configuration) as requests:
            await requests[client]()
        assert len(api.requests) == 1


@pytest.mark.parametrize("client", ["ours", "kopf"])
async def test_a_certificate_of_another_name_is_refused_without_the_tls_name(
    client: str, certificates: Certificates, tmp_path: Path
) -> None:
    async with serving(served(certificates, tmp_path)) as api, proxying(port_of(api)) as proxy:
        configuration = Configuration(host="https://api.test:6443", proxy=proxy.url)
        configuration.ssl_ca_cert = authority(certificates, tmp_path)
        async with clients(configuration) as requests:
            with pytest.raises(Exception, match="CERTIFICATE_VERIFY_FAILED"):
                await requests[client]()
        assert api.requests == []


@pytest.mark.parametrize("client", ["ours", "kopf"])
async def test_a_new_ca_replaces_the_old_one(
    client: str,
    certificates: Certificates,
    other_certificates: Certificates,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(timing, "TRUST_SECONDS", 0.0)
    configuration = Configuration(ssl_ca_cert=authority(certificates, tmp_path), tls_server_name=NAME)
    async with (
        serving(served(certificates, tmp_path)) as old,
        serving(served(other_certificates, tmp_path)) as new,
    ):
        for api in (old, new):
            api.will(*[answer_json({"gitVersion": "v1"})] * 3)
        # One address, with one server after the other behind it.
        async with proxying(port_of(old)) as proxy:
            configuration.host = "https://api.test"
            configuration.proxy = proxy.url
            async with clients(configuration) as requests:
                await requests[client]()
                authority(other_certificates, tmp_path)
                with pytest.raises(Exception, match="CERTIFICATE_VERIFY_FAILED"):
                    await requests[client]()
                proxy.port = port_of(new)
                await requests[client]()
        assert (len(old.requests), len(new.requests)) == (1, 1)


@pytest.mark.parametrize("client", ["ours", "kopf"])
async def test_a_partially_written_ca_is_ignored(
    client: str, certificates: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timing, "TRUST_SECONDS", 0.0)
    async with serving(served(certificates, tmp_path)) as api:
        path = authority(certificates, tmp_path)
        configuration = Configuration(host=api.url, ssl_ca_cert=path)
        api.will(*[answer_json({"gitVersion": "v1"})] * 2)
        async with clients(configuration) as requests:
            Path(path).write_text("-----BEGIN CERT")
            await requests[client]()
            Path(path).unlink()
            await requests[client]()


@pytest.mark.parametrize("client", ["ours", "kopf"])
async def test_credentials_are_loaded_once_after_a_refusal_and_sent(client: str) -> None:
    loads: list[str] = []

    async def load(configuration: Configuration) -> Lifetime:
        loads.append("load")
        configuration.api_key["BearerToken"] = f"Bearer {len(loads)}"
        return Lifetime()

    async with serving() as api:
        configuration = Configuration(host=api.url)
        await Renewal(load).begin(configuration)
        api.will(UNAUTHORIZED, answer_json({"gitVersion": "v1"}), answer_json({"gitVersion": "v1"}))
        async with clients(configuration) as requests:
            await requests[client]()
            await requests[client]()
    assert [seen.headers["Authorization"] for seen in api.requests] == ["Bearer 1", "Bearer 2", "Bearer 2"]


async def test_a_second_refusal_is_an_error_of_our_client() -> None:
    async def load(configuration: Configuration) -> Lifetime:
        configuration.api_key["BearerToken"] = f"{configuration.api_key.get('BearerToken', 'Bearer ')}I"
        return Lifetime()

    async with serving() as api:
        configuration = Configuration(host=api.url)
        await Renewal(load).begin(configuration)
        api.will(UNAUTHORIZED, UNAUTHORIZED)
        async with clients(configuration) as requests:
            with pytest.raises(ApiError) as error:
                await requests["ours"]()
    assert error.value.status == 401 and len(api.requests) == 2


async def test_kopf_retries_after_any_number_of_refusals() -> None:
    """Without other credentials to try, kopf would end the process."""
    async with serving() as api:
        api.will(UNAUTHORIZED, answer_json({"gitVersion": "v1"}))
        async with clients(Configuration(host=api.url)) as requests:
            assert await requests["kopf"]() == {"gitVersion": "v1"}
    assert len(api.requests) == 2


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(plain(429, "slow down", {"Retry-After": "86400"}), id="a-day"),
        pytest.param(plain(429, "slow down", {"Retry-After": "Wed, 21 Oct 2037 07:28:00 GMT"}), id="a-date"),
        pytest.param(failure(429, "TooManyRequests", retryAfterSeconds=86400), id="a-day-in-the-status"),
        pytest.param(failure(429, "TooManyRequests", retryAfterSeconds="soon"), id="no-number"),
    ],
)
async def test_retry_after_is_capped_for_kopf(answer: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any Retry-After of a proxy is limited.

    kopf itself obeys it, and ends the process if it is not a number.
    """
    monkeypatch.setattr(timing, "LONGEST_RETRY_AFTER_SECONDS", 0.01)
    async with serving() as api:
        api.will(answer, answer_json({"gitVersion": "v1"}))
        async with clients(Configuration(host=api.url)) as requests, asyncio.timeout(5.0):
            assert await requests["kopf"]() == {"gitVersion": "v1"}


async def test_credentials_that_cannot_change_are_sent_once() -> None:
    async with serving() as api:
        api.will(UNAUTHORIZED)
        async with clients(Configuration(host=api.url)) as requests:
            with pytest.raises(ApiError):
                await requests["ours"]()
    assert len(api.requests) == 1


@pytest.mark.parametrize("client", ["ours", "kopf"])
@pytest.mark.parametrize("server", ["https://10.96.0.1:443", "https://10.96.0.1", "https://API.Test/"])
async def test_a_token_is_sent_for_any_spelling_of_the_server(
    client: str, server: str, certificates: Certificates, tmp_path: Path
) -> None:
    async with serving(served(certificates, tmp_path)) as api, proxying(port_of(api)) as proxy:
        configuration = Configuration(host=server, tls_server_name=NAME, proxy=proxy.url)
        configuration.ssl_ca_cert = authority(certificates, tmp_path)
        configuration.api_key["BearerToken"] = "bearer secret"
        api.will(answer_json({"gitVersion": "v1"}))
        async with clients(configuration) as requests:
            await requests[client]()
    assert [seen.headers.get("Authorization") for seen in api.requests] == ["bearer secret"]


@pytest.mark.parametrize("client", ["ours", "kopf"])
async def test_a_token_is_sent_after_a_redirect_to_the_same_server(client: str) -> None:
    async with serving() as api:
        configuration = Configuration(host=api.url, api_key={"BearerToken": "bearer secret"})
        api.will(answer_json({}, 302, {"Location": "/version/"}), answer_json({"gitVersion": "v1"}))
        async with clients(configuration) as requests:
            await requests[client]()
    assert [seen.headers.get("Authorization") for seen in api.requests] == ["bearer secret"] * 2


@pytest.mark.parametrize("client", ["ours", "kopf"])
async def test_a_token_is_not_sent_after_a_redirect_to_another_server(client: str) -> None:
    async with serving() as api, serving() as stranger:
        configuration = Configuration(host=api.url, api_key={"BearerToken": "Bearer secret"})
        api.will(answer_json({}, 302, {"Location": f"{stranger.url}/version"}))
        stranger.will(answer_json({"gitVersion": "v1"}))
        async with clients(configuration) as requests:
            await requests[client]()
    [seen] = stranger.requests
    assert "Authorization" not in seen.headers


@pytest.mark.parametrize("client", ["ours", "kopf"])
async def test_a_token_from_a_file_that_ends_with_a_newline(client: str) -> None:
    async with serving() as api:
        api.will(answer_json({"gitVersion": "v1"}))
        async with clients(Configuration(host=api.url, api_key={"BearerToken": "Bearer one\n"})) as requests:
            await requests[client]()
    assert [seen.headers["Authorization"] for seen in api.requests] == ["Bearer one"]


@pytest.mark.parametrize("client", ["ours", "kopf"])
async def test_requests_impersonate_the_user_of_the_kubeconfig(client: str, tmp_path: Path) -> None:
    sent: list[list[tuple[str, str]]] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        headers = [(name, value) for name, value in request.headers.items() if name.startswith("Imp")]
        sent.append(sorted(headers))
        return await (UNAUTHORIZED if len(sent) == 1 else answer_json({"gitVersion": "v1"}))(request)

    (tmp_path / "token").write_text("one")
    user = {
        "tokenFile": "token",
        "as": "reader",
        "as-uid": "u-1",
        "as-groups": ["viewers", "others"],
        "as-user-extra": {"example.com/why": ["a", "b"], "scopes": ["é"]},
    }
    async with serving() as api:
        content = {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
            "clusters": [{"name": "k", "cluster": {"server": api.url}}],
            "users": [{"name": "u", "user": user}],
        }
        (tmp_path / "config").write_text(yaml.safe_dump(content))
        configuration = await load_configuration(str(tmp_path / "config"))
        (tmp_path / "token").write_text("two")
        api.will(answer, answer)
        async with clients(configuration) as requests:
            await requests[client]()
    expected = [
        ("Impersonate-Extra-example.com%2Fwhy", "a"),
        ("Impersonate-Extra-example.com%2Fwhy", "b"),
        ("Impersonate-Extra-scopes", "é"),
        ("Impersonate-Group", "others"),
        ("Impersonate-Group", "viewers"),
        ("Impersonate-Uid", "u-1"),
        ("Impersonate-User", "reader"),
    ]
    assert sent == [expected, expected]


@pytest.mark.parametrize("token", ["one\r\nX-Remote-User: admin", "one\x00"])
async def test_a_token_invalid_in_a_header_is_reported_and_not_sent(token: str) -> None:
    async with serving() as api:
        configuration = Configuration(host=api.url, api_key={"BearerToken": f"Bearer {token}"})
        async with clients(configuration) as requests:
            with pytest.raises(Unreachable, match="the token contains invalid characters"):
                await requests["ours"]()
    assert api.requests == []


async def test_message_about_an_unreachable_server(unused_tcp_port: int) -> None:
    async with clients(Configuration(host=f"https://127.0.0.1:{unused_tcp_port}")) as requests:
        with pytest.raises(Unreachable) as caught:
            await requests["ours"]()
    assert f"Cannot connect to host 127.0.0.1:{unused_tcp_port} [" in str(caught.value)
    assert "object at" not in str(caught.value)


async def test_a_request_does_not_wait_for_a_plugin_while_its_token_is_good() -> None:
    """The Lease must be renewed within ten seconds, and a plugin may take longer."""
    slow = asyncio.Event()
    now = [0.0]

    async def load(configuration: Configuration) -> Lifetime:
        if "BearerToken" in configuration.api_key:
            await slow.wait()
        configuration.api_key["BearerToken"] = f"Bearer at {now[0]:g}"
        return Lifetime.ending_in(1000.0)

    async with serving() as api:
        configuration = Configuration(host=api.url)
        await Renewal(load, lambda: now[0]).begin(configuration)
        api.will(*[answer_json({"gitVersion": "v1"})] * 3)
        async with clients(configuration) as requests:
            now[0] = 900.0
            await requests["ours"]()
            slow.set()
            now[0] = 1001.0
            await requests["ours"]()
    sent = [seen.headers["Authorization"] for seen in api.requests]
    assert sent == ["Bearer at 0", "Bearer at 1001"]


async def test_expired_credentials_that_cannot_be_renewed() -> None:
    now = [0.0]

    async def load(configuration: Configuration) -> Lifetime:
        if now[0] > 0:
            raise OSError("the cloud is away")
        return Lifetime.ending_in(10.0)

    async with serving() as api:
        configuration = Configuration(host=api.url)
        await Renewal(load, lambda: now[0]).begin(configuration)
        now[0] = 11.0
        async with clients(configuration) as requests:
            with pytest.raises(Unreachable, match="no credentials for the API server: the cloud is away"):
                await requests["ours"]()
    assert api.requests == []

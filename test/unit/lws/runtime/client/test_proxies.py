"""lws.runtime.client.transport: proxies on the way to the API server, chosen as kubectl does."""

from __future__ import annotations

import pytest
from yarl import URL

from lws.runtime.client.transport import needs_proxy, proxy_for
from lws.runtime.errors import ClusterError

PROXY = "http://proxy.test:3128"


@pytest.mark.parametrize(
    ("server", "exceptions", "direct"),
    [
        ("https://10.96.0.1", "", False),
        ("https://10.96.0.1", "10.0.0.0/8", True),
        ("https://10.96.0.1", "10.96.0.7/12", True),
        ("https://11.96.0.1", "10.0.0.0/8", False),
        ("https://10.96.0.1", "10.96.0.1", True),
        ("https://10.96.0.1", "10.96.0.1:443", True),
        ("https://10.96.0.1", "10.96.0.1:6443", False),
        ("https://10.96.0.1:6443", "10.96.0.1:6443", True),
        ("https://[fd00::1]", "fd00::/8", True),
        ("https://[fd00::1]", "10.0.0.0/8", False),
        ("https://[fd00::1]", "fd00:0::1", True),
        ("https://[fd00::1]:6443", "[fd00::1]:6443", True),
        ("https://[fd00::1]:6443", "[fd00::1]:443", False),
        ("https://[fd00::1]", "[fd00::1]", True),
        ("https://[::ffff:10.96.0.1]", "10.0.0.0/8", True),
        ("https://10.96.0.1", "10.0.0.0/99", False),
        ("https://api.cluster.example.com", "example.com", True),
        ("https://example.com", "example.com", True),
        ("https://example.com", "EXAMPLE.com", True),
        ("https://notexample.com", "example.com", False),
        ("https://api.example.com", ".example.com", True),
        ("https://example.com", ".example.com", False),
        ("https://api.example.com", "*.example.com", True),
        ("https://example.com", "*.example.com", False),
        ("https://api.example.com:6443", "example.com:6443", True),
        ("https://api.example.com", "example.com:6443", False),
        ("https://kubernetes.default.svc", ".svc,.cluster.local", True),
        ("https://api.example.com", "*", True),
        ("https://api.example.com", " other.com , example.com ", True),
        ("https://api.example.com", ",,", False),
        ("https://api.example.com", ".", False),
        ("https://127.0.0.1:6443", "", True),
        ("https://127.9.9.9", "", True),
        ("https://[::1]:6443", "", True),
        ("https://localhost:6443", "", True),
    ],
)
def test_no_proxy_is_parsed_as_go_does(server: str, exceptions: str, direct: bool) -> None:
    assert needs_proxy(URL(server), exceptions) is not direct


@pytest.mark.parametrize(
    ("server", "environment", "proxy"),
    [
        ("https://api.test", {"HTTPS_PROXY": PROXY}, PROXY),
        ("https://api.test", {"https_proxy": PROXY}, PROXY),
        ("https://api.test", {"HTTPS_PROXY": PROXY, "https_proxy": "http://other:1"}, PROXY),
        ("https://api.test", {"HTTPS_PROXY": "", "https_proxy": PROXY}, PROXY),
        ("https://api.test", {"HTTP_PROXY": PROXY}, None),
        ("http://api.test", {"HTTP_PROXY": PROXY}, PROXY),
        ("https://api.test", {"ALL_PROXY": PROXY}, None),
        ("https://api.test", {"HTTPS_PROXY": "proxy.test:3128"}, PROXY),
        ("https://api.test", {"HTTPS_PROXY": PROXY, "NO_PROXY": "api.test"}, None),
        ("https://api.test", {"HTTPS_PROXY": PROXY, "no_proxy": "api.test"}, None),
        ("https://api.test", {}, None),
    ],
)
def test_the_variables(server: str, environment: dict[str, str], proxy: str | None) -> None:
    assert proxy_for(URL(server), None, environment) == (URL(proxy) if proxy else None)


def test_the_proxy_of_the_kubeconfig_takes_precedence() -> None:
    environment = {"HTTPS_PROXY": "http://other:1", "NO_PROXY": "*"}
    assert proxy_for(URL("https://127.0.0.1"), PROXY, environment) == URL(PROXY)


@pytest.mark.parametrize("value", ["socks5://user:secret@proxy.test:1080", "http://", "http://proxy:port"])
def test_a_proxy_that_cannot_be_used_is_named_without_its_password(value: str) -> None:
    for configured, environment in ((value, {}), (None, {"HTTPS_PROXY": value})):
        with pytest.raises(ClusterError, match="it must be http://HOST:PORT") as error:
            proxy_for(URL("https://api.test"), configured, environment)
        assert "secret" not in error.value.message
    assert "HTTPS_PROXY" in error.value.message

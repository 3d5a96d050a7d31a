"""Which proxy leads to the API server? What the kubeconfig names, else what the environment does: read as Go
programs read it, so that kubectl and we take the same way. The kubernetes client and aiohttp know no CIDR in
NO_PROXY.

In: the address of the server, `proxy-url`, environment variables. Out: the address of a proxy, or None.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from contextlib import suppress

from yarl import URL

from lws.cluster.errors import ClusterError

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_VARIABLES = {"http": ("HTTP_PROXY", "http_proxy"), "https": ("HTTPS_PROXY", "https_proxy")}
_EXCEPTIONS = ("NO_PROXY", "no_proxy")
_SCHEMES = frozenset({"http", "https"})


def proxy_for(server: URL, configured: str | None, environment: Mapping[str, str]) -> URL | None:
    """The proxy for requests to `server`; configured: `proxy-url` of the kubeconfig, which nothing overrules.

    Raises ClusterError for a proxy that cannot be used.
    """
    if configured:
        return _parsed(configured, "proxy-url of the kubeconfig")
    name, value = _first(environment, _VARIABLES.get(server.scheme, ()))
    if not value or not needs_proxy(server, _first(environment, _EXCEPTIONS)[1]):
        return None
    return _parsed(value, name)


def needs_proxy(server: URL, exceptions: str) -> bool:
    """Whether requests to `server` go through a proxy where there is one.

    exceptions: $NO_PROXY, parts between commas: `*`; an address; addresses as CIDR; a domain, which stands
    for all below it too; a domain with a dot or `*.` in front, for those below it only. Addresses and domains
    may end with the one port that they are about.
    """
    host = (server.host or "").lower().rstrip(".")
    address = _address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return False
    return not any(_matches(part, host, server.port, address) for part in _parts(exceptions))


def _first(environment: Mapping[str, str], names: tuple[str, ...]) -> tuple[str, str]:
    return next(((name, environment[name]) for name in names if environment.get(name)), ("", ""))


def _parts(exceptions: str) -> Iterator[str]:
    return filter(None, (part.strip().lower() for part in exceptions.split(",")))


def _matches(part: str, host: str, port: int | None, address: _Address | None) -> bool:
    if part == "*":
        return True
    if "/" in part:
        with suppress(ValueError):
            return address is not None and address in ipaddress.ip_network(part, strict=False)
    name, its_port = _split(part)
    if its_port and its_port != str(port):
        return False
    exact = _address(name)
    if exact is not None:
        return exact == address
    domain = name.removeprefix("*").rstrip(".")
    return domain != "" and (host.endswith(f".{domain.removeprefix('.')}") or host == domain)


def _split(part: str) -> tuple[str, str]:
    """Name and port of `name`, `name:port`, an IPv6 address, `[address]` or `[address]:port`."""
    if part.startswith("["):
        name, _, rest = part[1:].partition("]")
        return name, rest.removeprefix(":")
    name, colon, port = part.partition(":")
    return (part, "") if ":" in port else (name, port if colon else "")


def _address(host: str) -> _Address | None:
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def _parsed(value: str, source: str) -> URL:
    """As Go does, what has no scheme is taken for the host and port of an HTTP proxy."""
    try:
        proxy = URL(value if "://" in value else f"http://{value}")
        usable = bool(proxy.host) and proxy.scheme in _SCHEMES
    except ValueError:
        usable = False
    if not usable:
        # It may hold a password.
        shown = value.rpartition("@")[2]
        raise ClusterError(
            f"the API server cannot be reached through the proxy {shown} ({source}): it must be "
            f"http://HOST:PORT or https://HOST:PORT"
        )
    return proxy

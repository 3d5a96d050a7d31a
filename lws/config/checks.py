"""Check what types cannot express in a Configuration, and report every mistake with its key."""

from __future__ import annotations

import difflib
import ipaddress
import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel, ValidationError

from lws.kube.names import dns1035_label_errors, dns1123_subdomain_errors
from lws_api.config.duration import render
from lws_api.config.v1alpha1 import (
    API_VERSION,
    GANG_PROVIDERS,
    KIND,
    MOST_SHARDS,
    NO_SERVER,
    TLS_VERSIONS,
    Configuration,
    LeaderElection,
)

# --- Describe mistakes in a configuration and their remedies, one line each.


KeyPath = tuple[str, ...]
"""Path of a value in the file, such as ("leaderElection", "leaseDuration")."""

Origin = Callable[[KeyPath], str]
"""Names the source of a value: a key of the file, or a flag."""


_REQUIRED: Mapping[KeyPath, str] = {
    ("apiVersion",): f": write `apiVersion: {API_VERSION}`",
    ("kind",): f": write `kind: {KIND}`",
    ("gangSchedulingManagement", "schedulerProvider"): ": set it, or remove the section",
    ("sharding", "shards"): ": set their number, or remove the section",
}


class ConfigError(Exception):
    """An invalid configuration. `lines`: one line per mistake, with its place and its remedy."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.lines = tuple(lines)
        super().__init__("\n".join(self.lines))


def config_error(error: ValidationError, origin: Origin) -> ConfigError:
    """Return the ConfigError for pydantic's errors in a Configuration."""
    lines = []
    for detail in error.errors(include_url=False):
        keys, index = _split(detail["loc"])
        lines.append(f"{origin(keys)}{index}: {_sentence(detail, keys)}")
    return ConfigError(lines)


def _split(location: tuple[int | str, ...]) -> tuple[KeyPath, str]:
    keys = tuple(part for part in location if isinstance(part, str))
    return keys, "".join(f"[{part}]" for part in location if isinstance(part, int))


def _sentence(detail: Mapping[str, Any], keys: KeyPath) -> str:
    value = detail["input"]
    match detail["type"]:
        case "extra_forbidden":
            valid = _keys_at(keys[:-1])
            similar = difflib.get_close_matches(keys[-1], valid, n=1)
            advice = f"did you mean {similar[0]}?" if similar else f"there are {', '.join(valid)}"
            return f"no such key; {advice}"
        case "missing":
            return f"is required{_REQUIRED.get(keys, '')}"
        case "literal_error":
            return f"must be {detail['ctx']['expected'].strip(chr(39))}, not {value!r}"
        case "string_type":
            quoted = "" if isinstance(value, Mapping | list) else f': put it in quotes, "{value}"'
            return f"must be a string, not {value!r}{quoted}"
        case "bool_type":
            return f"must be true or false, not {value!r}"
        case "int_type" | "int_from_float":
            return f"must be a whole number without quotes, not {value!r}"
        case "float_type":
            return f"must be a number without quotes, not {value!r}"
        case "tuple_type":
            return f"must be a list, not {value!r}"
        case "model_type" | "model_attributes_type":
            return f"must be a mapping with keys among {', '.join(_keys_at(keys))}, not {value!r}"
        case "value_error":
            return str(detail["ctx"]["error"])
        case _:
            return f"{detail['msg'][0].lower()}{detail['msg'][1:]}, not {value!r}"


def _keys_at(keys: KeyPath) -> list[str]:
    model: Any = Configuration
    for key in keys:
        annotations = {field.alias: field.annotation for field in model.model_fields.values()}
        kinds = getattr(annotations.get(key), "__args__", (annotations.get(key),))
        sections = (kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel))
        model = next(sections, None)
        if model is None:
            return []
    return [str(field.alias) for field in model.model_fields.values()]


# Maximum jitter factor of retries. The renew deadline must leave room for one retry.
_JITTER = 1.2

Mistake = tuple[KeyPath, str]


def mistakes_in(configuration: Configuration) -> Iterator[Mistake]:
    """Yield all mistakes as (key, message) pairs; the message says what is wrong and what to write."""
    for check in _CHECKS:
        yield from check(configuration)


def _webhook(configuration: Configuration) -> Iterator[Mistake]:
    delay = configuration.webhook.shutdown_delay
    if delay.total_seconds() < 0:
        yield ("webhook", "shutdownDelay"), f"must be 0s or more, not {render(delay)}"


def _leader_election(configuration: Configuration) -> Iterator[Mistake]:
    election = configuration.leader_election
    if not election.leader_elect:
        return
    lease, renew, retry = election.lease_duration, election.renew_deadline, election.retry_period
    if election.resource_lock != "leases":
        yield ("leaderElection", "resourceLock"), f"must be leases, not {election.resource_lock!r}"
    if problems := dns1123_subdomain_errors(election.resource_name):
        yield (
            ("leaderElection", "resourceName"),
            f"{election.resource_name!r} cannot name a Lease: {problems[0]}",
        )
    if lease.total_seconds() < 1:
        yield ("leaderElection", "leaseDuration"), f"must be 1s or more, not {render(lease)}"
    elif renew >= lease:
        message = f"must be shorter than leaseDuration ({render(lease)}), not {render(renew)}"
        yield ("leaderElection", "renewDeadline"), message
    if retry.total_seconds() <= 0:
        yield ("leaderElection", "retryPeriod"), f"must be longer than 0s, not {render(retry)}"
    elif retry * _JITTER >= renew:
        message = (
            f"{_JITTER} times it must be shorter than renewDeadline ({render(renew)}); it is {render(retry)}"
        )
        yield ("leaderElection", "retryPeriod"), message


def _addresses(configuration: Configuration) -> Iterator[Mistake]:
    addresses = {
        ("metrics", "bindAddress"): configuration.metrics.bind_address,
        ("health", "healthProbeBindAddress"): configuration.health.health_probe_bind_address,
        ("debug", "bindAddress"): configuration.debug.bind_address,
    }
    for path, address in addresses.items():
        host, separator, port = address.rpartition(":")
        # In an IPv6 address without brackets, the last group would be taken for the port.
        well_formed = (
            separator
            and port.isascii()
            and port.isdecimal()
            and (":" not in host or host[:1] + host[-1:] == "[]")
        )
        if address != NO_SERVER and not (well_formed and int(port) <= 65535):
            yield (
                path,
                f'must be host:port such as ":8443" or "127.0.0.1:8443", or "0" for none; not {address!r}',
            )
        elif path[0] == "debug" and address != NO_SERVER and not _is_loopback(host):
            yield path, f'must be a loopback address, such as "127.0.0.1:6060"; not {address!r}'


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        # A name, even localhost, may resolve to any address.
        return False


def _endpoints(configuration: Configuration) -> Iterator[Mistake]:
    health = configuration.health
    for key, path in (
        ("readinessEndpointName", health.readiness_endpoint_name),
        ("livenessEndpointName", health.liveness_endpoint_name),
    ):
        if not path.startswith("/") or path == "/":
            yield ("health", key), f"must be a URL path such as /healthz, not {path!r}"
    if health.readiness_endpoint_name == health.liveness_endpoint_name:
        yield ("health", "livenessEndpointName"), "must differ from readinessEndpointName"


def _tls(configuration: Configuration) -> Iterator[Mistake]:
    tls = configuration.tls
    if tls.min_version and tls.min_version not in TLS_VERSIONS:
        yield ("tls", "minVersion"), f"must be {' or '.join(TLS_VERSIONS)}, not {tls.min_version!r}"
    unknown = [suite for suite in tls.cipher_suites if not is_known(suite)]
    for suite in unknown:
        yield (
            ("tls", "cipherSuites"),
            f"there is no suite {suite!r}: write names such as {next(iter(TLS12_SUITES))}",
        )
    if tls.cipher_suites and tls.min_version == "VersionTLS13":
        yield (
            ("tls", "cipherSuites"),
            "must be left out with minVersion VersionTLS13: the suites of TLS 1.3 are fixed",
        )
    asks_for_tls12 = TLS13_SUITES.isdisjoint(tls.cipher_suites)
    if tls.cipher_suites and not unknown and asks_for_tls12 and not openssl_names(tls.cipher_suites):
        yield ("tls", "cipherSuites"), f"none of them can be served by {ssl.OPENSSL_VERSION}: add a newer one"


def _certificates(configuration: Configuration) -> Iterator[Mistake]:
    certificates = configuration.internal_cert_management
    if certificates.enable:
        if problems := dns1035_label_errors(certificates.webhook_service_name):
            message = f"{certificates.webhook_service_name!r} cannot name a Service: {problems[0]}"
            yield ("internalCertManagement", "webhookServiceName"), message
        if problems := dns1123_subdomain_errors(certificates.webhook_secret_name):
            message = f"{certificates.webhook_secret_name!r} cannot name a Secret: {problems[0]}"
            yield ("internalCertManagement", "webhookSecretName"), message


def _gang_scheduling(configuration: Configuration) -> Iterator[Mistake]:
    gang = configuration.gang_scheduling_management
    if gang is not None and gang.scheduler_provider not in GANG_PROVIDERS:
        message = f"must be one of {', '.join(GANG_PROVIDERS)}, not {gang.scheduler_provider!r}"
        yield ("gangSchedulingManagement", "schedulerProvider"), message


def _node_loss(configuration: Configuration) -> Iterator[Mistake]:
    after = configuration.node_loss.after
    if after.total_seconds() < 0:
        yield ("nodeLoss", "after"), f"must be 0s or more, not {render(after)}"


def _sharding(configuration: Configuration) -> Iterator[Mistake]:
    path = ("sharding", "shards")
    shards = configuration.sharding.shards if configuration.sharding is not None else 1
    if not 1 <= shards <= MOST_SHARDS:
        yield path, f"must be 1 to {MOST_SHARDS}, not {shards}; leave sharding out to have one manager act"
    elif shards > 1:
        yield from _shard_leases(path, shards, configuration.leader_election)


def _shard_leases(path: KeyPath, shards: int, election: LeaderElection) -> Iterator[Mistake]:
    if not election.leader_elect:
        message = (
            f"{shards} shards need leaderElection.leaderElect true, because Leases keep two managers from "
            "acting on the same sets; set it, or leave sharding out"
        )
        yield path, message
        return
    name = election.resource_name
    last = f"{name}-{shards - 1}"
    if not dns1123_subdomain_errors(name) and (problems := dns1123_subdomain_errors(last)):
        message = f"with {shards} shards, one Lease is named {last!r}: {problems[0]}; choose a shorter name"
        yield ("leaderElection", "resourceName"), message
    base, _, number = name.rpartition("-")
    if base and number.isascii() and number.isdecimal() and int(number) < MOST_SHARDS:
        message = (
            f"{name!r} is the Lease of shard {int(number)} for managers with the name {base!r}; with "
            "sharding, choose a name that does not end in a number"
        )
        yield ("leaderElection", "resourceName"), message


_CHECKS = (
    _webhook,
    _leader_election,
    _addresses,
    _endpoints,
    _tls,
    _certificates,
    _gang_scheduling,
    _node_loss,
    _sharding,
)

TLS13_SUITES = frozenset({"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"})
"""Suites of TLS 1.3, which cannot be chosen individually."""

TLS12_SUITES: Mapping[str, str] = MappingProxyType(
    {
        "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
        "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256": "ECDHE-ECDSA-AES128-SHA256",
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
        "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305": "ECDHE-ECDSA-CHACHA20-POLY1305",
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
        "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA": "ECDHE-ECDSA-RC4-SHA",
        "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA": "ECDHE-RSA-DES-CBC3-SHA",
        "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
        "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256": "ECDHE-RSA-AES128-SHA256",
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
        "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305": "ECDHE-RSA-CHACHA20-POLY1305",
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
        "TLS_ECDHE_RSA_WITH_RC4_128_SHA": "ECDHE-RSA-RC4-SHA",
        "TLS_RSA_WITH_3DES_EDE_CBC_SHA": "DES-CBC3-SHA",
        "TLS_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
        "TLS_RSA_WITH_AES_128_CBC_SHA256": "AES128-SHA256",
        "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
        "TLS_RSA_WITH_AES_256_CBC_SHA": "AES256-SHA",
        "TLS_RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
        "TLS_RSA_WITH_RC4_128_SHA": "RC4-SHA",
    }
)
"""Go's names of TLS 1.2 suites, including insecure suites and two legacy spellings → OpenSSL's names."""


def is_known(suite: str) -> bool:
    """Return whether a configuration may use this name of a suite."""
    return suite in TLS13_SUITES or suite in TLS12_SUITES


def openssl_names(suites: Iterable[str]) -> tuple[str, ...]:
    """Return OpenSSL's names of the TLS 1.2 suites that it supports, in order and without duplicates."""
    names = dict.fromkeys(TLS12_SUITES[suite] for suite in suites if suite in TLS12_SUITES)
    return tuple(name for name in names if _is_served(name))


def _is_served(name: str) -> bool:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).set_ciphers(name)
    except ssl.SSLError:
        return False
    return True

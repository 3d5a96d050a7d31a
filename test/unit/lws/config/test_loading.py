"""lws.config.loading: the file overrides defaults, and flags override the file."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import pytest
import yaml

from lws.config import ConfigError, Settings, TlsSettings, load
from lws.config.loading import operator_namespace
from lws.kube.nodes import NodeLossPolicy
from lws.policies import Policies
from lws_api.config.v1alpha1 import Configuration

HEAD = "apiVersion: config.lws.x-k8s.io/v1alpha1\nkind: Configuration\n"
NOWHERE = Path("/nonexistent/namespace")


def settings(
    path: str | None = None,
    flags: Mapping[str, object] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Settings:
    return load(path, flags or {}, environ or {}, NOWHERE)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "config.yaml"


@pytest.mark.parametrize("path", [None, ""])
def test_defaults_without_a_file(path: str | None) -> None:
    loaded = settings(path)
    assert yaml.safe_load(loaded.effective)["leaderElection"]["leaseDuration"] == "15s"
    defaults = Configuration.model_validate(yaml.safe_load(HEAD))
    assert loaded == Settings(defaults, "lws-system", serves_webhooks=True)
    assert loaded.tls == TlsSettings(ssl.TLSVersion.TLSv1_2, ())
    assert (loaded.client_qps, loaded.shards) == (500.0, 1)
    assert (loaded.gang_provider, loaded.workload_aware_scheduling) == (None, False)
    assert loaded.policies == Policies(NodeLossPolicy(timedelta(minutes=5), force_delete=False))


def test_a_file_with_all_fields(config: Path) -> None:
    text = (
        HEAD
        + """
webhook: {port: 1, host: 127.0.0.1, certDir: /certs, shutdownDelay: 90s}
leaderElection:
  leaderElect: false
  leaseDuration: 1m
  renewDeadline: 30s
  retryPeriod: 500ms
  resourceLock: leases
  resourceName: mine
  resourceNamespace: elsewhere
metrics: {bindAddress: "0", perSet: false}
health: {healthProbeBindAddress: ":2", readinessEndpointName: /r, livenessEndpointName: /l}
debug: {bindAddress: "[::1]:3"}
tls: {minVersion: VersionTLS12, cipherSuites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]}
internalCertManagement: {enable: false, webhookServiceName: s, webhookSecretName: t}
clientConnection: {qps: 50, burst: 60}
gangSchedulingManagement: {schedulerProvider: volcano}
nodeLoss: {after: 1h, forceDelete: true}
featureGates: {WorkloadAwareScheduling: true}
sharding: {shards: 1}
"""
    )
    config.write_text(text, encoding="utf-8")
    loaded = settings(str(config))
    in_seconds = text.replace(" 1m", " 60s").replace(" 500ms", " 0.5s").replace(" 1h", " 3600s")
    assert yaml.safe_load(loaded.effective) == yaml.safe_load(in_seconds)
    assert loaded.tls == TlsSettings(ssl.TLSVersion.TLSv1_2, ("ECDHE-RSA-AES128-GCM-SHA256",))
    assert (loaded.client_qps, loaded.shards) == (50.0, 1)
    assert (loaded.gang_provider, loaded.workload_aware_scheduling) == ("volcano", True)
    assert loaded.policies == Policies(NodeLossPolicy(timedelta(hours=1), force_delete=True))


def test_shards(config: Path) -> None:
    config.write_text(HEAD + "sharding: {shards: 4}\n", encoding="utf-8")
    loaded = settings(str(config))
    assert loaded.shards == 4
    assert yaml.safe_load(loaded.effective)["sharding"] == {"shards": 4}
    # Absent unless configured.
    assert "sharding" not in yaml.safe_load(settings().effective)


def test_shards_are_refused_if_a_flag_disables_leader_election(config: Path) -> None:
    config.write_text(HEAD + "sharding: {shards: 4}\n", encoding="utf-8")
    with pytest.raises(
        ConfigError, match=r"config.yaml: sharding.shards: 4 shards need leaderElection.leaderElect"
    ):
        settings(str(config), {"leader-elect": False})


def test_the_effective_configuration_is_a_valid_file(config: Path) -> None:
    config.write_text(HEAD + "leaderElection: {leaseDuration: 1m}\n", encoding="utf-8")
    before = settings(str(config), {"kube-api-qps": 20.0})
    Configuration.model_validate(yaml.safe_load(before.effective))
    config.write_text(before.effective, encoding="utf-8")
    assert settings(str(config)) == before


def test_flags_override_the_file(config: Path) -> None:
    config.write_text(
        HEAD + 'metrics: {bindAddress: "0"}\nclientConnection: {qps: 1, burst: 2}\nleaderElection:\n',
        encoding="utf-8",
    )
    loaded = settings(
        str(config),
        {
            "kube-api-qps": 3.0,
            "leader-elect": False,
            "leader-elect-lease-duration": "20s",
            "metrics-bind-address": ":5",
            "health-probe-bind-address": "",
        },
    )
    configuration = loaded.configuration
    assert (loaded.client_qps, configuration.client_connection.burst) == (3.0, 2)
    election = configuration.leader_election
    assert (election.leader_elect, election.lease_duration) == (False, timedelta(seconds=20))
    assert (configuration.metrics.bind_address, configuration.health.health_probe_bind_address) == (":5", "0")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param('metrics: {bindAddress: ""}\n', ":8443", id="empty means default"),
        pytest.param('metrics: {bindAddress: "0"}\n', "0", id="0 means none"),
        pytest.param("metrics: {}\n", ":8443", id="absent means default"),
    ],
)
def test_metrics_address_in_a_file(config: Path, text: str, expected: str) -> None:
    config.write_text(HEAD + text, encoding="utf-8")
    assert settings(str(config)).configuration.metrics.bind_address == expected


def test_an_empty_metrics_flag_means_the_default() -> None:
    assert settings(flags={"metrics-bind-address": ""}).configuration.metrics.bind_address == ":8443"


@pytest.mark.parametrize(
    ("qps", "expected"), [("0", 500.0), ("0.5", 0.5), ("-1", 1e9)], ids=["zero", "slow", "no limit"]
)
def test_requests_per_second(qps: str, expected: float) -> None:
    assert settings(flags={"kube-api-qps": qps}).client_qps == expected


@pytest.mark.parametrize(
    ("suites", "version", "ciphers"),
    [
        pytest.param(
            "[TLS_AES_128_GCM_SHA256]", ssl.TLSVersion.TLSv1_3, (), id="suites of TLS 1.3 exclude TLS 1.2"
        ),
        pytest.param(
            "[TLS_AES_128_GCM_SHA256, TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384]",
            ssl.TLSVersion.TLSv1_2,
            ("ECDHE-RSA-AES256-GCM-SHA384",),
            id="both",
        ),
        pytest.param("[]", ssl.TLSVersion.TLSv1_2, (), id="no suites"),
    ],
)
def test_cipher_suites(config: Path, suites: str, version: ssl.TLSVersion, ciphers: tuple[str, ...]) -> None:
    config.write_text(f"{HEAD}tls: {{cipherSuites: {suites}}}\n", encoding="utf-8")
    assert settings(str(config)).tls == TlsSettings(version, ciphers)


def test_tls_13(config: Path) -> None:
    config.write_text(HEAD + "tls: {minVersion: VersionTLS13}\n", encoding="utf-8")
    assert settings(str(config)).tls == TlsSettings(ssl.TLSVersion.TLSv1_3, ())


@pytest.mark.parametrize(
    ("environ", "enabled"),
    [
        ({}, True),
        ({"ENABLE_WEBHOOKS": "false"}, False),
        ({"ENABLE_WEBHOOKS": "False"}, True),
        ({"ENABLE_WEBHOOKS": ""}, True),
    ],
)
def test_only_the_word_false_disables_webhooks(environ: dict[str, str], enabled: bool) -> None:
    assert settings(environ=environ).serves_webhooks is enabled


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"team-a", "team-a"),
        (b"  team-a\n", "team-a"),
        (b"", "lws-system"),
        (b" \n", "lws-system"),
        (b"\xff", "lws-system"),
    ],
)
def test_namespace_of_the_manager(tmp_path: Path, content: bytes, expected: str) -> None:
    path = tmp_path / "namespace"
    path.write_bytes(content)
    assert operator_namespace(path) == expected
    assert load(None, {}, {}, path).namespace == expected


def test_namespace_outside_a_cluster() -> None:
    assert operator_namespace(NOWHERE) == "lws-system"


def lines(path: str | None, flags: Mapping[str, object] | None = None) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as error:
        settings(path, flags)
    return error.value.lines


def test_an_error_in_the_file_names_the_file(config: Path) -> None:
    config.write_text(
        HEAD + "webhook: {prot: 1}\nhealth: {readinessEndpointName: readyz}\n", encoding="utf-8"
    )
    assert lines(str(config)) == (f"{config}: webhook.prot: no such key; did you mean port?",)
    config.write_text(HEAD + "health: {readinessEndpointName: readyz}\n", encoding="utf-8")
    assert lines(str(config)) == (
        f"{config}: health.readinessEndpointName: must be a URL path such as /healthz, not 'readyz'",
    )


def test_an_error_in_a_flag_names_the_flag(config: Path) -> None:
    config.write_text(HEAD, encoding="utf-8")
    assert lines(str(config), {"leader-elect-retry-period": "soon"}) == (
        "--leader-elect-retry-period: must be a duration such as 15s, 5m or 1m30s, not 'soon'",
    )
    (line,) = lines(str(config), {"health-probe-bind-address": "8081"})
    assert line.startswith('--health-probe-bind-address: must be host:port such as ":8443"')


def test_a_flag_does_not_hide_an_error_in_the_file(config: Path) -> None:
    config.write_text(HEAD + "clientConnection: {qps: fast}\n", encoding="utf-8")
    assert lines(str(config), {"kube-api-qps": 5.0}) == (
        f"{config}: clientConnection.qps: must be a number without quotes, not 'fast'",
    )


def test_a_flag_that_conflicts_with_a_default() -> None:
    assert lines(None, {"leader-elect-lease-duration": "5s"}) == (
        "built-in defaults: leaderElection.renewDeadline: must be shorter than leaseDuration (5s), not 10s",
    )

"""The chart renders consistent objects for all values.

Only helm is used: nothing is installed, and no cluster is needed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from lws.config.loading import load
from lws.runtime.leadership.shard_election import lease_names
from test.integration.release import (
    CHART,
    NAMESPACE,
    Helm,
    HelmAlone,
    Object,
    find,
    render,
)
from tools.localcluster import CommandError

ALL_ON = ("--set", "enableCertManager=true,enablePrometheus=true")
EVERYWHERE = [
    ("CustomResourceDefinition", "disaggregatedsetrolescalers.disaggregatedset.x-k8s.io"),
    ("CustomResourceDefinition", "disaggregatedsets.disaggregatedset.x-k8s.io"),
    ("CustomResourceDefinition", "leaderworkersets.leaderworkerset.x-k8s.io"),
    ("MutatingWebhookConfiguration", "lws-mutating-webhook-configuration"),
    ("Secret", "lws-webhook-server-cert"),
    ("Service", "lws-webhook-service"),
    ("ValidatingWebhookConfiguration", "lws-validating-webhook-configuration"),
]
OF_THE_RELEASE = [
    ("ClusterRole", "certificates-role"),
    ("ClusterRole", "disaggregatedset-admin-role"),
    ("ClusterRole", "disaggregatedset-editor-role"),
    ("ClusterRole", "disaggregatedset-role"),
    ("ClusterRole", "disaggregatedset-viewer-role"),
    ("ClusterRole", "leaderworkerset-editor-role"),
    ("ClusterRole", "leaderworkerset-viewer-role"),
    ("ClusterRole", "manager-role"),
    ("ClusterRole", "metrics-reader"),
    ("ClusterRole", "proxy-role"),
    ("ClusterRoleBinding", "certificates-rolebinding"),
    ("ClusterRoleBinding", "disaggregatedset-rolebinding"),
    ("ClusterRoleBinding", "manager-rolebinding"),
    ("ClusterRoleBinding", "proxy-rolebinding"),
    ("ConfigMap", "manager-config"),
    ("Deployment", "controller-manager"),
    ("PodDisruptionBudget", "controller-manager"),
    ("Role", "certificates-role"),
    ("Role", "leader-election-role"),
    ("RoleBinding", "certificates-rolebinding"),
    ("RoleBinding", "leader-election-rolebinding"),
    ("ServiceAccount", "controller-manager"),
]


@pytest.fixture(scope="module")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return HelmAlone(tmp_path_factory.mktemp("helm"))


def deployment(objects: list[Object]) -> Object:
    return next(obj for obj in objects if obj["kind"] == "Deployment")


def container(objects: list[Object]) -> Object:
    (manager,) = deployment(objects)["spec"]["template"]["spec"]["containers"]
    return dict(manager)


def configuration(objects: list[Object]) -> Object:
    (config_map,) = [obj for obj in objects if obj["kind"] == "ConfigMap"]
    return dict(yaml.safe_load(config_map["data"]["controller_manager_config.yaml"]))


def webhooks(objects: list[Object]) -> list[Object]:
    return [entry for obj in objects for entry in obj.get("webhooks", [])]


@pytest.mark.parametrize(
    ("name", "arguments", "full_name"),
    [
        ("lws", (), "lws"),
        ("my-lws-2", (), "my-lws-2"),
        ("serving", (), "serving-lws"),
        ("serving", ("--set", "nameOverride=groups"), "serving-groups"),
        ("serving", ("--set", "fullnameOverride=g"), "g"),
    ],
)
def test_the_chart_renders_these_objects(
    helm: Helm, name: str, arguments: tuple[str, ...], full_name: str
) -> None:
    objects = render(helm, *arguments, name=name)
    expected = [*EVERYWHERE, *((kind, f"{full_name}-{suffix}") for kind, suffix in OF_THE_RELEASE)]
    assert sorted((obj["kind"], obj["metadata"]["name"]) for obj in objects) == sorted(expected)


@pytest.mark.parametrize("minor", range(30, 38))
def test_helm_lint_finds_nothing(helm: Helm, minor: int) -> None:
    output = helm.helm("lint", "--strict", f"--kube-version=1.{minor}.0", str(CHART))
    assert "0 chart(s) failed" in output and "WARNING" not in output


@pytest.mark.parametrize("minor", range(30, 38))
def test_the_output_does_not_depend_on_the_kubernetes_version(helm: Helm, minor: int) -> None:
    assert render(helm, f"--kube-version=1.{minor}.0", *ALL_ON) == render(helm, *ALL_ON)


@pytest.mark.parametrize(
    "arguments", [(), ("--set", "service.port=9444"), ALL_ON], ids=["default", "port", "all on"]
)
def test_the_webhooks_reach_the_manager(helm: Helm, arguments: tuple[str, ...]) -> None:
    objects = render(helm, *arguments)
    service = find(objects, "Service", "lws-webhook-service")
    (port,) = service["spec"]["ports"]
    assert len(webhooks(objects)) == 4
    for entry in webhooks(objects):
        target = dict(entry["clientConfig"]["service"])
        target.pop("path")
        assert target == {"name": "lws-webhook-service", "namespace": NAMESPACE, "port": port["port"]}
    declared = {
        container_port["name"]: container_port["containerPort"]
        for container_port in container(objects)["ports"]
    }
    assert declared[port["targetPort"]] == configuration(objects)["webhook"]["port"]

    pod = deployment(objects)["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= pod.items()
    assert deployment(objects)["spec"]["selector"]["matchLabels"].items() <= pod.items()


@pytest.mark.parametrize("arguments", [(), ALL_ON], ids=["default", "all on"])
def test_certificates_are_never_part_of_the_release(helm: Helm, arguments: tuple[str, ...]) -> None:
    """Helm restores what it has rendered on a rollback, and removes it on an upgrade."""
    objects = render(helm, *arguments)
    assert not {"data", "stringData", "type"} & find(objects, "Secret", "lws-webhook-server-cert").keys()
    assert all("caBundle" not in entry["clientConfig"] for entry in webhooks(objects))


def test_cert_manager_issues_the_secrets_that_the_manager_mounts(helm: Helm) -> None:
    objects = render(helm, "--set", "enableCertManager=true")
    assert configuration(objects)["internalCertManagement"] == {"enable": False}

    secrets = {
        obj["metadata"]["name"]: obj["spec"]["secretName"] for obj in objects if obj["kind"] == "Certificate"
    }
    volumes = deployment(objects)["spec"]["template"]["spec"]["volumes"]
    mounted = {volume["secret"]["secretName"]: volume["name"] for volume in volumes if "secret" in volume}
    assert set(secrets.values()) == set(mounted)
    paths = {mount["name"]: mount["mountPath"] for mount in container(objects)["volumeMounts"]}
    assert paths[mounted["lws-webhook-server-cert"]] == "/tmp/k8s-webhook-server/serving-certs"
    assert paths[mounted["lws-metrics-server-cert"]] == "/tmp/k8s-metrics-server/serving-certs"

    serving = find(objects, "Certificate", "lws-serving-cert")["spec"]
    assert f"lws-webhook-service.{NAMESPACE}.svc" in serving["dnsNames"]
    assert find(objects, "Issuer", serving["issuerRef"]["name"])["spec"] == {"selfSigned": {}}
    for obj in objects:
        if "webhooks" in obj:
            injected_from = obj["metadata"]["annotations"]["cert-manager.io/inject-ca-from"]
            assert injected_from == f"{NAMESPACE}/lws-serving-cert"


def test_the_manager_has_no_permission_for_secrets_with_cert_manager(helm: Helm) -> None:
    objects = render(helm, "--set", "enableCertManager=true")
    verbs = {
        (resource, verb)
        for obj in objects
        if obj["kind"] in ("ClusterRole", "Role")
        for rule in obj["rules"]
        for resource in rule.get("resources", [])
        for verb in rule["verbs"]
        if resource == "secrets" or resource.endswith("webhookconfigurations")
    }
    # The manager reads its namespaceSelector to know where sets can run.
    assert verbs == {("mutatingwebhookconfigurations", "get")}


@pytest.mark.parametrize("with_cert_manager", [False, True])
def test_prometheus_finds_and_may_read_the_metrics(helm: Helm, with_cert_manager: bool) -> None:
    extra = f"enablePrometheus=true,enableCertManager={str(with_cert_manager).lower()}"
    objects = render(
        helm, "--set", f"{extra},prometheus.namespace=watch,prometheus.serviceAccounts={{scraper}}"
    )

    service = find(objects, "Service", "lws-controller-manager-metrics-service")
    monitor = find(objects, "ServiceMonitor", "lws-controller-manager-metrics-monitor")["spec"]
    (endpoint,), (port,) = monitor["endpoints"], service["spec"]["ports"]
    services = [obj for obj in objects if obj["kind"] == "Service"]
    selector = monitor["selector"]["matchLabels"].items()
    assert [obj for obj in services if selector <= obj["metadata"]["labels"].items()] == [service]
    assert (endpoint["port"], endpoint["scheme"]) == (port["name"], "https")
    declared = {
        container_port["name"]: container_port["containerPort"]
        for container_port in container(objects)["ports"]
    }
    assert declared[port["targetPort"]] == 8443
    if with_cert_manager:
        certificate = find(objects, "Certificate", "lws-metrics-cert")["spec"]
        assert endpoint["tlsConfig"]["serverName"] in certificate["dnsNames"]
        assert endpoint["tlsConfig"]["ca"]["secret"]["name"] == certificate["secretName"]
    else:
        assert endpoint["tlsConfig"] == {"insecureSkipVerify": True}

    scraper = {"kind": "ServiceAccount", "name": "scraper", "namespace": "watch"}
    assert find(objects, "RoleBinding", "lws-prometheus-k8s")["subjects"] == [scraper]
    reader = {"kind": "ServiceAccount", "name": "lws-metrics-reader", "namespace": NAMESPACE}
    assert find(objects, "ClusterRoleBinding", "lws-metrics-reader")["subjects"] == [reader, scraper]

    token = endpoint["authorization"]["credentials"]
    secret = find(objects, "Secret", token["name"])
    assert secret["type"] == "kubernetes.io/service-account-token" and token["key"] == "token"
    assert secret["metadata"]["annotations"]["kubernetes.io/service-account.name"] == reader["name"]
    assert find(objects, "ServiceAccount", reader["name"])["automountServiceAccountToken"] is False


def test_metrics_are_rendered_without_the_prometheus_operator(helm: Helm) -> None:
    kinds = [
        obj["kind"] for obj in render(helm, "--set", "enablePrometheus=true,prometheus.serviceMonitor=false")
    ]
    assert kinds.count("Service") == 2
    assert "ServiceMonitor" not in kinds
    # No client would use its token.
    assert kinds.count("ServiceAccount") == kinds.count("Secret") == 1


def test_the_pod_monitor_equals_the_service_monitor(helm: Helm) -> None:
    how = (
        "--set",
        "enablePrometheus=true,enableCertManager=true,prometheus.interval=15s,prometheus.labels.release=main",
        "--set-json",
        'prometheus.relabelings=[{"action":"labeldrop","regex":"pod"}]',
    )
    by_service = render(helm, *how)
    by_pod = render(helm, *how, "--set", "prometheus.podMonitor=true,prometheus.serviceMonitor=false")
    name = "lws-controller-manager-metrics-monitor"
    service, pod = find(by_service, "ServiceMonitor", name), find(by_pod, "PodMonitor", name)
    (endpoint,), (pod_endpoint,) = service["spec"]["endpoints"], pod["spec"]["podMetricsEndpoints"]
    assert endpoint | {"port": "metrics"} == pod_endpoint
    assert endpoint["interval"] == "15s" and endpoint["relabelings"]
    assert service["metadata"]["labels"] == pod["metadata"]["labels"]
    assert pod["metadata"]["labels"]["release"] == "main"
    assert pod["spec"]["selector"] == service["spec"]["selector"]
    assert "metrics" in {port["name"] for port in container(by_pod)["ports"]}
    kinds = [obj["kind"] for obj in by_pod]
    assert "ServiceMonitor" not in kinds


CHANGED: dict[str, Any] = {
    "affinity": {"nodeAffinity": {}},
    "alerts.enabled": True,
    "commonLabels": {"team": "serving"},
    "configuration": {
        "clientConnection": {"qps": 10.5, "burst": 20},
        "leaderElection": {"leaseDuration": "30s"},
    },
    "crds.enabled": False,
    "crds.keep": False,
    "dashboard.enabled": True,
    "dnsPolicy": "Default",
    "enableCertManager": True,
    "enableDisaggregatedSet": False,
    "enablePrometheus": True,
    "extraArgs": ["--zap-encoder=json"],
    "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy"}],
    "extraVolumeMounts": [{"name": "authorities", "mountPath": "/etc/ssl/certs"}],
    "extraVolumes": [{"name": "authorities", "configMap": {"name": "authorities"}}],
    "featureGates": {"WorkloadAwareScheduling": True},
    "fullnameOverride": "other",
    "gangSchedulingManagement": {"schedulerProvider": "volcano"},
    "global.imagePullSecrets": [{"name": "shared"}],
    "hostNetwork": True,
    "image.manager.digest": f"sha256:{'0' * 64}",
    "image.manager.pullPolicy": "Always",
    "image.manager.repository": "registry.example.com/lws",
    "image.manager.tag": "v9",
    "imagePullSecrets": [{"name": "pull"}],
    "logLevel": "debug",
    "nameOverride": "other",
    "networkPolicy.enabled": True,
    "nodeSelector": {"pool": "system"},
    "podAnnotations": {"note": "one"},
    "podDisruptionBudget.enabled": False,
    "podDisruptionBudget.maxUnavailable": "50%",
    "podLabels": {"note": "one"},
    "podSecurityContext": {"runAsNonRoot": True, "runAsUser": 1},
    "ports.metrics": 9445,
    "ports.probes": 9446,
    "priorityClassName": "system-cluster-critical",
    "replicaCount": 3,
    "resources": {"limits": {"memory": "1Gi"}},
    "securityContext": {"privileged": False},
    "service.port": 9444,
    "serviceAccount.annotations": {"note": "one"},
    "serviceAccount.labels": {"note": "one"},
    "serviceAccount.name": "other",
    "strategy": {"type": "Recreate"},
    "tolerations": [{"operator": "Exists"}],
    "topologySpreadConstraints": [],
    "userRoles.aggregate": False,
    "webhooks.failurePolicy": "Ignore",
    "webhooks.namespaceSelector": {"matchLabels": {"lws": "yes"}},
    "webhooks.timeoutSeconds": 5,
}
CHANGED_WITH: dict[str, dict[str, Any]] = {
    "enablePrometheus=true": {
        "prometheus.interval": "15s",
        "prometheus.labels": {"release": "main"},
        "prometheus.metricRelabelings": [{"action": "drop", "regex": "a"}],
        "prometheus.namespace": "watch",
        "prometheus.relabelings": [{"action": "labeldrop", "regex": "pod"}],
        "prometheus.scrapeTimeout": "5s",
        "prometheus.serviceAccounts": ["scraper"],
        "prometheus.serviceMonitor": False,
        "prometheus.tokenSecretName": "token",
        "service.type": "NodePort",
    },
    "enablePrometheus=true,prometheus.serviceMonitor=false": {"prometheus.podMonitor": True},
    "enablePrometheus=true,networkPolicy.enabled=true": {
        "networkPolicy.apiServer.cidrs": ["10.0.0.1/32"],
        "networkPolicy.apiServer.ports": [443],
        "networkPolicy.extraEgress": [{"ports": [{"port": 3128}]}],
        "networkPolicy.extraIngress": [{"ports": [{"port": 8081}]}],
        "networkPolicy.metricsFrom": [{"podSelector": {}}],
    },
    "serviceAccount.name=other": {"serviceAccount.create": False},
    "alerts.enabled=true": {
        "alerts.labels": {"release": "main"},
        "alerts.runbookURL": "https://example.com/lws/blob/main/",
    },
    "dashboard.enabled=true": {
        "dashboard.annotations": {"grafana_folder": "Serving"},
        "dashboard.labels.grafana_dashboard": "yes",
        "dashboard.namespace": "watch",
    },
}


@pytest.mark.parametrize(("key", "value"), CHANGED.items(), ids=CHANGED)
def test_every_value_changes_the_output(helm: Helm, plain: list[Object], key: str, value: Any) -> None:
    before = render(helm) if key.startswith(("crds", "enableDisaggregatedSet")) else plain
    assert render_small(helm, key, value) != before


@pytest.mark.parametrize(
    ("others", "key", "value"),
    [(others, key, value) for others, table in CHANGED_WITH.items() for key, value in table.items()],
)
def test_every_conditional_value_changes_the_output(helm: Helm, others: str, key: str, value: Any) -> None:
    others_only = render_small(helm, "global", {}, "--set", others)
    assert render_small(helm, key, value, "--set", others) != others_only


def test_the_tables_contain_every_value() -> None:
    """A value that is added to the chart has to be added to the tables."""
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    free_form = {"resources", "podSecurityContext", "securityContext"}

    def leaves(tree: dict[str, Any], prefix: str = "") -> Iterator[str]:
        for key, value in tree.items():
            if isinstance(value, dict) and value and key not in free_form:
                yield from leaves(value, f"{prefix}{key}.")
            else:
                yield prefix + key

    changed = {*CHANGED, *(key for table in CHANGED_WITH.values() for key in table)}
    assert sorted(leaves(values)) == sorted(changed)


FURTHER_CONFIGURATION = {
    "clientConnection": {"qps": 100.5, "burst": 2000},
    "leaderElection": {"leaseDuration": "30s", "renewDeadline": "20s", "retryPeriod": "1500ms"},
    "metrics": {"perSet": False},
    "debug": {"bindAddress": "127.0.0.1:6060"},
    "tls": {"minVersion": "VersionTLS12", "cipherSuites": ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"]},
}


@pytest.fixture(scope="module")
def plain(helm: Helm) -> list[Object]:
    return render_small(helm, "global", {})


def render_small(helm: Helm, key: str, value: Any, *arguments: str) -> list[Object]:
    """Render with one changed value.

    The CRDs, which are large, are left out unless the value concerns them.
    """
    about = ("crds", "enableDisaggregatedSet")
    without = () if key.startswith(about) else ("--set", "crds.enabled=false")
    return render(helm, *without, "--set-json", f"{key}={json.dumps(value)}", *arguments)


@pytest.mark.parametrize(
    ("argument", "complaint"),
    [
        ("gangSchedulingManagement.schedulerProvider=other", "/gangSchedulingManagement/schedulerProvider"),
        ("enableDisaggregatedSet=no", "/enableDisaggregatedSet"),
        ("image.tag=v1", "'tag' not allowed"),
        ("replicaCount=two", "/replicaCount"),
        ("service.port=443", "/service/port"),
        ("image.manager.digest=latest", "/image/manager/digest"),
        ("podLabels.control-plane=x", "podLabels"),
        ("strategy.kind=Recreate", "strategy"),
        ("networkPolicy.apiServer.cidrs={10.0.0.1}", "/networkPolicy/apiServer/cidrs"),
        ("commonLabels.control-plane=x", "commonLabels"),
        ("configuration.leaderElection.resourceName=x", "'resourceName' not allowed"),
        ("configuration.leaderElection.leaseDuration=15", "/configuration/leaderElection/leaseDuration"),
        ("configuration.sharding.shards=0", "/configuration/sharding/shards"),
        ("configuration.sharding.shards=65", "/configuration/sharding/shards"),
        ("webhooks.failurePolicy=fail", "/webhooks/failurePolicy"),
    ],
)
def test_invalid_values_are_rejected(helm: Helm, argument: str, complaint: str) -> None:
    with pytest.raises(CommandError, match=complaint):
        render(helm, "--set", argument)


def test_additional_configuration_keeps_that_of_the_chart(helm: Helm) -> None:
    extra = {"leaderElection": {"leaseDuration": "30s"}, "tls": {"minVersion": "VersionTLS13"}}
    assert configuration(render_small(helm, "configuration", extra)) == {
        "apiVersion": "config.lws.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "webhook": {"port": 9443},
        "metrics": {"bindAddress": ":8443"},
        "health": {"healthProbeBindAddress": ":8081"},
        "leaderElection": {"leaderElect": True, "leaseDuration": "30s"},
        "internalCertManagement": {"enable": True},
        "tls": {"minVersion": "VersionTLS13"},
    }


@pytest.mark.parametrize("further", [{}, FURTHER_CONFIGURATION], ids=["default", "additional"])
def test_the_manager_loads_the_configuration(helm: Helm, tmp_path: Path, further: dict[str, Any]) -> None:
    file = tmp_path / "controller_manager_config.yaml"
    file.write_text(yaml.safe_dump(configuration(render_small(helm, "configuration", further))))
    loaded = load(str(file), {}, {}).configuration
    assert loaded.webhook.port == 9443
    assert loaded.internal_cert_management.enable
    assert loaded.leader_election.lease_duration == timedelta(seconds=30 if further else 15)


def test_a_change_of_the_configuration_rolls_the_deployment(helm: Helm, plain: list[Object]) -> None:
    changed = render_small(helm, "configuration", {"leaderElection": {"leaseDuration": "30s"}})
    assert deployment(changed)["spec"]["template"] != deployment(plain)["spec"]["template"]


def test_the_role_allows_the_lease_of_every_shard(helm: Helm, plain: list[Object]) -> None:
    def leases(objects: list[Object]) -> list[str]:
        rules = [
            rule
            for obj in objects
            if obj["kind"] == "Role"
            for rule in obj["rules"]
            if "get" in rule["verbs"]
        ]
        return [name for rule in rules if rule["resources"] == ["leases"] for name in rule["resourceNames"]]

    name = "b8b2488c.x-k8s.io"
    shared = render_small(helm, "configuration", {"sharding": {"shards": 4}})
    assert configuration(shared)["sharding"] == {"shards": 4}
    assert leases(shared) == [name, *lease_names(name, 4)]
    for alone in (plain, render_small(helm, "configuration", {"sharding": {"shards": 1}})):
        assert leases(alone) == [name]


def test_common_labels_are_on_every_object_but_not_in_selectors(helm: Helm) -> None:
    objects = render(helm, "--set", "commonLabels.team=serving", *ALL_ON)
    for obj in objects:
        assert obj["metadata"]["labels"]["team"] == "serving", obj
    assert deployment(objects)["spec"]["template"]["metadata"]["labels"]["team"] == "serving"
    selectors = [obj["spec"].get("selector", {}) for obj in objects if "spec" in obj]
    assert "team" not in json.dumps(selectors)


def test_a_spread_constraint_counts_the_managers_own_pods(helm: Helm) -> None:
    spec = deployment(render(helm))["spec"]
    (constraint,) = spec["template"]["spec"]["topologySpreadConstraints"]
    assert constraint["labelSelector"] == spec["selector"]


@pytest.mark.parametrize("selector", [{}, {"matchLabels": {"app": "another"}}, {"matchExpressions": []}])
def test_the_selector_of_a_spread_constraint_stays_as_written(helm: Helm, selector: dict[str, Any]) -> None:
    entry = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
    written = [{**entry, "labelSelector": selector}, {**entry, "labelSelector": None}]
    spec = deployment(render_small(helm, "topologySpreadConstraints", written))["spec"]
    chosen, filled_in = spec["template"]["spec"]["topologySpreadConstraints"]
    assert chosen == written[0]
    assert filled_in == {**entry, "labelSelector": spec["selector"]}

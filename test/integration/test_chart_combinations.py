"""Chart values work together, and combinations that cannot work are rejected.

Among them are OpenShift, the host network, a NetworkPolicy, and the values of upstream's chart. Only helm is
used: nothing is installed, and no cluster is needed.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from test.integration.release import CHART, NAMESPACE, Helm, HelmAlone, Object, find, render
from tools.localcluster import CommandError

DEPLOYMENT = ("Deployment", "lws-controller-manager")


@pytest.fixture(scope="module")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return HelmAlone(tmp_path_factory.mktemp("helm"))


def with_values(helm: Helm, values: Object) -> list[Object]:
    """Render the chart, without the CRDs, which are large, unless a value concerns them."""
    if not any(key.startswith(("crds", "enableDisaggregatedSet")) for key in values):
        values = {"crds.enabled": False, **values}
    return render(helm, *(f"--set-json={key}={json.dumps(value)}" for key, value in values.items()))


def pod_of(objects: list[Object]) -> Object:
    return dict(find(objects, *DEPLOYMENT)["spec"]["template"]["spec"])


def container_of(objects: list[Object]) -> Object:
    (manager,) = pod_of(objects)["containers"]
    return dict(manager)


class EachKeyOnce(yaml.SafeLoader):
    """A loader that rejects duplicate keys in what helm renders, as kustomize does."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> Object:
        keys = [self.construct_object(key) for key, _ in node.value]
        assert len({*keys}) == len(keys), keys
        return dict(super().construct_mapping(node, deep))


@pytest.mark.parametrize(
    ("monitors", "kind"),
    [
        ("serviceMonitor=true", "ServiceMonitor"),
        ("serviceMonitor=false,prometheus.podMonitor=true", "PodMonitor"),
    ],
)
def test_labels_of_an_object_override_common_labels(helm: Helm, monitors: str, kind: str) -> None:
    places = ("serviceAccount", "prometheus", "alerts", "dashboard")
    arguments = [f"--set={section}.labels.release=own" for section in places]
    arguments += ["--set=alerts.enabled=true,enablePrometheus=true,dashboard.enabled=true"]
    arguments += ["--set=commonLabels.release=common,commonLabels.team=a,crds.enabled=false"]
    text = helm.helm("template", "lws", str(CHART), *arguments, f"--set=prometheus.{monitors}")
    objects = [obj for obj in yaml.load_all(text, Loader=EachKeyOnce) if obj]
    own = {
        obj["kind"]: obj["metadata"]["labels"]
        for obj in objects
        if obj["metadata"]["labels"]["release"] == "own"
    }
    assert own.keys() == {"ServiceAccount", "PrometheusRule", "ConfigMap", kind}
    assert all(labels["team"] == "a" and labels["helm.sh/chart"] for labels in own.values())


def test_a_long_release_name_is_rejected_only_with_a_metrics_service(helm: Helm) -> None:
    release, plain = "a" * 40, ("--set=crds.enabled=false",)
    render(helm, *plain, name=release)
    render(helm, *plain, f"--set=fullnameOverride={'a' * 63}")
    with pytest.raises(CommandError, match="set fullnameOverride"):
        render(helm, *plain, "--set=enablePrometheus=true", name=release)
    render(helm, *plain, f"--set=enablePrometheus=true,fullnameOverride={'a' * 28}", name=release)


@pytest.mark.parametrize(("url", "has"), [("", False), ("https://example.com/", True)])
def test_alerts_link_a_runbook_only_if_its_url_is_configured(helm: Helm, url: str, has: bool) -> None:
    rules = find(
        with_values(helm, {"alerts.enabled": True, "alerts.runbookURL": url}), "PrometheusRule", "lws-alerts"
    )
    annotations = [rule["annotations"] for group in rules["spec"]["groups"] for rule in group["rules"]]
    assert all(entry["summary"] for entry in annotations) and len(annotations) > 15
    runbooks = {entry.get("runbook_url", "").startswith(f"{url}docs/") for entry in annotations}
    assert runbooks == {has}


@pytest.mark.parametrize("group", ["alerts", "userRoles", "networkPolicy", "image.manager"])
def test_reused_values_of_an_older_chart_are_rejected_by_name(helm: Helm, group: str) -> None:
    """This happens with `helm upgrade --reuse-values`."""
    with pytest.raises(CommandError, match=f"missing propert(y|ies).*{group.rpartition('.')[2]}"):
        render(helm, f"--set={group}=null")


@pytest.fixture
def chart_with_notes(tmp_path: Path) -> Path:
    """Return the chart with its notes as one more object, because helm shows notes only with a cluster."""
    copy = tmp_path / "lws"
    shutil.copytree(CHART, copy, ignore=shutil.ignore_patterns("crds"))
    text = (copy / "templates" / "NOTES.txt").read_text()
    (copy / "templates" / "_notes.tpl").write_text(f'{{{{ define "notes" }}}}{text}{{{{ end }}}}')
    (copy / "templates" / "notes.yaml").write_text(
        'kind: Notes\nmetadata: {name: notes}\ntext: {{ include "notes" . | toJson }}\n'
    )
    return copy


WARNINGS: list[tuple[Object, str]] = [
    (
        {"enableDisaggregatedSet": False},
        "Nothing reconciles DisaggregatedSets, and their CRDs are not installed",
    ),
    ({"alerts.enabled": True}, "LWSAbsent fires after 5 minutes"),
]


@pytest.mark.parametrize(("values", "words"), WARNINGS, ids=[json.dumps(values) for values, _ in WARNINGS])
def test_notes_warn_about_values_with_unexpected_effects(
    helm: Helm, chart_with_notes: Path, values: Object, words: str
) -> None:
    def notes(values: Object) -> str:
        arguments = [f"--set-json={key}={json.dumps(value)}" for key, value in values.items()]
        return str(find(render(helm, *arguments, chart=chart_with_notes), "Notes", "notes")["text"])

    assert "WARNING" not in notes({})
    assert words in notes(values).partition("WARNING: ")[2]


CONTRADICTIONS: list[tuple[Object, str]] = [
    (
        {"extraArgs": ["--leader-elect=false"]},
        "replicaCount=2: all replicas would reconcile the same sets; remove the flag, or set replicaCount=1",
    ),
    ({"extraArgs": ["-leader-elect=F"], "replicaCount": 1}, "set strategy.type=Recreate"),
    (
        {
            "extraArgs": ["--leader-elect=0"],
            "replicaCount": 1,
            "strategy": {"type": "Recreate"},
            "configuration": {"sharding": {"shards": 2}},
        },
        "shards are held by Leases; remove one of the two",
    ),
    ({"extraArgs": ["--leader-elect-resource-name=x"]}, "permission only for the Lease b8b2488c.x-k8s.io"),
    ({"extraArgs": ["--health-probe-bind-address=:1"]}, "set ports.probes"),
    ({"extraArgs": ["--metrics-bind-address=:1"], "enablePrometheus": True}, "set ports.metrics"),
    (
        {"configuration": {"tls": {"minVersion": "VersionTLS13", "cipherSuites": ["a"]}}},
        "the manager would not start; remove one of the two",
    ),
    *(
        ({"image.manager": {"repository": repository, "tag": "main"}}, "remove image.manager from values")
        for repository in (
            "registry.k8s.io/lws/lws",
            "us-central1-docker.pkg.dev/k8s-staging-images/lws/lws",
        )
    ),
    ({"service.port": 8443}, "cannot listen on the same port twice; choose three different ports"),
    ({"ports.metrics": 8081}, "service.port=9443, ports.metrics=8081, ports.probes=8081"),
    ({"hostNetwork": True, "networkPolicy.enabled": True}, "set networkPolicy.enabled=false"),
    ({"serviceAccount.create": False}, "set the name of an existing ServiceAccount"),
    ({"prometheus.podMonitor": True}, "set enablePrometheus=true"),
    ({"prometheus.podMonitor": True, "enablePrometheus": True}, "set prometheus.serviceMonitor=false"),
    ({"extraVolumes": [{"name": "tmp", "emptyDir": {}}]}, "the chart has its own volume named tmp"),
    ({"featureGates": {"Other": True}}, "featureGates.Other=true"),
]


@pytest.mark.parametrize(
    ("values", "words"), CONTRADICTIONS, ids=[json.dumps(values) for values, _ in CONTRADICTIONS]
)
def test_contradictory_values_are_rejected_with_a_remedy(helm: Helm, values: Object, words: str) -> None:
    with pytest.raises(CommandError) as refused:
        with_values(helm, values)
    assert "these values contradict each other" in str(refused.value)
    assert words in str(refused.value)


def test_all_contradictions_are_reported_at_once(helm: Helm) -> None:
    with pytest.raises(CommandError) as refused:
        with_values(helm, {"service.port": 8443, "serviceAccount.create": False})
    assert str(refused.value).count("\n- ") == 2


@pytest.mark.parametrize(
    "values",
    [
        {"extraArgs": ["--leader-elect=false"], "replicaCount": 1, "strategy": {"type": "Recreate"}},
        {"extraArgs": ["--leader-elect=true", "--metrics-bind-address=0"]},
        {"featureGates": {"WorkloadAwareScheduling": True, "Other": False}},
        {"configuration": {"tls": {"minVersion": "VersionTLS12", "cipherSuites": ["a"]}}},
    ],
    ids=json.dumps,
)
def test_compatible_values_are_accepted(helm: Helm, values: Object) -> None:
    assert with_values(helm, values)


UPSTREAM_VALUES: Object = {
    "nameOverride": "",
    "fullnameOverride": "",
    "enablePrometheus": True,
    "enableCertManager": True,
    "enableDisaggregatedSet": True,
    "replicaCount": 1,
    "imagePullSecrets": [{"name": "registry"}],
    "image": {"manager": {"repository": "registry.example.com/lws", "tag": "main", "pullPolicy": "Always"}},
    "podAnnotations": {"note": "one"},
    "podSecurityContext": {"runAsNonRoot": True},
    "securityContext": {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    },
    "service": {"type": "ClusterIP", "port": 9443},
    "resources": {"requests": {"cpu": 1, "memory": "1Gi"}},
    "priorityClassName": "system-cluster-critical",
    "nodeSelector": {"pool": "system"},
    "tolerations": [{"operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "gangSchedulingManagement": {"schedulerProvider": "volcano"},
    "featureGates": {},
}
"""Every value of upstream's chart up to release 0.11."""


def test_values_of_upstreams_chart_keep_their_meaning(helm: Helm) -> None:
    objects = with_values(helm, UPSTREAM_VALUES)
    pod, manager = pod_of(objects), container_of(objects)
    assert find(objects, *DEPLOYMENT)["spec"]["replicas"] == 1
    assert manager["image"] == "registry.example.com/lws:main" and manager["imagePullPolicy"] == "Always"
    assert manager["resources"] == UPSTREAM_VALUES["resources"]
    assert manager["securityContext"] == UPSTREAM_VALUES["securityContext"]
    for key in ("imagePullSecrets", "priorityClassName", "nodeSelector", "tolerations", "affinity"):
        assert pod[key] == UPSTREAM_VALUES[key]
    for name in ("lws-serving-cert", "lws-metrics-cert"):
        assert find(objects, "Certificate", name)
    assert find(objects, "ServiceMonitor", "lws-controller-manager-metrics-monitor")


ALLOWED_VOLUMES = {
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
}


def refusals_of_restricted_v2(pod: Object) -> list[str]:
    """Return what OpenShift's constraint restricted-v2 would reject, by its published definition.

    It assigns users and groups by the namespace's annotations, so a pod that names one is rejected.
    """
    containers = [*pod["containers"], *pod.get("initContainers", [])]
    contexts = [
        pod.get("securityContext", {}),
        *(container.get("securityContext", {}) for container in containers),
    ]
    refusals = [f"host {key}" for key in ("hostNetwork", "hostPID", "hostIPC") if pod.get(key)]
    refusals += [
        key
        for security in contexts
        for key in ("runAsUser", "fsGroup", "supplementalGroups")
        if key in security
    ]
    refusals += [
        f"seccomp {security['seccompProfile']}"
        for security in contexts
        if security.get("seccompProfile", {}).get("type", "RuntimeDefault") != "RuntimeDefault"
    ]
    for container in containers:
        context = container.get("securityContext", {})
        if context.get("privileged") or context.get("allowPrivilegeEscalation"):
            refusals.append(f"{container['name']}: privileges")
        if set(context.get("capabilities", {}).get("add", [])) - {"NET_BIND_SERVICE"}:
            refusals.append(f"{container['name']}: capabilities")
        refusals += [f"host port {port}" for port in container.get("ports", []) if "hostPort" in port]
    for volume in pod.get("volumes", []):
        refusals += [f"volume {kind}" for kind in volume.keys() - {"name"} - ALLOWED_VOLUMES]
    return refusals


@pytest.mark.parametrize(
    "values", [{}, {"enableCertManager": True, "enablePrometheus": True}], ids=json.dumps
)
def test_openshift_admits_the_pods(helm: Helm, values: Object) -> None:
    assert refusals_of_restricted_v2(pod_of(with_values(helm, values))) == []


@pytest.mark.parametrize(
    ("values", "refusal"),
    [
        ({"podSecurityContext": {"runAsUser": 65532}}, "runAsUser"),
        ({"hostNetwork": True}, "host hostNetwork"),
        ({"extraVolumes": [{"name": "a", "hostPath": {"path": "/"}}]}, "volume hostPath"),
    ],
    ids=["user", "network", "volume"],
)
def test_openshift_would_reject_other_pods(helm: Helm, values: Object, refusal: str) -> None:
    assert refusal in refusals_of_restricted_v2(pod_of(with_values(helm, values)))


def test_two_managers_on_the_host_network_do_not_share_a_node(helm: Helm) -> None:
    objects = with_values(helm, {"hostNetwork": True, "ports.metrics": 10443, "ports.probes": 10081})
    pod, manager = pod_of(objects), container_of(objects)
    assert (pod["hostNetwork"], pod["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
    # Declared ports are host ports there, and the scheduler keeps two pods with the same ones off one node …
    assert sorted(port["containerPort"] for port in manager["ports"]) == [9443, 10081, 10443]
    # … so the old pod must be deleted before the new one is created.
    assert find(objects, *DEPLOYMENT)["spec"]["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1},
    }
    for probe in ("livenessProbe", "readinessProbe"):
        assert manager[probe]["httpGet"]["port"] == 10081
    (file,) = [obj for obj in objects if obj["kind"] == "ConfigMap"]
    configuration = yaml.safe_load(file["data"]["controller_manager_config.yaml"])
    assert configuration["metrics"] == {"bindAddress": ":10443"}
    assert configuration["health"] == {"healthProbeBindAddress": ":10081"}


def test_the_image_is_named_by_tag_digest_or_both(helm: Helm) -> None:
    repository, digest = {"image.manager.repository": "r/lws"}, f"sha256:{'a' * 64}"
    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
    for more, image in (
        ({}, f"r/lws:{version}"),
        ({"image.manager.tag": "v9"}, "r/lws:v9"),
        ({"image.manager.digest": digest}, f"r/lws@{digest}"),
        ({"image.manager.tag": "v9", "image.manager.digest": digest}, f"r/lws:v9@{digest}"),
    ):
        assert container_of(with_values(helm, repository | more))["image"] == image


def test_image_pull_secrets_of_the_chart_and_global_ones_are_combined(helm: Helm) -> None:
    first, second = {"name": "one"}, {"name": "two"}
    objects = with_values(helm, {"imagePullSecrets": [first], "global.imagePullSecrets": [first, second]})
    assert pod_of(objects)["imagePullSecrets"] == [first, second]


def test_an_existing_service_account_gets_every_permission(helm: Helm) -> None:
    objects = with_values(helm, {"serviceAccount.create": False, "serviceAccount.name": "theirs"})
    assert "ServiceAccount" not in {obj["kind"] for obj in objects}
    assert pod_of(objects)["serviceAccountName"] == "theirs"
    bindings = [obj for obj in objects if obj["kind"].endswith("Binding")]
    theirs = {"kind": "ServiceAccount", "name": "theirs", "namespace": NAMESPACE}
    assert len(bindings) >= 5 and all(binding["subjects"] == [theirs] for binding in bindings)


def test_user_roles_are_aggregated_only_if_configured(helm: Helm) -> None:
    def aggregated(objects: list[Object]) -> set[str]:
        labels = {label for obj in objects for label in obj["metadata"].get("labels", {})}
        return {label for label in labels if label.startswith("rbac.authorization.k8s.io/aggregate-to-")}

    assert len(aggregated(render(helm))) == 3
    assert aggregated(with_values(helm, {"userRoles.aggregate": False})) == set()


def test_crds_are_kept_left_out_or_removed(helm: Helm) -> None:
    def definitions(values: Object) -> list[Any]:
        objects = with_values(helm, values)
        crds = [obj for obj in objects if obj["kind"] == "CustomResourceDefinition"]
        return [crd["metadata"].get("annotations", {}).get("helm.sh/resource-policy") for crd in crds]

    assert definitions({"crds.keep": True}) == ["keep"] * 3
    assert definitions({"enableDisaggregatedSet": False}) == ["keep"]
    assert definitions({"crds.keep": False}) == [None] * 3
    # Helm would delete them, and all DisaggregatedSets with them, when the value changes.
    assert definitions({"crds.keep": False, "enableDisaggregatedSet": False}) == [None] * 3
    assert definitions({"crds.enabled": False}) == []


POLICY = ("NetworkPolicy", "lws-controller-manager")


def allowed(rules: list[Object], port: int | str, peer: Object | None = None) -> bool:
    """Report whether a rule allows TCP on that port, from or to that peer (None: no selector matches it)."""
    for rule in rules:
        peers = rule.get("from", rule.get("to", []))
        ports = [entry["port"] for entry in rule.get("ports", []) if entry.get("protocol", "TCP") == "TCP"]
        if (not peers or peer in peers) and (not ports or port in ports):
            return True
    return False


def test_a_network_policy_allows_only_the_needed_traffic(helm: Helm) -> None:
    assert "NetworkPolicy" not in {obj["kind"] for obj in render(helm)}
    objects = with_values(helm, {"networkPolicy.enabled": True, "enablePrometheus": True})
    policy = find(objects, *POLICY)["spec"]
    labels = find(objects, *DEPLOYMENT)["spec"]["template"]["metadata"]["labels"]
    assert policy["podSelector"]["matchLabels"].items() <= labels.items()
    assert policy["policyTypes"] == ["Ingress", "Egress"]

    scrapers = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    ingress, egress = policy["ingress"], policy["egress"]
    assert allowed(ingress, "webhook-server") and allowed(ingress, 8443, scrapers)
    assert not allowed(ingress, 8443) and not allowed(ingress, 8081) and not allowed(ingress, 22)
    assert allowed(egress, 443) and allowed(egress, 6443) and allowed(egress, 53)
    assert not allowed(egress, 8443) and not allowed(egress, 80)


def test_a_network_policy_is_narrowed_and_widened_by_values(helm: Helm) -> None:
    values = {
        "networkPolicy.enabled": True,
        "networkPolicy.apiServer": {"cidrs": ["10.96.0.1/32", "fd00::1/128"], "ports": [443]},
        "networkPolicy.extraEgress": [{"ports": [{"port": 3128}]}],
        "networkPolicy.extraIngress": [{"ports": [{"port": 8081}]}],
    }
    policy = find(with_values(helm, values), *POLICY)["spec"]
    ingress, egress = policy["ingress"], policy["egress"]
    assert allowed(ingress, "webhook-server") and allowed(ingress, 8081)
    # Without enablePrometheus, no client may reach the metrics.
    assert not allowed(ingress, 8443, {"namespaceSelector": {}})
    assert allowed(egress, 443, {"ipBlock": {"cidr": "fd00::1/128"}})
    assert not allowed(egress, 443) and not allowed(egress, 6443) and allowed(egress, 3128)

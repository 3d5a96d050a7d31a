"""The objects for the Prometheus operator and cert-manager have only fields that their CRDs define.

The CRDs are on the API server, but no controller runs: nothing is scraped or signed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from test.cluster import LOCAL, chosen
from test.harness.waiting import eventually
from test.integration.release import (
    CHART,
    NAMESPACE,
    ROOT,
    Object,
    Release,
    find,
    render,
)
from tools.localcluster import CommandError, LocalCluster, Options
from tools.localcluster.build import cache_directory, find_go
from tools.localcluster.recipe import go_environment
from tools.release.chart import rendered
from tools.release.places import run

MODULE = Path(__file__).parent / "charts" / "operators"
DEFINITIONS = {
    "github.com/prometheus-operator/prometheus-operator": [
        f"example/prometheus-operator-crd/monitoring.coreos.com_{kind}.yaml"
        for kind in ("servicemonitors", "podmonitors", "prometheusrules")
    ],
    "github.com/cert-manager/cert-manager": [
        f"deploy/crds/crd-{kind}.yaml" for kind in ("certificates", "issuers")
    ],
}
PRODUCTION = ROOT / "docs" / "start" / "values-production.yaml"
BY_POD = ("--set", "prometheus.podMonitor=true,prometheus.serviceMonitor=false")
EVERY_FIELD = (
    "--set",
    "prometheus.interval=15s,prometheus.scrapeTimeout=5s",
    "--set-json",
    'prometheus.relabelings=[{"action":"labeldrop","regex":"pod"}]',
    "--set-json",
    'prometheus.metricRelabelings=[{"action":"drop","sourceLabels":["__name__"],"regex":"x"}]',
)
READER = f"system:serviceaccount:{NAMESPACE}:lws-metrics-reader"


def sources(module: str) -> Path:
    """Return the directory of a module in the version of go.sum, downloaded once and verified."""
    sums = [line.split() for line in (MODULE / "go.sum").read_text().splitlines()]
    (version,) = [fields[1] for fields in sums if fields[0] == module and not fields[1].endswith("/go.mod")]
    os.environ.update({key: value for key, value in go_environment({}).items() if key != "GOFLAGS"})
    answer = run([find_go(cache_directory()), "mod", "download", "-json", f"{module}@{version}"], MODULE)
    return Path(json.loads(answer)["Dir"])


@pytest.fixture(scope="module")
def definitions() -> list[Object]:
    crds = []
    for module, names in DEFINITIONS.items():
        directory = sources(module)
        for name in names:
            definition = yaml.safe_load((directory / name).read_text())
            # The labels in cert-manager's chart are templates.
            definition["metadata"].pop("labels", None)
            crds.append(definition)
    return crds


@pytest.fixture(scope="module")
def release(definitions: list[Object]) -> Iterator[Release]:
    """A cluster with the kinds of both operators."""
    if chosen() != LOCAL:
        pytest.skip("installs and removes cluster-wide objects")
    with LocalCluster(Options(nodes=2)) as cluster:
        cluster.kubectl("create", "namespace", NAMESPACE)
        cluster.kubectl("create", "-f", "-", input=rendered(definitions))
        for crd in definitions:
            name = f"crd/{crd['metadata']['name']}"
            eventually("the CRD is established", partial(established, cluster, name))
        yield Release(cluster)


def established(cluster: LocalCluster, name: str) -> bool:
    """Wait for the CRD. At first it has no conditions, which `kubectl wait` treats as an error."""
    try:
        cluster.kubectl("wait", "--for=condition=Established", "--timeout=120s", name)
    except CommandError:
        return False
    return True


@pytest.mark.parametrize("more", [EVERY_FIELD, (*EVERY_FIELD, *BY_POD)], ids=["by service", "by pod"])
def test_every_rendered_field_is_in_the_crds(release: Release, more: tuple[str, ...]) -> None:
    objects = render(release.cluster, "--values", str(PRODUCTION), "--set", "crds.enabled=false", *more)
    strict = ("create", "--dry-run=server", "--validate=strict", "-f", "-")
    release.cluster.kubectl(*strict, input=rendered(objects))


def test_an_unknown_field_would_be_rejected(release: Release) -> None:
    name = "lws-controller-manager-metrics-monitor"
    monitor = find(render(release.cluster, "--values", str(PRODUCTION)), "ServiceMonitor", name)
    monitor["spec"]["endpoints"][0]["bearer"] = "x"
    with pytest.raises(CommandError, match="unknown field"):
        strict = ("create", "--dry-run=server", "--validate=strict", "-f", "-")
        release.cluster.kubectl(*strict, input=rendered([monitor]))


def deprecated(value: Any, schema: Object, path: str) -> Iterator[str]:
    """Yield the fields of a value whose description marks them as deprecated."""
    if "Deprecated" in schema.get("description", "") or "deprecated" in schema.get("description", ""):
        yield path
    if isinstance(value, dict):
        for key, child in value.items():
            if key in schema.get("properties", {}):
                yield from deprecated(child, schema["properties"][key], f"{path}.{key}")
    elif isinstance(value, list):
        for child in value:
            yield from deprecated(child, schema.get("items", {}), f"{path}[]")


def test_no_field_is_deprecated(release: Release, definitions: list[Object]) -> None:
    schemas = {
        crd["spec"]["names"]["kind"]: crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        for crd in definitions
    }
    values = ("--values", str(PRODUCTION), "--set", "crds.enabled=false", *EVERY_FIELD)
    objects = [*render(release.cluster, *values), *render(release.cluster, *values, *BY_POD)]
    checked = [obj for obj in objects if obj["kind"] in schemas]
    assert {"ServiceMonitor", "PodMonitor", "Certificate", "Issuer"} <= {obj["kind"] for obj in checked}
    for obj in checked:
        assert list(deprecated(obj["spec"], schemas[obj["kind"]]["properties"]["spec"], obj["kind"])) == []
    former = {"endpoints": [{"bearerTokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token"}]}
    spec = schemas["ServiceMonitor"]["properties"]["spec"]
    assert list(deprecated(former, spec, "spec")) == ["spec.endpoints[].bearerTokenFile"]


def test_the_documented_values_can_be_installed(release: Release) -> None:
    release.install("--values", str(PRODUCTION), "--wait", "--timeout=300s", chart=CHART)
    for kind in ("servicemonitor", "networkpolicy", "certificate", "issuer"):
        assert release.list(kind), kind


def may(release: Release, path: str) -> bool:
    attributes = {"path": path, "verb": "get"}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": READER, "nonResourceAttributes": attributes},
    }
    answer = release.cluster.kubectl("create", "-f", "-", "-o", "json", input=json.dumps(review))
    return bool(json.loads(answer)["status"]["allowed"])


def test_the_token_of_the_monitor_reads_only_metrics(release: Release) -> None:
    """Uses the release that the test above installed."""
    secret = ("secret", "lws-metrics-reader-token")
    eventually("the Secret has a token", lambda: "token" in release.get(*secret).get("data", {}))
    assert may(release, "/metrics")
    assert not may(release, "/logs")
    verbs = release.cluster.kubectl("auth", "can-i", "--list", f"--as={READER}", f"--namespace={NAMESPACE}")
    rows = [line.split() for line in verbs.splitlines()[1:]]
    # Every user may list their own permissions and, since Kubernetes 1.37, read CAs that the cluster
    # publishes.
    prefixes = ("[", "selfsubject", "clustertrustbundles.certificates.k8s.io")
    assert {row[0] for row in rows if not row[0].startswith(prefixes)} == set()
    # An upgrade keeps the token.
    before = release.get(*secret)["data"]
    release.upgrade("--reset-then-reuse-values", "--set", "commonLabels.team=serving")
    assert release.get(*secret)["data"] == before

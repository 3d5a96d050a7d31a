"""Plain manifests and their kustomize components equal what the chart renders, and install on a cluster.

The cluster is not accessed with Helm, and no manager runs.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from test.cluster import LOCAL, chosen
from test.integration.release import CERTIFICATES, CHART, DEFINITION, DEPLOYMENT, NAMESPACE, Release, a_set
from tools.localcluster import LocalCluster, Options
from tools.localcluster.build import find_programs
from tools.localcluster.progress import LinePrinter
from tools.release.chart import (
    BASE,
    COMPONENTS,
    KUSTOMIZE,
    MANIFESTS,
    Chart,
    Object,
    key,
    kustomization,
    parsed,
    rendered,
    split,
    write_manifests,
)
from tools.release.places import ReleaseError, run

PROGRAMS = find_programs(["helm", "kubectl"], LinePrinter())


@pytest.fixture(scope="module")
def chart() -> Chart:
    return Chart(CHART, PROGRAMS["helm"])


@pytest.fixture(scope="module")
def dist(chart: Chart, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("dist")
    write_manifests(chart, directory)
    return directory


def built(dist: Path, components: tuple[str, ...]) -> list[Object]:
    """Return what kustomize builds from the base with components, as users write it."""
    overlay = dist / KUSTOMIZE / "-".join(["overlay", *components])
    overlay.mkdir(exist_ok=True)
    # Without the CRDs, which are large and not affected by components.
    base = dist / KUSTOMIZE / "small"
    base.mkdir(exist_ok=True)
    (base / "manager.yaml").write_text((dist / KUSTOMIZE / BASE / "manager.yaml").read_text())
    (base / "kustomization.yaml").write_text(kustomization(["manager.yaml"]))
    paths = [f"../components/{name}" for name in components]
    (overlay / "kustomization.yaml").write_text(kustomization(["../small"], paths))
    return parsed(run([PROGRAMS["kubectl"], "kustomize", overlay], overlay))


def by_key(objects: list[Object]) -> dict[tuple[str, str, str, str], Object]:
    return {key(obj): obj for obj in objects}


def combinations() -> Iterator[tuple[str, ...]]:
    """Yield every valid combination of components."""
    after = "-with-cert-manager"
    for certificates, metrics, policy in itertools.product((False, True), repeat=3):
        suffix = after if certificates else ""
        chosen = [
            *(["cert-manager"] if certificates else []),
            *([f"prometheus{suffix}"] if metrics else []),
            *(["network-policy"] if policy else []),
        ]
        yield tuple(chosen)
        yield (*chosen, f"gang-volcano{suffix}")
    yield ("prometheus", "alerts", "dashboard")
    yield ("cert-manager", f"prometheus{after}", "alerts", "dashboard")
    for provider in ("scheduler-plugins", "kubernetes"):
        yield (f"gang-{provider}",)
        yield ("cert-manager", f"gang-{provider}{after}")


@pytest.mark.parametrize("components", list(combinations()), ids="+".join)
def test_components_equal_the_chart_rendered_with_their_values(
    chart: Chart, dist: Path, components: tuple[str, ...]
) -> None:
    values = {"crds.enabled": False}
    for name in components:
        values |= COMPONENTS[name].after
    if "network-policy" in components and not any(name.startswith("prometheus") for name in components):
        # The policy's rule for scrapers is included in any case.
        values["enablePrometheus"] = False
    expected, actual = by_key(chart.objects(values)), by_key(built(dist, components))
    if values.get("enablePrometheus") is False:
        (policy,) = [name for name in expected if name[1] == "NetworkPolicy"]
        expected[policy]["spec"]["ingress"], actual[policy]["spec"]["ingress"] = [], []
    assert actual == expected


def test_every_component_is_in_a_combination() -> None:
    assert {name for components in combinations() for name in components} == set(COMPONENTS)


@pytest.mark.parametrize(
    "components",
    [
        ("cert-manager", "gang-volcano"),
        ("gang-volcano-with-cert-manager",),
        ("gang-volcano", "gang-kubernetes"),
    ],
    ids="+".join,
)
def test_conflicting_components_are_rejected(dist: Path, components: tuple[str, ...]) -> None:
    """Otherwise one component would silently revert another."""
    with pytest.raises(ReleaseError, match="accumulat"):
        built(dist, components)


def test_the_base_equals_the_plain_manifests(dist: Path) -> None:
    base = parsed(run([PROGRAMS["kubectl"], "kustomize", dist / KUSTOMIZE], dist))
    assert by_key(base) == by_key(parsed((dist / MANIFESTS).read_text()))


def test_the_manifests_do_not_mention_helm(dist: Path) -> None:
    text = (dist / MANIFESTS).read_text()
    assert "helm.sh" not in text and "managed-by" not in text


@pytest.fixture(scope="module")
def release() -> Iterator[Release]:
    """An empty cluster."""
    if chosen() != LOCAL:
        pytest.skip("installs and removes cluster-wide objects")
    with LocalCluster(Options(nodes=2)) as cluster:
        yield Release(cluster)


def changed(chart: Chart) -> str:
    """Return the manifests of the next release, with a change in every kind of object."""
    return rendered(
        chart.objects(
            {"webhooks.timeoutSeconds": 5, "commonLabels": {"team": "serving"}, "logLevel": "debug"}
        )
    )


def written(release: Release, dist: Path) -> dict[str, Object]:
    """Return the written part of each object in the manifests."""
    result: dict[str, Object] = {}
    for obj in parsed((dist / MANIFESTS).read_text()):
        stored = release.get(obj["kind"], obj["metadata"]["name"])
        stored.pop("status", None)
        del stored["metadata"]["resourceVersion"]
        result[" ".join(key(obj))] = stored
    return result


@pytest.mark.parametrize(
    "how", [(), ("--server-side", "--force-conflicts")], ids=["client-side", "server-side"]
)
def test_the_manifests_install_upgrade_and_uninstall_the_product(
    release: Release, chart: Chart, dist: Path, how: tuple[str, ...]
) -> None:
    kubectl = release.cluster.kubectl
    manifests = str(dist / MANIFESTS)
    definitions, _ = split(parsed((dist / MANIFESTS).read_text()))

    # With the CRDs first, a set can exist before webhooks reject it.
    kubectl("apply", *how, "-f", "-", input=rendered(definitions))
    release.wait_until_sets_are_served()
    kubectl("create", "-f", "-", input=json.dumps(a_set("kept")))
    kubectl("apply", *how, "-f", manifests)
    kubectl("-n", NAMESPACE, "rollout", "status", "deployment/lws-controller-manager", "--timeout=300s")
    release.put_certificates()
    sets, uids = (
        release.list("leaderworkersets", "default"),
        [release.uid(*DEFINITION), release.uid(*DEPLOYMENT)],
    )

    before = written(release, dist)
    kubectl("apply", *how, "-f", manifests)
    assert written(release, dist) == before

    kubectl("apply", *how, "-f", "-", input=changed(chart))
    kubectl("-n", NAMESPACE, "rollout", "status", "deployment/lws-controller-manager", "--timeout=300s")
    assert release.certificates() == CERTIFICATES
    assert set(release.bundles().values()) == {True}
    assert [release.uid(*DEFINITION), release.uid(*DEPLOYMENT)] == uids
    assert release.list("leaderworkersets", "default") == sets
    assert release.get(*DEPLOYMENT)["metadata"]["labels"]["team"] == "serving"

    kubectl("delete", "-f", manifests, "--wait", "--timeout=300s")
    assert all("lws" not in role["metadata"]["name"] for role in release.list("clusterrole"))

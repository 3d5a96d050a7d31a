"""A cluster moves from upstream's chart to ours and back without losing its sets.

A stand-in chart with the same names, selectors and webhook entries plays upstream's release. No manager runs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from test.integration.release import (
    CERTIFICATES,
    DEFINITION,
    DEPLOYMENT,
    GO_DEFINITION,
    GO_STAND_IN,
    NAMESPACE,
    Object,
    Release,
    a_set,
    find,
    render,
)
from tools.localcluster import CommandError, LocalCluster, Options

pytestmark = pytest.mark.local_only

LEASE = ("lease", "b8b2488c.x-k8s.io")
ENTRIES = {"mleaderworkerset.kb.io", "mpod.kb.io", "vdisaggregatedset.kb.io", "vleaderworkerset.kb.io"}


@pytest.fixture
def release() -> Iterator[Release]:
    """A separate cluster, because these tests affect a whole cluster."""
    with LocalCluster(Options(nodes=2)) as cluster:
        yield Release(cluster)


@pytest.fixture
def sets(release: Release) -> list[Object]:
    """Two stored sets, created before any webhook could reject them."""
    release.cluster.kubectl("create", "-f", str(GO_DEFINITION))
    release.wait_until_sets_are_served()
    for name in ("first", "second"):
        release.cluster.kubectl("create", "-f", "-", input=json.dumps(a_set(name)))
    return release.list("leaderworkersets", "default")


@pytest.fixture
def served(sets: list[Object]) -> list[Object]:
    """Return the same sets as our CRD serves them, with defaults for fields that are not stored."""
    defaults = {"groupIdentity": "Ordinal", "groupReplacementPolicy": "PostTermination"}
    return [{**lws, "spec": {**defaults, **lws["spec"]}} for lws in sets]


def install_upstream(release: Release, *arguments: str) -> None:
    """Install upstream's release, with the certificates and the Lease that its manager would create."""
    release.install("--wait", *arguments, chart=GO_STAND_IN)
    create_objects_of_a_manager(release)


def create_objects_of_a_manager(release: Release) -> None:
    release.put_certificates()
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": LEASE[1]}}
    release.cluster.kubectl("create", "-n", NAMESPACE, "-f", "-", input=json.dumps(lease))


def adopt_with_flag(release: Release) -> None:
    release.upgrade("--take-ownership", "--reset-values", "--wait")


def adopt_by_hand(release: Release) -> None:
    kubectl = release.cluster.kubectl
    kubectl("label", *DEFINITION, "app.kubernetes.io/managed-by=Helm")
    marks = ("meta.helm.sh/release-name=lws", f"meta.helm.sh/release-namespace={NAMESPACE}")
    kubectl("annotate", *DEFINITION, *marks)
    release.upgrade("--reset-values", "--wait")


@pytest.mark.parametrize(
    "adopt", [adopt_with_flag, adopt_by_hand], ids=["take-ownership", "label and annotate"]
)
def test_a_release_is_upgraded_in_place_and_rolled_back(
    release: Release, served: list[Object], adopt: Callable[[Release], None]
) -> None:
    install_upstream(release, "--skip-crds")
    uids = {target: release.uid(*target) for target in (DEFINITION, DEPLOYMENT, LEASE)}

    adopt(release)

    assert {target: release.uid(*target) for target in uids} == uids
    assert release.list("leaderworkersets", "default") == served
    assert_is_our_release(release)

    without_conversion = [{"op": "replace", "path": "/spec/conversion", "value": {"strategy": "None"}}]
    release.cluster.kubectl("patch", *DEFINITION, "--type=json", "-p", json.dumps(without_conversion))
    release.upgrade("--reset-values")
    assert release.get(*DEFINITION)["spec"]["conversion"] == {"strategy": "None"}

    release.rollback(1)

    assert {target: release.uid(*target) for target in uids} == uids
    assert release.list("leaderworkersets", "default") == served
    container = release.get(*DEPLOYMENT)["spec"]["template"]["spec"]["containers"][0]
    assert container["command"] == ["/manager"]
    assert release.certificates() == CERTIFICATES
    assert {name for name, is_kept in release.bundles().items() if is_kept} >= ENTRIES


def test_a_careless_upgrade_is_rejected_and_changes_nothing(release: Release, sets: list[Object]) -> None:
    install_upstream(release, "--skip-crds")
    before = release.get(*DEPLOYMENT)["metadata"]["generation"]

    with pytest.raises(CommandError, match="cannot be imported into the current release"):
        release.upgrade("--reset-values")
    # The values of upstream's chart, with its image.
    with pytest.raises(CommandError, match="definitionInTemplates"):
        release.upgrade("--take-ownership", "--reuse-values")

    assert release.get(*DEPLOYMENT)["metadata"]["generation"] == before
    assert release.list("leaderworkersets", "default") == sets


def test_a_crd_among_the_templates_is_not_deleted(release: Release) -> None:
    """In releases up to 0.7, the CRD is a template of the chart.

    Helm would delete it, and every set with it, when it leaves the release manifest.
    """
    release.install("--set", "definitionInTemplates=true", "--skip-crds", "--wait", chart=GO_STAND_IN)
    uid = release.uid(*DEFINITION)

    release.upgrade("--reset-values", "--wait")
    assert release.uid(*DEFINITION) == uid

    release.upgrade("--take-ownership", "--reset-values", chart=GO_STAND_IN)
    assert release.uid(*DEFINITION) == uid


def test_an_installation_from_manifests_is_taken_over(release: Release, served: list[Object]) -> None:
    manifests = render(release.cluster, "--skip-crds", chart=GO_STAND_IN)
    release.cluster.kubectl("create", "namespace", NAMESPACE)
    bundle = {"apiVersion": "v1", "kind": "List", "items": manifests}
    release.cluster.kubectl("apply", "--server-side", "-f", "-", input=json.dumps(bundle))
    create_objects_of_a_manager(release)
    uids = {target: release.uid(*target) for target in (DEFINITION, LEASE)}

    release.cluster.kubectl("delete", *DEPLOYMENT, "-n", NAMESPACE)
    release.cluster.kubectl(
        "delete", "validatingwebhookconfiguration", "lws-validating-webhook-configuration"
    )
    release.install("--take-ownership", "--wait")

    assert {target: release.uid(*target) for target in uids} == uids
    assert release.list("leaderworkersets", "default") == served
    assert release.certificates() == CERTIFICATES
    release.put_certificates()
    assert_is_our_release(release)


def assert_is_our_release(release: Release) -> None:
    """Check that every object is as in a fresh install, except for what the manager writes."""
    rendered = render(release.cluster)
    definition = release.get(*DEFINITION)
    assert definition["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    assert (
        definition["spec"]["versions"]
        == find(rendered, "CustomResourceDefinition", DEFINITION[1])["spec"]["versions"]
    )

    pod = release.get(*DEPLOYMENT)["spec"]["template"]["spec"]
    expected = find(rendered, "Deployment", DEPLOYMENT[1])["spec"]["template"]["spec"]
    assert [volume["name"] for volume in pod["volumes"]] == [volume["name"] for volume in expected["volumes"]]
    (container,), (expected_container,) = pod["containers"], expected["containers"]
    for key in ("image", "imagePullPolicy", "command", "args", "securityContext", "volumeMounts"):
        assert container[key] == expected_container[key], key
    assert pod["terminationGracePeriodSeconds"] == expected["terminationGracePeriodSeconds"]

    for obj in rendered:
        if obj["kind"] in ("ClusterRole", "Role"):
            assert release.get(obj["kind"], obj["metadata"]["name"])["rules"] == obj["rules"]
    assert release.bundles() == dict.fromkeys(ENTRIES, True)
    assert release.certificates() == CERTIFICATES

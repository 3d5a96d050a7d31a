"""The permissions that the chart grants are exactly the ones that the manager uses.

The manager has to do everything that it can do; the test then compares the audit log of the API server with
the roles that are bound to the manager.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from lws_api.leaderworkerset.v1 import EXCLUSIVE_TOPOLOGY_ANNOTATION
from test.harness.audit import MANAGER, AuditLog, Request
from test.harness.disaggregated.manifests import a_disaggregated_set, new_roles, roles
from test.harness.groups import labels_of, settle
from test.harness.manifests import a_set, new_image, pod_template, scaled_to
from test.harness.product import Product
from test.harness.scraping import a_scraper
from test.harness.waiting import eventually
from test.harness.world import SET, World
from tools.localcluster import ClusterAccess, LocalCluster, Pods

Permission = tuple[str, str, str]
"""(API group, resource with subresource, verb)"""

BLOCKED_OWNERS = {
    ("", "pods/finalizers", "update"),
    ("leaderworkerset.x-k8s.io", "leaderworkersets/finalizers", "update"),
    ("disaggregatedset.x-k8s.io", "disaggregatedsets/finalizers", "update"),
}
ADOPTED = {
    ("", "persistentvolumeclaims", "delete"),
    ("apps", "deployments", "delete"),
}
APPLIED = {("apps", "deployments", "create")}
"""A server-side apply of an object that does not exist yet is a patch, and authorized as a create too."""
OF_GANGS = {("scheduling.x-k8s.io", "podgroups", verb) for verb in ("get", "patch", "delete")}
"""Used for PodGroups that another client has changed or orphaned, which this test does not do."""
OF_CLASHES = {("batch", "jobs", "get")}
"""Used for a Job of another owner with the name of a Job that pulls images."""
OF_SHARDS = {("coordination.k8s.io", "leases", "patch")}
"""Used for the membership Lease of managers that share the work."""
NEVER_SENT = BLOCKED_OWNERS | ADOPTED | APPLIED
"""Permissions for which no request is sent.

The admission plugin OwnerReferencesPermissionEnforcement demands them for creating an object that blocks the
deletion of its owner, and for changing owners.
"""


def granted(cluster: ClusterAccess) -> set[Permission]:
    """Return the permissions in all roles that are bound to the manager."""
    user = {"kind": "ServiceAccount", "name": MANAGER.rpartition(":")[2], "namespace": "lws-system"}
    result: set[Permission] = set()
    for kind in ("clusterrolebindings", "rolebindings"):
        for binding in everything(cluster, kind):
            if user in [{key: subject.get(key) for key in user} for subject in binding.get("subjects", [])]:
                name, namespace = binding["roleRef"]["name"], binding["metadata"].get("namespace", "")
                where = ("-n", namespace) if binding["roleRef"]["kind"] == "Role" else ()
                output = cluster.kubectl("get", binding["roleRef"]["kind"], name, *where, "-o", "json")
                result |= set(permissions_in(json.loads(output)["rules"]))
    return result


def permissions_in(rules: Iterable[dict[str, Any]]) -> Iterator[Permission]:
    for rule in rules:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    yield group, resource, verb


def everything(cluster: ClusterAccess, kind: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = json.loads(cluster.kubectl("get", kind, "-A", "-o", "json"))["items"]
    return items


def used(requests: Iterable[Request]) -> set[Permission]:
    return {(request.group, request.resource, request.verb) for request in requests if request.code < 400}


def play_a_set(world: World, pods: Pods) -> None:
    """Take a set with every feature through every change."""
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}},
    }
    retention = {"whenDeleted": "Delete", "whenScaled": "Retain"}
    template = {"volumeClaimTemplates": [claim], "persistentVolumeClaimRetentionPolicy": retention}
    manifest = a_set(
        "all",
        group=template,
        annotations={EXCLUSIVE_TOPOLOGY_ANNOTATION: "kubernetes.io/hostname"},
        podDisruptionBudget={"maxUnavailableGroups": 1},
        leaderService={"ports": [{"port": 80}]},
        revisionHistoryLimit=0,
    )
    world.create(manifest)
    settle(world, "all")
    for image in ("server:2", "server:3"):
        world.patch(SET, "all", new_image(image))
        settle(world, "all")
    leader = world.uid("Pod", "all-0")
    pods.restart_container(world.namespace, "all-0-1", "server")
    world.gone_or_replaced("Pod", "all-0", leader)
    settle(world, "all")
    before = labels_of(world.get("Pod", "all-1-1"))
    world.kubectl("label", "pod", "all-1-1", "leaderworkerset.sigs.k8s.io/worker-index=7", "--overwrite")
    eventually("the label is repaired", lambda: labels_of(world.get("Pod", "all-1-1")) == before)
    world.kubectl("label", "statefulset", "all", "leaderworkerset.sigs.k8s.io/name-", "--overwrite")
    orphan(world, "StatefulSet", "all-0")
    world.patch(SET, "all", scaled_to(1))
    settle(world, "all")
    world.delete(SET, "all", "Orphan")
    eventually("the set is deleted", lambda: world.find(SET, "all") is None)
    world.create(manifest)
    settle(world, "all")
    world.patch(SET, "all", {"spec": {"podDisruptionBudget": None, "leaderService": None}})
    world.patch(SET, "all", {"spec": {"networkConfig": {"subdomainPolicy": "UniquePerReplica"}}})
    settle(world, "all")


def play_hash_groups(world: World) -> None:
    slow = pod_template(annotations={"localcluster/stops-after": "2"})
    policies = {"groupIdentity": "Hash", "podTerminationPolicy": "Parallel"}
    world.create(a_set("keyed", 1, 2, workers=slow, **policies))
    settle(world, "keyed")
    orphan(world, "Deployment", "keyed")
    world.patch(SET, "keyed", new_image("server:2"))
    settle(world, "keyed")


def play_prewarm(world: World) -> None:
    world.create(a_set("warm", 1, 2, rolloutStrategy={"type": "RollingUpdate", "prewarm": {}}))
    settle(world, "warm")
    world.patch(SET, "warm", new_image("server:2"))
    settle(world, "warm")


def orphan(world: World, kind: str, name: str) -> None:
    """Orphan an object, as a restore or a careless edit does, and wait until its owner adopts it."""
    owned = world.get(kind, name)["metadata"]["ownerReferences"]
    world.patch(kind, name, {"metadata": {"ownerReferences": None}})
    eventually(
        f"{name} is adopted",
        lambda: world.get(kind, name)["metadata"].get("ownerReferences") == owned,
    )


def play_a_disaggregated_set(world: World) -> None:
    name = "pair"

    def has_rolled() -> bool:
        status = world.get("DisaggregatedSet", name).get("status", {})
        words = {condition["type"]: condition["status"] for condition in status.get("conditions", [])}
        return words.get("Available") == "True" and words.get("Progressing") != "True"

    world.create(a_disaggregated_set(name, roles(1, None)))
    eventually("both roles are available", has_rolled)
    (scaler,) = world.list("DisaggregatedSetRoleScaler")
    orphan(world, "DisaggregatedSetRoleScaler", scaler["metadata"]["name"])
    world.patch("DisaggregatedSet", name, new_roles(roles(1, None, "server:2")))
    eventually("the old children are deleted", lambda: len(world.list(SET)) <= 3)
    world.patch("DisaggregatedSet", name, new_roles(roles(1, 1, "server:2")))
    eventually("the scaler is deleted", lambda: not world.list("DisaggregatedSetRoleScaler"))


def play_a_rejection(world: World) -> None:
    """Cause a rejection that the Events of a StatefulSet report."""
    world.create(a_set("refused", workers=pod_template(serviceAccountName="nobody")))
    eventually(
        "the manager has read the Events",
        lambda: "nobody" in json.dumps(world.get(SET, "refused").get("status", {})),
    )


def test_every_permission_is_used_or_required(
    world: World, product: Product, cluster: ClusterAccess, local_cluster: LocalCluster, pods: Pods
) -> None:
    log = AuditLog(local_cluster.audit_log)
    with a_scraper(cluster, "auditor") as scraper:
        scraper.scrape(product.manager)
    play_a_rejection(world)
    play_a_disaggregated_set(world)
    play_a_set(world, pods)
    play_hash_groups(world)
    play_prewarm(world)
    product.restart()
    settle(world, "all")

    # Other tests here use its account with kubectl, for requests that it may not make.
    requests = log.requests(agent="lws/")
    permitted, seen = granted(cluster), used(requests)
    assert permitted >= NEVER_SENT
    assert sorted(seen - permitted - allowed_to_everyone(seen)) == []
    assert sorted(permitted - seen - NEVER_SENT - OF_GANGS - OF_CLASHES - OF_SHARDS) == []
    assert sorted(NEVER_SENT & seen) == []
    refused = [str(request) for request in requests if request.code == 403 and "cannot" in request.message]
    assert refused == []


def allowed_to_everyone(seen: set[Permission]) -> set[Permission]:
    """Return the requests for discovery and versions, which are not resources."""
    return {right for right in seen if right[1].startswith("/")}

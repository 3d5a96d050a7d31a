"""A new manager continues where the last one stopped, and makes no other writes.

Writes are counted in the audit log, by the user name of the chart's ServiceAccount: every request except
reads and renewals of the Lease. Events count too, because there is nothing to report.
"""

from __future__ import annotations

from contextlib import suppress

import pytest

from test.harness.audit import AuditLog, Request
from test.harness.groups import (
    images_of,
    name_of,
    pod_uids,
    pods_of,
    settle,
    unsettled,
)
from test.harness.history import History, ready_groups
from test.harness.identities import Identities, differences, identities
from test.harness.manifests import a_set, pod_template
from test.harness.product import Product
from test.harness.quiet import wait_until_quiet
from test.harness.waiting import eventually, stays
from test.harness.world import SET, World
from tools.deployment import NAMESPACE
from tools.localcluster import ApiError, Pods
from tools.localcluster.pods import is_ready

SETTLED = 20
IDLE_SECONDS = 20.0

LEASE = "leases"


def writes(world: World, audit: AuditLog) -> list[Request]:
    """Return the manager's writes, without renewals of its Lease and deletions of earlier tests' objects."""
    places = (world.namespace, NAMESPACE, "")
    requests = [request for request in audit.requests() if request.is_write and request.namespace in places]
    return [request for request in requests if request.resource != LEASE]


def renewals(audit: AuditLog) -> int:
    return sum(request.is_write and request.resource == LEASE for request in audit.requests())


@pytest.mark.our_simulation
def test_a_rollout_continues_after_the_manager_is_killed(world: World, product: Product, pods: Pods) -> None:
    """The test makes new pods ready itself, so that the manager always dies during the rollout."""
    world.create(a_set("mid", replicas=4))
    settle(world, "mid")
    history = History(world, "mid")

    template = pod_template("server:2", {"localcluster/ready": "false"})
    world.patch(SET, "mid", {"spec": {"leaderWorkerTemplate": {"workerTemplate": template}}})
    eventually(
        "a group has the new image", lambda: images_of(world, "mid"), lambda now: {"server:2"} in now.values()
    )
    product.kill()
    assert {"server:1"} in images_of(world, "mid").values()
    product.start()

    def helped() -> str:
        for pod in pods_of(world, "mid"):
            if pod.get("status", {}).get("phase") == "Running" and not is_ready(pod):
                with suppress(ApiError, LookupError):
                    pods.set_ready(world.namespace, name_of(pod), True)
        return unsettled(world, "mid")

    eventually("all groups are settled", helped, lambda why: not why)

    assert images_of(world, "mid") == {index: {"server:2"} for index in range(4)}
    # If a manager dies between deleting a leader and lowering the partition, the group is recreated with its
    # old revision.
    assert sum(len(leaders) - 2 for leaders in history.leaders().values()) <= 1
    assert min(len(ready_groups(frame)) for frame in history.pods()) >= 3


def test_changes_without_a_manager_are_reconciled_by_the_next_one(world: World, product: Product) -> None:
    """Webhooks are down meanwhile, so sets can only be scaled, and lost pods are not replaced."""
    world.create(a_set("alone", replicas=2, group={"restartPolicy": "None"}))
    settle(world, "alone")
    before = pod_uids(world, "alone")

    product.kill()
    world.kubectl("scale", "lws", "alone", "--replicas=3")
    world.delete("Pod", "alone-0-1")
    world.gone_or_replaced("Pod", "alone-0-1", before["alone-0-1"])
    product.start()
    settle(world, "alone")

    after = pod_uids(world, "alone")
    untouched = {"alone-0", "alone-1", "alone-1-1"}
    assert {pod: after[pod] for pod in untouched} == {pod: before[pod] for pod in untouched}
    variables = world.get("Pod", "alone-0-1")["spec"]["containers"][0]["env"]
    assert [variable["name"] for variable in variables] == [
        "LWS_LEADER_ADDRESS",
        "LWS_GROUP_SIZE",
        "LWS_WORKER_INDEX",
    ]


def test_no_writes_for_settled_sets_after_a_restart_or_while_idle(
    world: World, product: Product, audit: AuditLog
) -> None:
    names = [f"s{number}" for number in range(SETTLED)]
    for name in names:
        world.create(a_set(name, replicas=1, size=2))
    settle(world, *names, seconds=120)
    wait_until_quiet(world, audit)
    before = identities(world)

    audit.mark()
    product.restart()
    eventually("the new manager holds the Lease", lambda: renewals(audit) >= 2)
    stays("nothing is written", lambda: _changes(world, before, audit), IDLE_SECONDS)
    assert _changes(world, before, audit) == []


def _changes(world: World, before: Identities, audit: AuditLog) -> list[str]:
    return [*differences(before, identities(world)), *map(str, writes(world, audit))]

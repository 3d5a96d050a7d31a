"""Answers: what has to run before there is something to see, and how does it all go away again?

In: a display. Out: a cluster with the product on it, followed by a mirror, until the end of a `with` block.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from tools.demo.check import Check, equal
from tools.demo.installation import holder, verify_definition, verify_webhooks
from tools.demo.mirror import Mirror, collections
from tools.demo.picture import Picture, picture_of
from tools.demo.show import Show
from tools.deployment import NAMESPACE, SERVICE_ACCOUNT, Deployment, ManagerProcess
from tools.localcluster import LocalCluster, Options

_CRD = "leaderworkersets.leaderworkerset.x-k8s.io"
_WEBHOOKS = "mutatingwebhookconfigurations,validatingwebhookconfigurations"
_FINALIZER = "demo-finalizer"
_LEASE_SECONDS = 60.0
# No container can run here, hence no replicas in the cluster. Nobody wants to watch a Lease expire for 15 s.
_VALUES = (
    "replicaCount=0",
    "configuration.leaderElection.leaseDuration=4s",
    "configuration.leaderElection.renewDeadline=3s",
    "configuration.leaderElection.retryPeriod=1s",
)


@dataclass(frozen=True)
class Scene:
    """What the tour plays with."""

    cluster: LocalCluster
    deployment: Deployment
    manager: ManagerProcess
    mirror: Mirror


@contextmanager
def set_up(show: Show) -> Iterator[Scene]:
    """Build what is missing, start everything, and say what was verified; all of it is gone afterwards."""
    show.begin("Set up: Kubernetes, the chart, the manager")
    with ExitStack() as stack:
        cluster = _start_cluster(stack, show)
        deployment = Deployment(cluster, cluster.workspace / "manager")
        show.wait_for("helm")
        show.say("$ helm upgrade --install lws charts/lws --namespace lws-system --create-namespace")
        deployment.install("--set", ",".join(_VALUES))
        _let_finalize(cluster)
        stack.callback(deployment.stop)
        show.say("$ lws manager, as a process of this host with the rights of the chart's ServiceAccount")
        show.wait_for("the manager to be ready")
        manager = deployment.start_manager()
        mirror = _follow(stack, cluster, show)
        show.wait_for("the manager to hold the Lease")
        mirror.until(lambda view: bool(holder(view)), _LEASE_SECONDS, "the manager holds the Lease")
        show.wait_for("")
        scene = Scene(cluster, deployment, manager, mirror)
        show.verified(_verify(scene))
        # Called first of all when the stack unwinds.
        stack.callback(show.wait_for, "all processes to end")
        yield scene


def _start_cluster(stack: ExitStack, show: Show) -> LocalCluster:
    show.wait_for("etcd, API server, controllers, scheduler and simulated nodes")
    began = time.monotonic()
    options = Options()
    cluster = stack.enter_context(LocalCluster(options, report=show.build))
    # Asked politely it would wait for the end of every open stream, and nothing of it has to be kept.
    stack.callback(cluster.kill_component, "kube-apiserver")
    cluster.binary("helm")
    version = cluster.api.get("/version")["gitVersion"]
    took = time.monotonic() - began
    show.say(f"Kubernetes {version} with {options.nodes} simulated nodes is up after {took:.1f} s")
    return cluster


def _let_finalize(cluster: LocalCluster) -> None:
    """Spare the audience a wait of up to 30 s.

    The API server checks every `blockOwnerDeletion` against the kinds that it knows (admission plugin
    OwnerReferencesPermissionEnforcement), and it learns a new kind that late, unless the writer may finalize
    anything. Installations need nothing of the kind: the manager tries again until it is let.
    """
    account = f"--serviceaccount={NAMESPACE}:{SERVICE_ACCOUNT}"
    cluster.kubectl("create", "clusterrole", _FINALIZER, "--verb=update", "--resource=*.*/finalizers")
    cluster.kubectl("create", "clusterrolebinding", _FINALIZER, f"--clusterrole={_FINALIZER}", account)


def _follow(stack: ExitStack, cluster: LocalCluster, show: Show) -> Mirror:
    mirror = Mirror(cluster.api, collections(NAMESPACE), show.changed)

    def look() -> Picture:
        return picture_of(mirror.view(), datetime.now(UTC))

    stack.callback(mirror.stop)
    mirror.start()
    show.watch(look)
    return mirror


def _verify(scene: Scene) -> list[Check]:
    kubectl = scene.cluster.kubectl
    definition = json.loads(kubectl("get", "crd", _CRD, "-o", "json"))
    configurations = json.loads(kubectl("get", _WEBHOOKS, "-o", "json"))["items"]
    holders = holder(scene.mirror.fresh())
    return [
        verify_definition(definition),
        verify_webhooks(configurations, scene.manager.webhook_port),
        equal("the manager holds the Lease: it is the one that acts", True, bool(holders)),
    ]

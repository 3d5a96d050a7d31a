"""Start a cluster with the product and check the installation. Everything is removed afterwards."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

from lws_api.disaggregatedset.v1 import DISAGGREGATED_SET, ROLE_SCALER
from lws_api.leaderworkerset.v1 import API_GROUP, API_VERSION
from tools.demo.check import Check, equal, none_of
from tools.demo.facts import Kind, Object, View
from tools.demo.mirror import Mirror, collections
from tools.demo.picture import picture_of
from tools.demo.show import Show
from tools.deployment import CHART, NAMESPACE, REPOSITORY, Deployment, ManagerProcess
from tools.localcluster import ComponentError, LocalCluster, Options
from tools.localcluster.build import find_programs
from tools.localcluster.recipe import all_programs

_RESOURCE = f"leaderworkersets.{API_GROUP}"
_RESOURCES = {_RESOURCE, *(f"{kind.plural}.{kind.group}" for kind in (DISAGGREGATED_SET, ROLE_SCALER))}
_WEBHOOKS = "mutatingwebhookconfigurations,validatingwebhookconfigurations"
# The definitions of the chart are templates of helm, so these are used.
_DEFINITIONS = REPOSITORY / "api" / "lws_api" / "crds"
_LEASE_SECONDS, _KNOWN_SECONDS = 60.0, 30.0
# No container can run here, so the chart has no replicas. Short Lease times spare the audience a wait of
# 15 s.
_VALUES = (
    "replicaCount=0",
    "configuration.leaderElection.leaseDuration=4s",
    "configuration.leaderElection.renewDeadline=3s",
    "configuration.leaderElection.retryPeriod=1s",
)


def holder(view: View) -> str:
    """Return the manager that holds the Lease; empty if there is none."""
    holders = (str(lease["spec"].get("holderIdentity") or "") for lease in view.objects[Kind.LEASE])
    return next((name for name in holders if name), "")


def verify_definition(definition: Object) -> Check:
    """Verify that the CustomResourceDefinition is served in the version that the demo uses."""
    conditions = definition.get("status", {}).get("conditions") or ()
    spec = definition["spec"]
    served = {f"{spec['group']}/{version['name']}" for version in spec["versions"] if version["served"]}
    established = any(entry["type"] == "Established" and entry["status"] == "True" for entry in conditions)
    claim = f"the API server serves {API_VERSION} LeaderWorkerSet"
    return equal(claim, (True, True), (established, API_VERSION in served))


def verify_webhooks(configurations: Sequence[Object], port: int) -> Check:
    """Verify that every webhook calls the manager and trusts the certificate that the manager has created."""
    entries = [webhook for configuration in configurations for webhook in configuration["webhooks"]]
    astray = [
        str(entry["name"])
        for entry in entries
        if f":{port}/" not in entry["clientConfig"].get("url", "") or "caBundle" not in entry["clientConfig"]
    ]
    claim = f"{len(entries)} webhooks call the manager and trust the certificate that it has made"
    return none_of(claim, astray, len(entries))


@dataclass(frozen=True)
class Stage:
    """Options of the cluster, and values of the chart in addition to those of every demo."""

    options: Options = field(default_factory=Options)
    values: Sequence[str] = ()


PLAIN = Stage()
WITH_WORKLOADS = Stage(
    Options(
        feature_gates={"GenericWorkload": True},
        extra_flags={"kube-apiserver": ("--runtime-config=scheduling.k8s.io/v1beta1=true",)},
    ),
    ("gangSchedulingManagement.schedulerProvider=kubernetes", "featureGates.WorkloadAwareScheduling=true"),
)


@dataclass(frozen=True)
class Scene:
    """The cluster, manager and mirror that the tour uses."""

    cluster: LocalCluster
    manager: ManagerProcess
    mirror: Mirror


@contextmanager
def set_up(show: Show, stage: Stage) -> Iterator[Scene]:
    """Build what is missing, start everything, show what was verified, and remove it all after the block."""
    show.begin("Set up: Kubernetes, the chart, the manager")
    # All binaries are built first, because a running cluster would slow the compiler down.
    show.wait_for("binaries, which takes minutes the first time")
    find_programs(all_programs(), show.build)
    with ExitStack() as stack:
        cluster = _start_cluster(stack, show, stage.options)
        show.say(f"$ kubectl apply --server-side -f {os.path.relpath(_DEFINITIONS)}")
        show.wait_for("all of Kubernetes to know the new kind")
        _introduce_kind(cluster)
        show.say(f"$ helm upgrade --install lws {os.path.relpath(CHART)} -n {NAMESPACE} --create-namespace …")
        show.wait_for("helm")
        deployment = Deployment(cluster, cluster.workspace / "manager")
        deployment.install("--take-ownership", "--set", ",".join((*_VALUES, *stage.values)))
        stack.callback(deployment.stop)
        show.say("$ lws manager, as a process of this host with the rights of the chart's ServiceAccount")
        show.wait_for("the manager to be ready")
        manager = deployment.start_manager()
        mirror = _follow(stack, cluster, show)
        show.wait_for("the manager to hold the Lease")
        mirror.until(lambda view: bool(holder(view)), _LEASE_SECONDS, "the manager holds the Lease")
        show.wait_for("")
        scene = Scene(cluster, manager, mirror)
        show.verified(_verify(scene))
        # This callback is the first one when the stack unwinds.
        stack.callback(show.wait_for, "all processes to end")
        yield scene


def _start_cluster(stack: ExitStack, show: Show, options: Options) -> LocalCluster:
    show.wait_for("etcd, API server, controllers, scheduler and simulated nodes")
    began = time.monotonic()
    cluster = stack.enter_context(LocalCluster(options, report=show.build))
    # A graceful stop would wait for the end of every open stream, and no data has to be kept.
    stack.callback(cluster.kill_component, "kube-apiserver")
    version = cluster.api.get("/version")["gitVersion"]
    took = time.monotonic() - began
    show.say(f"Kubernetes {version} with {options.nodes} simulated nodes is up after {took:.1f} s")
    return cluster


def _introduce_kind(cluster: LocalCluster) -> None:
    """Make the cluster behave as if it had known the new kinds for half a minute.

    The garbage collector discovers kinds at its start and every 30 s, and so does the API server's check of
    owner references, from the first object with a blocking owner on: here the Deployment of the chart.
    Without this function everything works, but the audience would have to wait twice.
    """
    cluster.kubectl("apply", "--server-side", "-f", str(_DEFINITIONS))
    deadline = time.monotonic() + _KNOWN_SECONDS
    listed = ("api-resources", "--no-headers", "-o", "name")
    while missing := sorted(_RESOURCES - set(cluster.kubectl(*listed).split())):
        if time.monotonic() > deadline:
            names = ", ".join(missing)
            raise ComponentError(f"kube-apiserver does not list {names} after {_KNOWN_SECONDS:.0f} s")
    cluster.stop_component("kube-controller-manager")
    cluster.start_component("kube-controller-manager")


def _follow(stack: ExitStack, cluster: LocalCluster, show: Show) -> Mirror:
    mirror = Mirror(cluster.api, collections(NAMESPACE), show.changed)
    stack.callback(mirror.stop)
    mirror.start()
    show.watch(lambda: picture_of(mirror.view(), datetime.now(UTC)))
    return mirror


def _verify(scene: Scene) -> list[Check]:
    kubectl = scene.cluster.kubectl
    definition = json.loads(kubectl("get", "crd", _RESOURCE, "-o", "json"))
    configurations = json.loads(kubectl("get", _WEBHOOKS, "-o", "json"))["items"]
    holders = holder(scene.mirror.fresh())
    return [
        verify_definition(definition),
        verify_webhooks(configurations, scene.manager.webhook_port),
        equal("the manager holds the Lease: it is the one that acts", True, bool(holders)),
    ]

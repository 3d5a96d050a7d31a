"""The URLs and verbs of resources that the code uses. Tests compare the verbs with the RBAC of the chart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from lws_api.disaggregatedset.v1 import API_VERSION, KIND, SCALER_KIND


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource of the API with its group, version, kind and plural."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool = True

    @property
    def group(self) -> str:
        """The API group; empty for the core group."""
        return self.api_version.rpartition("/")[0]

    @property
    def version(self) -> str:
        return self.api_version.rpartition("/")[2]

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the URL path of a collection, an object or a subresource."""
        root = f"/apis/{self.api_version}" if self.group else f"/api/{self.api_version}"
        parts = [root]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        parts += [part for part in (name, subresource) if part]
        return "/".join(parts)


@dataclass(frozen=True, slots=True)
class Workload:
    """A kind of workload and the kinds of its children.

    resource: the kind itself. All of its objects are watched. label: the label of all children, by which they
    are watched. Its value is the name of the workload. owners: the kinds of children that control others.
    """

    resource: Resource
    label: str
    children: tuple[Resource, ...]
    owners: frozenset[str] = frozenset()


def namespace_in(path: str) -> str:
    """Return the namespace in a path of `Resource.path`; empty if there is none."""
    _, _, tail = path.partition("/namespaces/")
    return tail.partition("/")[0]


LEADERWORKERSETS = Resource("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "leaderworkersets")
DISAGGREGATED_SETS = Resource(API_VERSION, KIND, "disaggregatedsets")
ROLE_SCALERS = Resource(API_VERSION, SCALER_KIND, "disaggregatedsetrolescalers")
STATEFULSETS = Resource("apps/v1", "StatefulSet", "statefulsets")
DEPLOYMENTS = Resource("apps/v1", "Deployment", "deployments")
REPLICA_SETS = Resource("apps/v1", "ReplicaSet", "replicasets")
JOBS = Resource("batch/v1", "Job", "jobs")
CONTROLLER_REVISIONS = Resource("apps/v1", "ControllerRevision", "controllerrevisions")
PODS = Resource("v1", "Pod", "pods")
POD_DISRUPTION_BUDGETS = Resource("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets")
NODES = Resource("v1", "Node", "nodes", False)
NAMESPACES = Resource("v1", "Namespace", "namespaces", False)
SERVICES = Resource("v1", "Service", "services")
CLAIMS = Resource("v1", "PersistentVolumeClaim", "persistentvolumeclaims")
SECRETS = Resource("v1", "Secret", "secrets")
EVENTS = Resource("events.k8s.io/v1", "Event", "events")
LEASES = Resource("coordination.k8s.io/v1", "Lease", "leases")
MUTATING_WEBHOOKS = Resource(
    "admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", False
)
VALIDATING_WEBHOOKS = Resource(
    "admissionregistration.k8s.io/v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
    False,
)
TOKEN_REVIEWS = Resource("authentication.k8s.io/v1", "TokenReview", "tokenreviews", False)
SUBJECT_ACCESS_REVIEWS = Resource(
    "authorization.k8s.io/v1", "SubjectAccessReview", "subjectaccessreviews", False
)

RESOURCES: Mapping[str, Resource] = MappingProxyType(
    {
        resource.kind: resource
        for resource in (
            LEADERWORKERSETS,
            STATEFULSETS,
            DEPLOYMENTS,
            REPLICA_SETS,
            JOBS,
            CONTROLLER_REVISIONS,
            PODS,
            POD_DISRUPTION_BUDGETS,
            NODES,
            NAMESPACES,
            SERVICES,
            CLAIMS,
            SECRETS,
            EVENTS,
            LEASES,
            MUTATING_WEBHOOKS,
            VALIDATING_WEBHOOKS,
            TOKEN_REVIEWS,
            SUBJECT_ACCESS_REVIEWS,
        )
    }
)
"""Resources of every installation, by kind."""

VERBS: Mapping[tuple[str, str], frozenset[str]] = MappingProxyType(
    {
        # Identity labels and annotations of pods are restored.
        ("", "pods"): frozenset({"get", "list", "watch", "patch", "delete"}),
        # To set the readiness gate of leaders of Hash groups.
        ("", "pods/status"): frozenset({"patch"}),
        # Owner references with blockOwnerDeletion need `update` on the finalizers of the *owner*
        # (admission plugin OwnerReferencesPermissionEnforcement): pods own worker sets.
        ("", "pods/finalizers"): frozenset({"update"}),
        # Workers of exclusively placed groups select a label of their leader's node; the node of a pod that
        # waits too long for its kubelet may be lost.
        ("", "nodes"): frozenset({"get"}),
        # To evaluate the namespaceSelector of the pod webhook.
        ("", "namespaces"): frozenset({"list"}),
        # The same plugin requires `delete` on an object to change its owners, as an adoption does.
        ("", "services"): frozenset({"get", "list", "watch", "create", "patch", "delete"}),
        # PVCs of workers get their set as an owner.
        ("", "persistentvolumeclaims"): frozenset({"get", "list", "watch", "patch", "delete"}),
        # Server-side apply of a new object needs `patch` *and* `create`.
        ("apps", "statefulsets"): frozenset({"get", "list", "watch", "create", "patch", "delete"}),
        ("apps", "deployments"): frozenset({"get", "list", "watch", "create", "patch", "delete"}),
        # To find the Deployment that a leader pod belongs to.
        ("apps", "replicasets"): frozenset({"list", "watch"}),
        ("apps", "controllerrevisions"): frozenset({"get", "list", "watch", "create", "patch", "delete"}),
        # Jobs pull images on nodes before a rollout.
        ("batch", "jobs"): frozenset({"get", "list", "watch", "create", "delete"}),
        ("policy", "poddisruptionbudgets"): frozenset({"get", "list", "watch", "create", "patch", "delete"}),
        # Restarts by upstream's rules are counted in an annotation.
        ("leaderworkerset.x-k8s.io", "leaderworkersets"): frozenset({"get", "list", "watch", "patch"}),
        ("leaderworkerset.x-k8s.io", "leaderworkersets/status"): frozenset({"patch"}),
        ("leaderworkerset.x-k8s.io", "leaderworkersets/finalizers"): frozenset({"update"}),
        # Events about a StatefulSet with rejected pods are read.
        ("events.k8s.io", "events"): frozenset({"create", "list", "patch"}),
        ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"): frozenset({"get", "patch"}),
        ("admissionregistration.k8s.io", "validatingwebhookconfigurations"): frozenset({"get", "patch"}),
        ("authentication.k8s.io", "tokenreviews"): frozenset({"create"}),
        ("authorization.k8s.io", "subjectaccessreviews"): frozenset({"create"}),
    }
)
"""(API group, resource) → verbs that the code uses cluster-wide."""

_SETS = DISAGGREGATED_SETS.plural
_SCALERS = ROLE_SCALERS.plural
DISAGGREGATED_VERBS: Mapping[tuple[str, str], frozenset[str]] = MappingProxyType(
    {
        (DISAGGREGATED_SETS.group, _SETS): frozenset({"get", "list", "watch"}),
        (DISAGGREGATED_SETS.group, f"{_SETS}/status"): frozenset({"patch"}),
        # Scalers block the deletion of their owner.
        (DISAGGREGATED_SETS.group, f"{_SETS}/finalizers"): frozenset({"update"}),
        (ROLE_SCALERS.group, _SCALERS): frozenset({"get", "list", "watch", "create", "patch", "delete"}),
        (ROLE_SCALERS.group, f"{_SCALERS}/status"): frozenset({"patch"}),
        (LEADERWORKERSETS.group, LEADERWORKERSETS.plural): frozenset({"create", "patch", "delete"}),
    }
)
"""(API group, resource) → verbs that the code uses for DisaggregatedSets, in addition to `VERBS`."""

NAMESPACED_VERBS: Mapping[tuple[str, str], frozenset[str]] = MappingProxyType(
    {
        ("", "secrets"): frozenset({"get", "update"}),
        # The membership Lease of shards is patched, so that no manager waits for another.
        ("coordination.k8s.io", "leases"): frozenset({"get", "create", "update", "patch"}),
    }
)
"""(API group, resource) → verbs that the code uses in the manager's own namespace only."""

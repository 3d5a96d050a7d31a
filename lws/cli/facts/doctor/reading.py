"""What may be read of an object, and what is known where it may not be?

In: a connection. Out: objects, None for what is not there, `Denied` for what may not be read.
"""

from __future__ import annotations

from dataclasses import dataclass

from lws.actions import Object
from lws.cluster.client.resources import RESOURCES, Resource
from lws.cluster.client.user_cluster import UserCluster
from lws.cluster.errors import Forbidden, NotFound

DEFINITIONS = Resource(
    "apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", False
)
DEPLOYMENTS = Resource("apps/v1", "Deployment", "deployments")
CONFIG_MAPS = Resource("v1", "ConfigMap", "configmaps")
ENDPOINT_SLICES = Resource("discovery.k8s.io/v1", "EndpointSlice", "endpointslices")
SELF_REVIEWS = Resource(
    "authorization.k8s.io/v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", False
)
WHO_AM_I = Resource("authentication.k8s.io/v1", "SelfSubjectReview", "selfsubjectreviews", False)

_OURS = (DEFINITIONS, DEPLOYMENTS, CONFIG_MAPS, ENDPOINT_SLICES, SELF_REVIEWS, WHO_AM_I)


@dataclass(frozen=True, slots=True)
class Denied:
    """It may not be read. permission: what is lacking, such as `get secrets in namespace lws-system`."""

    permission: str


Read = Object | Denied | None
ReadMany = tuple[Object, ...] | Denied


class Reader:
    """Reads with the rights of a person."""

    def __init__(self, cluster: UserCluster) -> None:
        cluster.learn(*_OURS)
        self.cluster = cluster

    async def get(self, resource: Resource, namespace: str, name: str) -> Read:
        """One object. Raises ClusterError for all but a refusal."""
        try:
            return await self.cluster.get(resource.kind, namespace, name)
        except NotFound:
            return None
        except Forbidden:
            return Denied(f"get {resource.plural} {_place(resource, namespace)} (name {name})".strip())

    async def listed(self, resource: Resource, namespace: str = "", selector: str = "") -> ReadMany:
        """All of a namespace, or of all; none where the cluster does not know the kind."""
        try:
            return tuple(await self.cluster.listed(resource.kind, namespace, selector))
        except NotFound:
            return ()
        except Forbidden:
            return Denied(f"list {resource.plural} {_place(resource, namespace)}".strip())


def resource_of(kind: str) -> Resource:
    """A kind that the manager itself deals with."""
    return RESOURCES[kind]


def _place(resource: Resource, namespace: str) -> str:
    if not resource.namespaced:
        return "in the cluster"
    return f"in namespace {namespace}" if namespace else "in all namespaces"

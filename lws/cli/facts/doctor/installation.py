"""Read an installation: where the manager is, its configuration, and its objects.

Out: one frozen value that all checks judge.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import yaml
from pydantic import ValidationError

from lws.kube.conditions import is_false
from lws.runtime.actions import Object
from lws.runtime.client.resources import (
    LEADERWORKERSETS,
    LEASES,
    MUTATING_WEBHOOKS,
    RESOURCES,
    SECRETS,
    SERVICES,
    VALIDATING_WEBHOOKS,
    Resource,
)
from lws.runtime.client.user_cluster import UserCluster
from lws.runtime.errors import Forbidden, NotFound
from lws_api.config.v1alpha1 import Configuration
from lws_api.crds import definitions
from lws_api.disaggregatedset.v1 import DISAGGREGATED_SET
from lws_api.leaderworkerset.v1 import LEADER_WORKER_SET

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


USUAL_NAMESPACE = "lws-system"
USUAL_ACCOUNT = "lws-controller-manager"
_MANAGERS = "control-plane=controller-manager"
_FILE = "controller_manager_config.yaml"
DEFAULTS = Configuration.model_validate(
    {"apiVersion": "config.lws.x-k8s.io/v1alpha1", "kind": "Configuration"}
)
"""What a manager does whose file says nothing."""
_GROUPS = frozenset({LEADER_WORKER_SET.group, DISAGGREGATED_SET.group})


@dataclass(frozen=True)
class Installation:
    """All that checks judge.

    server: version of the API server. definitions: by name. all_definitions: everybody's, read only where the
    names of one of ours are not accepted. managers: Deployments of this controller, or the original, in all
    namespaces that may be read. configuration: the manager's file, the defaults where it is not known (then
    `configuration_read` says why). leases: by name. sets: LeaderWorkerSets.
    """

    now: datetime
    namespace: str
    server: str
    definitions: Mapping[str, Read] = field(default_factory=dict)
    all_definitions: ReadMany = ()
    mutating: ReadMany = ()
    validating: ReadMany = ()
    managers: ReadMany = ()
    configuration: Configuration = DEFAULTS
    configuration_read: Read = None
    service: Read = None
    slices: ReadMany = ()
    secret: Read = None
    leases: Mapping[str, Read] = field(default_factory=dict)
    sets: ReadMany = ()

    @property
    def deployment(self) -> Object | None:
        """The manager's, in its namespace."""
        if isinstance(self.managers, Denied):
            return None
        return next(_in(self.managers, self.namespace), None)

    @property
    def account(self) -> str:
        """The name of the manager's ServiceAccount."""
        if self.deployment is None:
            return USUAL_ACCOUNT
        return str(self.deployment["spec"]["template"]["spec"].get("serviceAccountName") or "default")

    @property
    def has_disaggregated_sets(self) -> bool:
        return isinstance(self.definitions.get(DISAGGREGATED_SET.crd_name), Mapping)


def hooks(configurations: ReadMany) -> Iterator[tuple[Object, Mapping[str, Any]]]:
    """Each webhook about our kinds, with the configuration that it stands in."""
    for configuration in () if isinstance(configurations, Denied) else configurations:
        ours = any(_GROUPS & _groups(hook) for hook in configuration.get("webhooks") or ())
        for hook in configuration.get("webhooks") or ():
            # The webhook of pods is that of a controller of ours if it stands beside one about sets.
            if ours:
                yield configuration, hook


async def look(reader: Reader, namespace: str | None, now: datetime) -> Installation:
    """Read everything; raises ClusterError where the API server does not answer."""
    mutating = await reader.listed(MUTATING_WEBHOOKS)
    validating = await reader.listed(VALIDATING_WEBHOOKS)
    managers = await _managers(reader, namespace)
    where = namespace or _namespace(mutating, validating, managers)
    read, configuration = await _configuration(reader, where, managers)
    certificates = configuration.internal_cert_management
    service = certificates.webhook_service_name
    ours = {
        name: await reader.get(DEFINITIONS, "", name)
        for name in sorted(definition["metadata"]["name"] for definition in definitions().values())
    }
    return Installation(
        now=now,
        namespace=where,
        server=await reader.cluster.version(),
        definitions=ours,
        all_definitions=await reader.listed(DEFINITIONS) if any(map(_lacks_its_names, ours.values())) else (),
        mutating=mutating,
        validating=validating,
        managers=managers,
        configuration=configuration,
        configuration_read=read,
        service=await reader.get(SERVICES, where, service),
        slices=await reader.listed(ENDPOINT_SLICES, where, f"kubernetes.io/service-name={service}"),
        secret=await reader.get(SECRETS, where, certificates.webhook_secret_name),
        leases={name: await reader.get(LEASES, where, name) for name in lease_names(configuration)},
        sets=await reader.listed(LEADERWORKERSETS),
    )


def _lacks_its_names(definition: Read) -> bool:
    if not isinstance(definition, Mapping):
        return False
    return is_false((definition.get("status") or {}).get("conditions"), "NamesAccepted")


def lease_names(configuration: Configuration) -> tuple[str, ...]:
    """Of one manager one Lease; with shards one more for each."""
    if not configuration.leader_election.leader_elect:
        return ()
    name = configuration.leader_election.resource_name
    shards = configuration.sharding.shards if configuration.sharding else 1
    return (name, *(f"{name}-{shard}" for shard in range(shards if shards > 1 else 0)))


async def _managers(reader: Reader, namespace: str | None) -> ReadMany:
    deployments = await reader.listed(DEPLOYMENTS, selector=_MANAGERS)
    if isinstance(deployments, Denied):
        deployments = await reader.listed(DEPLOYMENTS, namespace or USUAL_NAMESPACE, _MANAGERS)
    return deployments if isinstance(deployments, Denied) else tuple(filter(_is_ours, deployments))


def _is_ours(deployment: Object) -> bool:
    """Every operator made by kubebuilder has the label; ours has the name, or a label of our charts, of which
    nameOverride leaves one alone.
    """
    metadata = deployment["metadata"]
    labels = metadata.get("labels") or {}
    names = (metadata["name"], labels.get("app.kubernetes.io/name", ""), labels.get("helm.sh/chart", ""))
    return any("lws" in name.split("-") for name in names)


def _namespace(mutating: ReadMany, validating: ReadMany, managers: ReadMany) -> str:
    for configurations in (validating, mutating):
        for _, hook in hooks(configurations):
            if namespace := (hook["clientConfig"].get("service") or {}).get("namespace"):
                return str(namespace)
    if not isinstance(managers, Denied) and managers:
        return str(managers[0]["metadata"]["namespace"])
    return USUAL_NAMESPACE


async def _configuration(reader: Reader, namespace: str, managers: ReadMany) -> tuple[Read, Configuration]:
    """As it was read, and what it says."""
    if isinstance(managers, Denied):
        return managers, DEFAULTS
    for deployment in _in(managers, namespace):
        for volume in deployment["spec"]["template"]["spec"].get("volumes") or ():
            if name := (volume.get("configMap") or {}).get("name"):
                read = await reader.get(CONFIG_MAPS, namespace, name)
                text = (read.get("data") or {}).get(_FILE) if isinstance(read, Mapping) else None
                if text is not None or isinstance(read, Denied):
                    return read, _parsed(text)
    return None, DEFAULTS


def _parsed(text: str | None) -> Configuration:
    try:
        return Configuration.model_validate(yaml.safe_load(text)) if text else DEFAULTS
    except (yaml.YAMLError, ValidationError):
        # The manager has refused to start with it and said why; a file of the original may say more.
        return DEFAULTS


def _in(objects: Iterable[Object], namespace: str) -> Iterator[Object]:
    return (obj for obj in objects if obj["metadata"]["namespace"] == namespace)


def _groups(hook: Mapping[str, Any]) -> set[str]:
    return {group for rule in hook.get("rules") or () for group in rule.get("apiGroups") or ()}

"""Read an installation: the namespace of the manager, its configuration, its objects and its permissions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any

import yaml
from pydantic import ValidationError

from lws.config import ConfigError
from lws.config.loading import merged, overrides
from lws.kube.conditions import is_false
from lws.leaderworkerset.group.gangs import GANG_VERBS, WORKLOAD_VERBS
from lws.leaderworkerset.scheduling import KUBERNETES
from lws.runtime.actions import Object
from lws.runtime.certificates.internal import CONFIGURATIONS
from lws.runtime.client.resources import (
    DEPLOYMENTS,
    DISAGGREGATED_VERBS,
    LEADERWORKERSETS,
    LEASES,
    MUTATING_WEBHOOKS,
    NAMESPACED_VERBS,
    PODS,
    SECRETS,
    SERVICES,
    SUBJECT_ACCESS_REVIEWS,
    VALIDATING_WEBHOOKS,
    VERBS,
    Resource,
)
from lws.runtime.client.user_cluster import UserCluster
from lws.runtime.errors import ApiError, Forbidden, NotFound
from lws_api.config.v1alpha1 import API_VERSION, KIND, Configuration
from lws_api.crds import definitions
from lws_api.disaggregatedset.v1 import DISAGGREGATED_SET
from lws_api.leaderworkerset.v1 import LEADER_WORKER_SET, NAME_LABEL

DEFINITIONS = Resource(
    "apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", False
)
CONFIG_MAPS = Resource("v1", "ConfigMap", "configmaps")
ENDPOINT_SLICES = Resource("discovery.k8s.io/v1", "EndpointSlice", "endpointslices")
SELF_REVIEWS = Resource(
    "authorization.k8s.io/v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", False
)
WHO_AM_I = Resource("authentication.k8s.io/v1", "SelfSubjectReview", "selfsubjectreviews", False)

_OURS = (DEFINITIONS, CONFIG_MAPS, ENDPOINT_SLICES, SELF_REVIEWS, WHO_AM_I)


@dataclass(frozen=True, slots=True)
class Denied:
    """A read that was denied. permission: what is missing, such as `get secrets in namespace lws-system`."""

    permission: str


Read = Object | Denied | None
ReadMany = tuple[Object, ...] | Denied


class Reader:
    """Reads from the API server with the permissions of the user."""

    def __init__(self, cluster: UserCluster) -> None:
        cluster.learn(*_OURS)
        self.cluster = cluster

    async def get(self, resource: Resource, namespace: str, name: str) -> Read:
        """Return an object, None if it does not exist, or `Denied`. Raises ClusterError for other errors."""
        try:
            return await self.cluster.get(resource.kind, namespace, name)
        except NotFound:
            return None
        except Forbidden:
            return Denied(f"get {resource.plural} {_place(resource, namespace)} (name {name})".strip())

    async def listed(
        self, resource: Resource, namespace: str = "", selector: str = "", fields: str = ""
    ) -> ReadMany:
        """List the objects of a namespace, or of all namespaces; none if the cluster lacks the kind."""
        try:
            return tuple(await self.cluster.listed(resource.kind, namespace, selector, fields))
        except NotFound:
            return ()
        except Forbidden:
            return Denied(f"list {resource.plural} {_place(resource, namespace)}".strip())


def _place(resource: Resource, namespace: str) -> str:
    if not resource.namespaced:
        return "in the cluster"
    return f"in namespace {namespace}" if namespace else "in all namespaces"


USUAL_NAMESPACE = "lws-system"
USUAL_ACCOUNT = "lws-controller-manager"
_MANAGERS = "control-plane=controller-manager"
_FILE = "controller_manager_config.yaml"
_CONTAINER = "manager"
_HEAD = {"apiVersion": API_VERSION, "kind": KIND}
DEFAULTS = Configuration.model_validate(_HEAD)
"""The configuration of a manager whose file and flags set nothing."""
_AT_ONCE = 8
_CERTIFICATES = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
_GROUPS = frozenset({LEADER_WORKER_SET.group, DISAGGREGATED_SET.group})


@dataclass(frozen=True, slots=True)
class Right:
    """A permission: a verb on `resource` or `resource/subresource`, for the object `name` or for all."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        of = f".{self.group}" if self.group else ""
        return f"{self.verb} {self.resource}{of}{f' {self.name}' if self.name else ''}"

    @property
    def attributes(self) -> dict[str, str]:
        plural, _, subresource = self.resource.partition("/")
        attributes = {**asdict(self), "resource": plural, "subresource": subresource}
        return {key: value for key, value in attributes.items() if value}


@dataclass(frozen=True)
class Installation:
    """All facts that the checks depend on.

    definitions: name → CRD of ours. all_definitions: the CRDs of all groups, read only if the names of one of
    ours are not accepted. managers: Deployments of this controller or of upstream, in all namespaces that the
    user may read. configuration: file and flags of the manager; the defaults if they could not be read.
    configuration_read: the ConfigMap, or why it could not be read. leases: name → Lease. idle_pods: pods of
    sets that do not run. rights: permission that the manager needs → whether it has it.
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
    idle_pods: ReadMany = ()
    rights: Mapping[Right, bool] | Denied = field(default_factory=dict)

    @property
    def deployment(self) -> Object | None:
        if isinstance(self.managers, Denied):
            return None
        return next(_in(self.managers, self.namespace), None)

    @property
    def account(self) -> str:
        if self.deployment is None:
            return USUAL_ACCOUNT
        return str(self.deployment["spec"]["template"]["spec"].get("serviceAccountName") or "default")


def hooks(configurations: ReadMany) -> Iterator[tuple[Object, Mapping[str, Any]]]:
    """Yield each webhook for our kinds, with its webhook configuration."""
    for configuration in () if isinstance(configurations, Denied) else configurations:
        ours = any(_GROUPS & _groups(hook) for hook in configuration.get("webhooks") or ())
        for hook in configuration.get("webhooks") or ():
            # A webhook for pods belongs to this controller if its configuration also has a webhook for sets.
            if ours:
                yield configuration, hook


FlagsOf = Callable[[Sequence[str]], Mapping[str, object]]
"""Returns the flags among the arguments of a manager that override its file: name → value."""


async def read_installation(
    reader: Reader, namespace: str | None, now: datetime, flags_of: FlagsOf
) -> Installation:
    """Read all facts about an installation. Raises ClusterError if the API server does not answer."""
    mutating = await reader.listed(MUTATING_WEBHOOKS)
    validating = await reader.listed(VALIDATING_WEBHOOKS)
    managers = await _managers(reader, namespace)
    where = namespace or _namespace(mutating, validating, managers)
    read, configuration = await _configuration(reader, where, managers, flags_of)
    certificates = configuration.internal_cert_management
    service = certificates.webhook_service_name
    ours = {
        name: await reader.get(DEFINITIONS, "", name)
        for name in sorted(definition["metadata"]["name"] for definition in definitions().values())
    }
    facts = Installation(
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
        idle_pods=await reader.listed(PODS, selector=NAME_LABEL, fields="status.phase!=Running"),
    )
    return replace(facts, rights=await permissions(reader, facts))


def _lacks_its_names(definition: Read) -> bool:
    if not isinstance(definition, Mapping):
        return False
    return is_false((definition.get("status") or {}).get("conditions"), "NamesAccepted")


def lease_names(configuration: Configuration) -> tuple[str, ...]:
    """Return the names of the manager's Leases: one, and with sharding one more for each shard."""
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
    """Return whether a Deployment with kubebuilder's label is this controller's or upstream's.

    Ours has the name, or a label of our charts, one of which does not depend on nameOverride.
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


async def _configuration(
    reader: Reader, namespace: str, managers: ReadMany, flags_of: FlagsOf
) -> tuple[Read, Configuration]:
    if isinstance(managers, Denied):
        return managers, DEFAULTS
    pods = [deployment["spec"]["template"]["spec"] for deployment in _in(managers, namespace)]
    for pod in pods:
        for volume in pod.get("volumes") or ():
            if name := (volume.get("configMap") or {}).get("name"):
                read = await reader.get(CONFIG_MAPS, namespace, name)
                text = (read.get("data") or {}).get(_FILE) if isinstance(read, Mapping) else None
                if text is not None or isinstance(read, Denied):
                    return read, _parsed(text, flags_of(_arguments(pod)))
    return None, _parsed(None, flags_of(_arguments(pods[0]))) if pods else DEFAULTS


def _arguments(pod: Object) -> list[str]:
    managers = (container for container in pod.get("containers") or () if container["name"] == _CONTAINER)
    return [
        argument
        for container in managers
        for argument in (*(container.get("command") or ()), *(container.get("args") or ()))
    ]


def _parsed(text: str | None, flags: Mapping[str, object]) -> Configuration:
    """Return the configuration from file and flags.

    A file or flags that the manager of this release would reject count as absent: upstream accepts others.
    """
    document: Mapping[str, Any] = _HEAD
    if text:
        # An impossible date and a rejected document are ValueErrors.
        with suppress(yaml.YAMLError, ValueError, RecursionError):
            read = yaml.safe_load(text)
            Configuration.model_validate(read)
            document = read
    with suppress(ConfigError, ValidationError):
        return Configuration.model_validate(merged(document, overrides(flags)))
    return Configuration.model_validate(document)


def _in(objects: Iterable[Object], namespace: str) -> Iterator[Object]:
    return (obj for obj in objects if obj["metadata"]["namespace"] == namespace)


def _groups(hook: Mapping[str, Any]) -> set[str]:
    return {group for rule in hook.get("rules") or () for group in rule.get("apiGroups") or ()}


def needed(facts: Installation) -> Iterator[Right]:
    """Yield the permissions that the manager needs with its configuration."""
    tables, gangs = [VERBS], facts.configuration.gang_scheduling_management
    if isinstance(facts.definitions.get(DISAGGREGATED_SET.crd_name), Mapping):
        tables.append(DISAGGREGATED_VERBS)
    if gangs and gangs.scheduler_provider in GANG_VERBS:
        tables.append(GANG_VERBS[gangs.scheduler_provider])
    serves_scheduling = facts.configuration.feature_gates.workload_aware_scheduling
    if gangs and gangs.scheduler_provider == KUBERNETES and serves_scheduling:
        tables.append(WORKLOAD_VERBS)
    internal = facts.configuration.internal_cert_management.enable
    for (group, resource), verbs in (item for table in tables for item in table.items()):
        for verb in sorted(verbs):
            if resource not in _CERTIFICATES:
                yield Right(verb, group, resource)
            # The manager reads which pods its webhook is called for, even with a certificate of cert-manager.
            elif internal or (verb, resource) == ("get", _CERTIFICATES[0]):
                kind = 0 if resource == _CERTIFICATES[0] else 1
                yield Right(verb, group, resource, name=CONFIGURATIONS[kind][1])
    yield from _namespaced(facts, internal)


def _namespaced(facts: Installation, internal: bool) -> Iterator[Right]:
    secret = facts.configuration.internal_cert_management.webhook_secret_name
    names = {"secrets": (secret,) if internal else (), "leases": lease_names(facts.configuration)}
    for (group, resource), verbs in NAMESPACED_VERBS.items():
        for verb in sorted(verbs):
            # RBAC cannot grant a create by name.
            for name in ("",) if verb == "create" and names[resource] else names[resource]:
                yield Right(verb, group, resource, facts.namespace, name)


async def permissions(reader: Reader, facts: Installation) -> Mapping[Right, bool] | Denied:
    """Return whether the manager has each permission that it needs, as the API server answers.

    The manager may ask about itself; anyone else must be allowed to review others' access, or is `Denied`.
    """
    user = f"system:serviceaccount:{facts.namespace}:{facts.account}"
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{facts.namespace}", "system:authenticated"]
    is_manager = await _who_am_i(reader) == user
    resource = SELF_REVIEWS if is_manager else SUBJECT_ACCESS_REVIEWS
    spec = {} if is_manager else {"user": user, "groups": groups}
    slots = asyncio.Semaphore(_AT_ONCE)

    async def answer(right: Right) -> tuple[Right, bool]:
        async with slots:
            review = await reader.cluster.create(
                _review(resource, {**spec, "resourceAttributes": right.attributes})
            )
        return right, bool((review.get("status") or {}).get("allowed"))

    rights = list(dict.fromkeys(needed(facts)))
    try:
        first = await answer(rights[0])
        return dict([first, *await asyncio.gather(*map(answer, rights[1:]))])
    except Forbidden:
        return Denied(f"create {resource.plural}.{resource.group} in the cluster")


async def _who_am_i(reader: Reader) -> str:
    try:
        answer = await reader.cluster.create(_review(WHO_AM_I, None))
    except ApiError:
        # Kubernetes before 1.28 does not answer. Assume that a user runs the command.
        return ""
    return str(((answer.get("status") or {}).get("userInfo") or {}).get("username") or "")


def _review(resource: Resource, spec: Object | None) -> Object:
    review = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {}}
    return review if spec is None else {**review, "spec": spec}

"""`lws doctor`: find what is wrong with an installation, where, and what to do about it."""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any

import click
from cryptography import x509
from cryptography.exceptions import InvalidSignature

from lws import __version__, timing
from lws.cli.arguments import cluster_options, output_option
from lws.cli.commands.manager import overriding_flags
from lws.cli.commands.status import status_data
from lws.cli.installation import Denied, Installation, Reader, ReadMany, Right, hooks, read_installation
from lws.cli.screen import Block, Table, Text, age, described, dump, row, show
from lws.cli.session import ClusterOptions, Refusal, Session, Unreadable, run, worded
from lws.cli.sets import RESOURCES
from lws.cli.states import state_of
from lws.kube import conditions
from lws.kube.conditions import moment_of, timestamp
from lws.kube.metadata import name_of, namespace_of
from lws.kube.pods import has_gate
from lws.leaderworkerset.admission.validation import clash_errors
from lws.leaderworkerset.restart_counts import is_kept
from lws.leaderworkerset.revisions.shape import spec_fault
from lws.leaderworkerset.spec import other_manager
from lws.runtime.actions import Object
from lws.runtime.certificates.internal import CONFIGURATIONS
from lws.runtime.certificates.serving_certificate import UNREADABLE, expiry, names_in, read, split, time_flaw
from lws.runtime.client.resources import Resource
from lws.runtime.errors import ClusterError, Forbidden
from lws_api.crds import definitions
from lws_api.leaderworkerset.v1 import (
    GROUP_REPLACEMENT_GATE,
    LEADER_WORKER_SET,
    RESTART_BUDGET_FINALIZER,
)
from lws_api.meta import ResourceKind

_AT_ONCE = 8
_SETS = "sets"


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem.

    where: the affected object, as `Kind namespace/name`. what: what is wrong, to be read after `where`.
    do: what helps, a sentence in the imperative.
    """

    where: str
    what: str
    do: str


@dataclass(frozen=True, slots=True)
class Unchecked:
    """A check of `what` that could not run, because of the permission or fact that it `needs`."""

    what: str
    needs: str


Result = Finding | Unchecked

Results = Sequence[tuple[str, Result]]
"""Pairs of the name of a check and one of its results."""


@click.command(
    short_help="Find problems of the installation, and what to do about them.",
    epilog="Exit codes: 0 nothing found, 1 findings or an error, 2 wrong usage. Checks that could not "
    "run are listed but are not findings.",
)
@output_option("json", "yaml")
@cluster_options
def doctor(output: str | None, target: ClusterOptions) -> int:
    """Check definitions, manager, webhooks, certificate, Lease, permissions, versions and sets.

    -n is the namespace of the manager (default: it is searched for, whatever the context is). Sets of all
    namespaces are checked. Nothing is changed.
    """
    return run(target, lambda session: _examine(session, output))


async def _examine(session: Session, output: str | None) -> int:
    reader = Reader(session.cluster)
    facts = await read_installation(reader, session.explicit_namespace, session.now, overriding_flags)
    results = [(name, result) for name, check in CHECKS.items() for result in check(facts)]
    for resource in RESOURCES:
        results += [(_SETS, result) for result in await _stuck(session, reader, resource)]
    if output:
        dump(doctor_data(facts, results), output)
    else:
        show(doctor_blocks(facts, results))
    return 0 if all(isinstance(result, Unchecked) for _, result in results) else 1


async def _stuck(session: Session, reader: Reader, resource: ResourceKind) -> list[Result]:
    sets = await reader.listed(Resource(resource.api_version, resource.kind, resource.plural))
    if isinstance(sets, Denied):
        return [Unchecked(f"{resource.kind}s that are stuck", sets.permission)]
    slots = asyncio.Semaphore(_AT_ONCE)
    results_by_set = await asyncio.gather(*(_stuck_set(session, obj, slots) for obj in sets))
    return [result for results in results_by_set for result in results]


async def _stuck_set(session: Session, obj: Object, slots: asyncio.Semaphore) -> list[Result]:
    metadata = obj["metadata"]
    where = f"{obj['kind']} {metadata['namespace']}/{metadata['name']}"
    within = Session(session.cluster, metadata["namespace"])
    try:
        async with slots:
            state = await state_of(within, obj)
    except Forbidden as error:
        return [Unchecked(where, worded(error).message)]
    except Unreadable as error:
        do = f"correct it: kubectl edit -n {metadata['namespace']} {obj['kind'].lower()} {metadata['name']}"
        return [Finding(where, f"is left alone, because its spec cannot be read: {error.fault}", do)]
    except (ClusterError, Refusal) as error:
        return [Unchecked(where, error.message)]
    return list(check_stuck(obj["kind"], status_data(state), state.obj, session.now))


def doctor_blocks(facts: Installation, results: Results) -> Iterator[Block]:
    """Yield the installation, the findings, and the checks that could not run."""
    yield from described(
        {
            "Namespace": facts.namespace,
            "Command": __version__,
            "Manager": manager_version(facts) or "<unknown>",
            "API server": facts.server,
            "Lease": _holders(facts),
        },
        {},
    )
    findings = [(name, result) for name, result in results if isinstance(result, Finding)]
    unchecked = [(name, result) for name, result in results if isinstance(result, Unchecked)]
    if findings:
        rows = tuple(
            row(name, finding.where, Text(finding.what, "red"), finding.do) for name, finding in findings
        )
        yield from (Text(""), Table(("CHECK", "WHERE", "FINDING", "WHAT TO DO"), rows))
    if unchecked:
        rows = tuple(row(name, Text(check.what, "yellow"), check.needs) for name, check in unchecked)
        yield from (Text(""), Table(("CHECK", "NOT CHECKED", "NEEDS"), rows))
    yield Text("")
    yield _last_line(len(findings), len(unchecked))


def doctor_data(facts: Installation, results: Results) -> dict[str, Any]:
    by_type: dict[type[Result], list[dict[str, str]]] = {Finding: [], Unchecked: []}
    for name, result in results:
        by_type[type(result)].append({"check": name, **asdict(result)})
    return {
        "namespace": facts.namespace,
        "versions": {
            "command": __version__,
            "manager": manager_version(facts) or None,
            "apiServer": facts.server,
        },
        "findings": by_type[Finding],
        "unchecked": by_type[Unchecked],
    }


def _holders(facts: Installation) -> str:
    leases = [lease for lease in facts.leases.values() if lease and not isinstance(lease, Denied)]
    specs = [lease.get("spec") or {} for lease in leases]
    return ", ".join(str(spec.get("holderIdentity") or "<none>") for spec in specs) or "<unknown>"


def _last_line(findings: int, unchecked: int) -> Text:
    suffix = f"; {unchecked} could not be checked" if unchecked else ""
    if findings:
        return Text(f"{findings} finding{'s' if findings > 1 else ''}{suffix}", "red")
    return Text(f"nothing found{suffix}", "yellow" if unchecked else "green")


OLDEST_KUBERNETES = (1, 26)
"""The oldest supported version of Kubernetes, as in the chart's `kubeVersion`."""

_FIRST = (2026, 0)
"""The lowest version of this controller: its versions are dates, year first, and upstream's are lower."""

_MINOR = re.compile(r"v?(\d+)\.(\d+)")


def manager_version(facts: Installation) -> str:
    """Return the version in the labels of the manager's Deployment; empty if it is not known."""
    labels = ((facts.deployment or {}).get("metadata") or {}).get("labels") or {}
    return str(labels.get("app.kubernetes.io/version") or "")


def check_versions(facts: Installation) -> Iterator[Result]:
    """Check the versions of the API server and the manager. An unknown version is not a finding."""
    server, manager = _minor(facts.server), manager_version(facts)
    if server is not None and server < OLDEST_KUBERNETES:
        oldest = ".".join(map(str, OLDEST_KUBERNETES))
        problem = f"is Kubernetes {facts.server}, older than {oldest}: workers would not start at ordinal 1"
        yield Finding("API server", problem, f"upgrade the cluster to Kubernetes {oldest} or newer")
    if not manager or _minor(manager) == _minor(__version__):
        return
    where = f"Deployment {facts.namespace}/{(facts.deployment or {})['metadata']['name']}"
    if (_minor(manager) or _FIRST) < _FIRST:
        problem = f"is upstream's controller, version {manager}: this command's predictions may be wrong"
        yield Finding(
            where, problem, "to move to the controller of this command, follow docs/operations/handover.md"
        )
    else:
        yield Finding(
            where,
            f"is version {manager}, this command {__version__}: they may decide differently",
            f"install the command of version {manager}, or upgrade the chart",
        )


def _minor(version: str) -> tuple[int, int] | None:
    match = _MINOR.match(version)
    return (int(match[1]), int(match[2])) if match else None


_SHOWN = 3
_NO_CONVERSION = '[{"op": "replace", "path": "/spec/conversion", "value": {"strategy": "None"}}]'


def check_definitions(facts: Installation) -> Iterator[Result]:
    """Check the CRDs. Those of optional kinds may be missing."""
    desired = {definition["metadata"]["name"]: definition for definition in definitions().values()}
    for name, stored in facts.definitions.items():
        if isinstance(stored, Denied):
            yield Unchecked(f"CustomResourceDefinition {name}", stored.permission)
        elif stored is not None:
            yield from _of_definition(stored, desired[name], facts.all_definitions)
        elif name == LEADER_WORKER_SET.crd_name:
            where = f"CustomResourceDefinition {name}"
            yield Finding(where, "is missing: there can be no LeaderWorkerSets", "install the chart")


def _of_definition(stored: Object, desired: Mapping[str, Any], others: ReadMany) -> Iterator[Finding]:
    where = f"CustomResourceDefinition {stored['metadata']['name']}"
    spec, status = stored["spec"], stored.get("status") or {}
    yield from _acceptance(where, stored, others)
    if stored["metadata"].get("deletionTimestamp"):
        yield Finding(
            where,
            "is being deleted, and all its objects with it",
            "make a backup of the sets, let the deletion end, and install the chart again",
        )
    yield from _served_versions(where, spec, status, desired["spec"]["versions"])


def _acceptance(where: str, stored: Object, others: ReadMany) -> Iterator[Finding]:
    stored_conditions = (stored.get("status") or {}).get("conditions") or ()
    lacking = [
        kind for kind in ("NamesAccepted", "Established") if not conditions.is_true(stored_conditions, kind)
    ]
    if not lacking:
        return
    # A CRD without its names is not established either, which is one problem and not two.
    condition = conditions.find(stored_conditions, lacking[0]) or {}
    why = f": {condition['message']}" if condition.get("message") else ""
    name = stored["metadata"]["name"]
    do = f"wait a moment and check again; if nothing changes: kubectl describe crd {name}"
    if conditions.is_false(stored_conditions, "NamesAccepted"):
        do = _make_room(stored, others)
    yield Finding(where, f"is not {lacking[0]}{why}", do)


def _make_room(stored: Object, others: ReadMany) -> str:
    group = stored["spec"]["group"]
    holders = [
        definition["metadata"]["name"]
        for definition in (() if isinstance(others, Denied) else others)
        if definition["metadata"]["name"] != stored["metadata"]["name"]
        and definition["spec"]["group"] == group
        and _names_of_definition(definition) & _names_of_definition(stored)
    ]
    if holders:
        which = f"CustomResourceDefinition {', '.join(sorted(holders))}, which has its names"
    else:
        which = f"the definition of group {group} that has its names (kubectl get crd | grep {group})"
    return f"delete {which}: all objects of that kind go with it, so save what is needed"


def _names_of_definition(definition: Object) -> set[str]:
    """Return the names that no two CRDs of a group may share."""
    names = definition["spec"]["names"]
    own = (names.get("plural"), names.get("singular"), names.get("kind"), names.get("listKind"))
    return {name for name in (*own, *(names.get("shortNames") or ())) if name}


def _served_versions(
    where: str, spec: Mapping[str, Any], status: Mapping[str, Any], desired: list[Mapping[str, Any]]
) -> Iterator[Finding]:
    definition = where.split()[-1]
    also = "" if definition == LEADER_WORKER_SET.crd_name else " and enableDisaggregatedSet=true"
    upgrade = (
        f"apply the definitions of this release: upgrade the chart with crds.enabled=true{also}, or "
        "`kubectl apply --server-side -f api/lws_api/crds`"
    )
    stored = {version["name"]: version for version in spec["versions"]}
    for version in desired:
        name, ours = version["name"], stored.get(version["name"])
        if ours is None or not ours.get("served"):
            yield Finding(where, f"does not serve version {name}", upgrade)
            continue
        if not ours.get("storage"):
            yield Finding(where, f"stores another version than {name}", upgrade)
        lacking = sorted(_fields(_schema(version)) - _fields(_schema(ours)))
        if lacking:
            more = f" and {len(lacking) - _SHOWN} more" if len(lacking) > _SHOWN else ""
            problem = f"is older or of another release: it lacks {', '.join(lacking[:_SHOWN])}{more}"
            yield Finding(where, f"{problem}; the API server drops what it lacks", upgrade)
    old = sorted(set(status.get("storedVersions") or ()) - {version["name"] for version in desired})
    if old:
        yield Finding(
            where,
            f"may have objects stored as {', '.join(old)}",
            f"write every object once (`kubectl get {definition} -A -o json | kubectl replace -f -`), then "
            "remove these from status.storedVersions",
        )
    # With only one version, as in upstream's CRD, the webhook is never called.
    if len(stored) > 1 and (spec.get("conversion") or {}).get("strategy", "None") != "None":
        problem = "asks a webhook to convert, which this manager does not serve"
        do = f"{upgrade}; then `kubectl patch crd {definition} --type=json -p='{_NO_CONVERSION}'`"
        yield Finding(where, problem, do)


def _schema(version: Mapping[str, Any]) -> Mapping[str, Any]:
    return (version.get("schema") or {}).get("openAPIV3Schema") or {}


def _fields(schema: Mapping[str, Any], path: str = "") -> set[str]:
    """Return the paths of fields outside pod templates, whose fields depend on the release of Kubernetes."""
    paths: set[str] = set()
    for name, field in (schema.get("properties") or {}).items():
        field_path = f"{path}.{name}".lstrip(".")
        paths.add(field_path)
        is_of_pods = name.endswith(("Template", "Templates"))
        if not is_of_pods or "leaderTemplate" in (field.get("properties") or {}):
            paths |= _fields(field, field_path) | _fields(field.get("items") or {}, f"{field_path}[]")
    return paths


def check_managers(facts: Installation) -> Iterator[Result]:
    """Check the Deployment of the manager and the Service of its webhooks."""
    if isinstance(facts.managers, Denied):
        yield Unchecked("the Deployment of the manager", facts.managers.permission)
    else:
        yield from _deployments(facts, facts.managers)
    name = facts.configuration.internal_cert_management.webhook_service_name
    where = f"Service {facts.namespace}/{name}"
    if isinstance(facts.service, Denied):
        yield Unchecked(where, facts.service.permission)
    elif facts.service is None:
        problem = "is missing: the API server cannot call the webhooks, and rejects sets"
        yield Finding(where, problem, "install the chart, or upgrade it with the same values")
    elif isinstance(facts.slices, Denied):
        yield Unchecked(f"endpoints of {where}", facts.slices.permission)
    elif not _is_answered(facts):
        problem = "has no ready endpoint: the API server cannot call the webhooks, and rejects sets"
        yield Finding(
            where, problem, f"check why no pod is ready: kubectl -n {facts.namespace} describe pods"
        )


def _deployments(facts: Installation, managers: Sequence[Object]) -> Iterator[Finding]:
    names = [f"{namespace_of(deployment)}/{name_of(deployment)}" for deployment in managers]
    deployment = facts.deployment
    if deployment is None:
        yield Finding(
            f"namespace {facts.namespace}",
            "has no Deployment of the manager: no manager reconciles sets",
            "install the chart, or name the manager's namespace with -n",
        )
    elif not (deployment.get("status") or {}).get("availableReplicas"):
        where = f"Deployment {facts.namespace}/{deployment['metadata']['name']}"
        do = f"check why no pod is ready: kubectl -n {facts.namespace} describe pods"
        yield Finding(where, "has no available pod: no manager reconciles sets", do)
    if len(names) > 1:
        yield Finding(
            f"Deployments {', '.join(sorted(names))}",
            "are managers of the same sets, each with a Lease of its own if their namespaces differ",
            "remove all but one: `helm uninstall` its release, or scale its Deployment to 0",
        )


def _is_answered(facts: Installation) -> bool:
    slices = () if isinstance(facts.slices, Denied) else facts.slices
    endpoints = [endpoint for endpoint_slice in slices for endpoint in endpoint_slice.get("endpoints") or ()]
    # An absent value means unknown, which counts as ready.
    return any((endpoint.get("conditions") or {}).get("ready") is not False for endpoint in endpoints)


def check_webhooks(facts: Installation) -> Iterator[Result]:
    """Check the webhook configurations of both kinds."""
    for (kind, name), stored in zip(CONFIGURATIONS, (facts.mutating, facts.validating), strict=True):
        if isinstance(stored, Denied):
            yield Unchecked(f"{kind} {name}", stored.permission)
        else:
            yield from _of_kind(facts, kind, name, stored)


def _of_kind(facts: Installation, kind: str, name: str, stored: ReadMany) -> Iterator[Finding]:
    webhooks = list(hooks(stored))
    if not any(configuration["metadata"]["name"] == name for configuration, _ in webhooks):
        problem = (
            "is missing: sets get no defaults and are not validated, and pods start without labels and LWS "
            "variables"
        )
        yield Finding(f"{kind} {name}", problem, "install the chart, or upgrade it with the same values")
    for configuration, hook in webhooks:
        if configuration["metadata"]["name"] == name:
            yield from _of_hook(facts, f"{kind} {name}, webhook {hook['name']}", hook)
    for other_name in sorted({configuration["metadata"]["name"] for configuration, _ in webhooks} - {name}):
        yield Finding(
            f"{kind} {other_name}",
            "calls a second controller for the same sets",
            f"remove the installation that it belongs to, or this configuration if nothing serves it: "
            f"`kubectl delete {kind.lower()} {other_name}`",
        )


def _of_hook(facts: Installation, where: str, hook: Mapping[str, Any]) -> Iterator[Finding]:
    service: Object = hook["clientConfig"].get("service") or {}
    own = (facts.namespace, facts.configuration.internal_cert_management.webhook_service_name)
    if (service.get("namespace"), service.get("name")) != own:
        target = f"{service.get('namespace')}/{service.get('name')}" if service else "a URL"
        yield Finding(
            where,
            f"asks {target}, while the manager is behind Service {'/'.join(own)}",
            "upgrade the chart in the namespace where the manager runs, or name that namespace with -n",
        )
    if hook.get("failurePolicy", "Fail") != "Fail":
        yield Finding(
            where,
            "is passed over when the manager does not answer (failurePolicy Ignore): what it would reject is "
            "stored, and pods start without labels and LWS variables",
            "set webhooks.failurePolicy=Fail in the chart's values",
        )


def check_certificate(facts: Installation) -> Iterator[Result]:
    """Check the certificate in the Secret: its names, its dates, and the CA bundle of each webhook."""
    settings = facts.configuration.internal_cert_management
    where = f"Secret {facts.namespace}/{settings.webhook_secret_name}"
    if isinstance(facts.secret, Denied):
        yield Unchecked(where, facts.secret.permission)
        return
    certificate = _decoded((facts.secret or {}).get("data") or {}, "tls.crt")
    if not certificate:
        problem = "is missing" if facts.secret is None else "holds no certificate (tls.crt)"
        yield Finding(where, f"{problem}: the webhooks cannot be served", _who_renews(settings.enable))
        return
    name = f"{settings.webhook_service_name}.{facts.namespace}.svc"
    if flaw := shown_flaw(certificate, (), (name,), facts.now):
        yield Finding(where, f"its certificate is {flaw}", _who_renews(settings.enable))
    elif (remaining := expiry(certificate) - facts.now) < timing.EXPIRES_SOON:
        problem = f"its certificate ends in {remaining.days} days, and it has not been renewed"
        yield Finding(where, problem, _who_renews(settings.enable))
    yield from _bundles(facts, certificate, where)


def _bundles(facts: Installation, certificate: bytes, secret: str) -> Iterator[Finding]:
    for configurations in (facts.mutating, facts.validating):
        for configuration, hook in hooks(configurations):
            where = f"{configuration['kind']} {configuration['metadata']['name']}, webhook {hook['name']}"
            bundle = _decoded(hook["clientConfig"], "caBundle")
            do = _who_renews(facts.configuration.internal_cert_management.enable)
            if not bundle:
                yield Finding(where, "has no CA bundle: the API server trusts no certificate", do)
            elif flaw := shown_flaw(certificate, (bundle,), (), facts.now):
                yield Finding(where, f"does not trust the certificate of {secret}: it is {flaw}", do)


def _who_renews(internal: bool) -> str:
    if internal:
        return "the manager fixes this within minutes: check that it runs, and what its log reports"
    return "check the status of Certificate lws-serving-cert of cert-manager, and that its CA injector runs"


def _decoded(data: Mapping[str, Any], key: str) -> bytes:
    try:
        return base64.b64decode(data.get(key) or "", validate=True)
    except (binascii.Error, ValueError):
        return b"?"


def check_clashes(facts: Installation) -> Iterator[Result]:
    """Check for sets with conflicting names that were stored without the webhook."""
    if isinstance(facts.sets, Denied):
        yield Unchecked("names that two sets need", facts.sets.permission)
        return
    by_namespace: dict[str, list[Object]] = defaultdict(list)
    for lws in facts.sets:
        if not spec_fault(lws):
            by_namespace[lws["metadata"]["namespace"]].append(lws)
    for namespace, sets in sorted(by_namespace.items()):
        # Report each pair only once, because the rule is symmetric.
        for index, obj in enumerate(sets):
            for error in clash_errors(obj, None, sets[:index]):
                where = f"LeaderWorkerSet {namespace}/{obj['metadata']['name']}"
                do = (
                    "delete one of the two, and create it under another name; with fewer groups both fit, too"
                )
                yield Finding(where, str(error), do)


_KNOWN_SINCE = (0, 11)
"""The first version of upstream that knows the gate and the finalizer."""

_MARKS: Mapping[str, tuple[str, Callable[[Object], bool], str]] = {
    f"the scheduling gate {GROUP_REPLACEMENT_GATE}": (
        "spec.groupReplacementPolicy",
        lambda pod: has_gate(pod, GROUP_REPLACEMENT_GATE),
        "and are never scheduled",
    ),
    f"the finalizer {RESTART_BUDGET_FINALIZER}": (
        "spec.leaderWorkerTemplate.maxGroupRestarts",
        is_kept,
        "and are never removed",
    ),
}
"""What the manager puts on pods → the field that releases have which know it, whether a pod has it, and what
happens to the pod if nobody removes it.
"""


def check_held_pods(facts: Installation) -> Iterator[Result]:
    """Check for pods with a gate or finalizer of this controller that no manager removes. Charts of releases
    which do not know it bring a definition without the field that it comes with. The version alone does not
    tell, because it also belongs to builds between two releases.
    """
    if isinstance(facts.idle_pods, Denied):
        yield Unchecked("pods with a gate or finalizer that no manager removes", facts.idle_pods.permission)
        return
    stored = facts.definitions.get(LEADER_WORKER_SET.crd_name)
    versions = stored["spec"]["versions"] if isinstance(stored, Mapping) else ()
    served = [_fields(_schema(version)) for version in versions]
    for mark, (field, has_mark, outcome) in _MARKS.items():
        names: dict[str, list[str]] = defaultdict(list)
        for pod in filter(has_mark, facts.idle_pods):
            names[namespace_of(pod)].append(name_of(pod))
        why = ""
        is_older = (_minor(manager_version(facts)) or _FIRST) < _KNOWN_SINCE
        if is_older or (served and not any(field in fields for fields in served)):
            why = "the release that is installed does not know it"
        elif any(isinstance(result, Finding) for result in check_lease(facts)):
            why = "no manager acts"
        for namespace, pods in sorted(names.items()) if why else ():
            listed = ", ".join(sorted(pods)[:_SHOWN])
            more = f" and {len(pods) - _SHOWN} more" if len(pods) > _SHOWN else ""
            problem = f"have {mark}, {outcome}: {why}"
            do = "install a release that knows it, or remove it: docs/operations/upgrades.md#downgrade"
            yield Finding(f"Pods {listed}{more} in namespace {namespace}", problem, do)


def check_stuck(kind: str, data: Mapping[str, Any], stored: Object, now: datetime) -> Iterator[Finding]:
    """Check whether a set has stopped making progress. data: its `status_data`.

    Paused sets wait for their users, and sets with another manager for that manager: they are not findings.
    """
    if data["settled"] or data["paused"] or other_manager(stored):
        return
    since = data["lastProgress"] or _last_transition(stored) or stored["metadata"]["creationTimestamp"]
    moment = moment_of(since)
    is_silent = moment is None or now - moment > timing.STUCK_AFTER
    if not (is_silent or data["stalled"]):
        return
    waits = [line["why"] for line in data.get("groups") or data.get("leaderWorkerSets") or () if line["why"]]
    why = f"; {waits[0]}" if waits else ""
    yield Finding(
        f"{kind} {data['namespace']}/{data['name']}",
        f"has not moved for {age(since, now)}: it waits for {data['waitingFor']}{why}",
        f"kubectl lws status -n {data['namespace']} {kind.lower()}/{data['name']}",
    )


def _last_transition(stored: Object) -> str:
    """Return when a condition last changed, the only time in a status of upstream; empty if there is none."""
    stored_conditions = (stored.get("status") or {}).get("conditions") or ()
    moments = [moment_of(condition.get("lastTransitionTime")) for condition in stored_conditions]
    latest = max(filter(None, moments), default=None)
    return timestamp(latest) if latest else ""


_DO = "check that a manager runs, and what its log reports about the Lease"


def check_lease(facts: Installation) -> Iterator[Result]:
    """Check all Leases, including those of shards."""
    for name, lease in facts.leases.items():
        where = f"Lease {facts.namespace}/{name}"
        if isinstance(lease, Denied):
            yield Unchecked(where, lease.permission)
        elif lease is None:
            yield Finding(where, "is missing: no manager has ever acquired it", _DO)
        else:
            yield from _of_lease(facts, where, lease)


def _of_lease(facts: Installation, where: str, lease: Object) -> Iterator[Finding]:
    spec = lease.get("spec") or {}
    holder, renewed = spec.get("holderIdentity"), spec.get("renewTime")
    if not holder:
        yield Finding(where, "has no holder: no manager reconciles sets", _DO)
        return
    moment = moment_of(renewed)
    late = 0.0 if moment is None else (facts.now - moment - timing.LEASE_LATE).total_seconds()
    if moment is None or late > int(spec.get("leaseDurationSeconds") or 0):
        when = f"has not renewed it for {age(renewed, facts.now)}" if moment else "has never renewed it"
        problem = f"its holder {holder} {when}: no manager reconciles sets"
        yield Finding(where, problem, f"{_DO}; if both are fine, compare this machine's clock with theirs")


def shown_flaw(certificate: bytes, bundles: Iterable[bytes], names: tuple[str, ...], when: datetime) -> str:
    """Return what is wrong with a certificate, to be read after “it is”; empty if nothing is wrong.

    bundles: of trusted CAs; without them, the issuer is not checked. names: hosts for which it must be valid.
    """
    try:
        chain = [read(part) for part in split(certificate)] or [read(certificate)]
        authorities = [read(part) for bundle in bundles for part in split(bundle) or (bundle,)]
    except UNREADABLE as error:
        return f"unreadable ({error})"
    if authorities and not any(
        _is_issued(issued, authority) for issued in _leading(chain) for authority in authorities
    ):
        return "of another CA"
    uncovered = set(names) - names_in(chain[0])
    if uncovered:
        return f"not for {', '.join(sorted(uncovered))}"
    return time_flaw(chain[0], when)


def _leading(chain: Sequence[x509.Certificate]) -> Iterator[x509.Certificate]:
    """Yield the certificates of a chain from the first one on, as long as each is issued by the next."""
    yield chain[0]
    for certificate, issuer in pairwise(chain):
        if not _is_issued(certificate, issuer):
            return
        yield issuer


def _is_issued(certificate: x509.Certificate, by: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(by)
    except (InvalidSignature, *UNREADABLE):
        return False
    return True


def check_permissions(facts: Installation) -> Iterator[Result]:
    """Check the manager's permissions. Each namespace that lacks some is one finding, as is the cluster."""
    where = f"ServiceAccount {facts.namespace}/{facts.account}"
    if isinstance(facts.rights, Denied):
        yield Unchecked(f"what {where} may do", facts.rights.permission)
        return
    if isinstance(facts.configuration_read, Denied):
        permissions = "permissions needed only for gang scheduling or cert-manager"
        yield Unchecked(permissions, facts.configuration_read.permission)
    missing: dict[str, list[Right]] = {}
    for right, allowed in facts.rights.items():
        if not allowed:
            missing.setdefault(right.namespace, []).append(right)
    for namespace, rights in missing.items():
        scope = f"in namespace {namespace}" if namespace else "in the cluster"
        yield Finding(
            where,
            f"may not, {scope}: {', '.join(sorted(map(str, rights)))}",
            "upgrade the chart, which grants them, and check that its roles and bindings are unchanged",
        )


CHECKS: Mapping[str, Callable[[Installation], Iterator[Result]]] = {
    "versions": check_versions,
    "definitions": check_definitions,
    "manager": check_managers,
    "webhooks": check_webhooks,
    "certificate": check_certificate,
    "lease": check_lease,
    "clashes": check_clashes,
    "pods": check_held_pods,
    "permissions": check_permissions,
}
"""The checks, in the order of the report. Stuck sets come last, because each set takes reads of its own."""

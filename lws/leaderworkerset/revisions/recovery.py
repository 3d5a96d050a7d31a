"""Reconstruct a lost revision from the StatefulSets that were created from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lws.history.plan import Reconstruction
from lws.history.revision import Revision
from lws.kube.metadata import annotations_of, labels_of, metadata_of, name_of, namespace_of, without
from lws.kube.quantities import whole_number
from lws.leaderworkerset.fields import SUB_GROUP_POLICY_TYPE
from lws.leaderworkerset.revisions.encoding import NOT_IN_PODS, equality_form
from lws.leaderworkerset.revisions.history import Record, Recorded, record
from lws.leaderworkerset.spec import (
    PLACEMENT_ANNOTATIONS,
    SetSpec,
    group_topology,
    placement_given,
)
from lws.leaderworkerset.templates.claims import claims_of, common_claim
from lws.leaderworkerset.templates.node_selection import selects_by_group, without_group_nodes
from lws.runtime.actions import Object, Reference
from lws_api.leaderworkerset.v1 import (
    GROUP_INDEX_LABEL,
    GROUP_KEY_LABEL,
    LEADER_ADDRESS_ANNOTATION,
    LEADER_NAME_ANNOTATION,
    LEADER_REQUESTS_TPUS_ANNOTATION,
    NAME_LABEL,
    POD_TERMINATION_POLICY_ANNOTATION,
    REVISION_LABEL,
    SCHEDULING_LEVEL_ANNOTATION,
    SIZE_ANNOTATION,
    SUBDOMAIN_POLICY_ANNOTATION,
    SUBGROUP_POLICY_TYPE_ANNOTATION,
    SUBGROUP_SIZE_ANNOTATION,
    WORKER_INDEX_LABEL,
    WORKLOAD_NAME_ANNOTATION,
    SubdomainPolicy,
)

_OUR_LABELS = frozenset({NAME_LABEL, WORKER_INDEX_LABEL, GROUP_INDEX_LABEL, GROUP_KEY_LABEL, REVISION_LABEL})
_OUR_ANNOTATIONS = frozenset(
    {
        SIZE_ANNOTATION,
        LEADER_ADDRESS_ANNOTATION,
        LEADER_NAME_ANNOTATION,
        LEADER_REQUESTS_TPUS_ANNOTATION,
        POD_TERMINATION_POLICY_ANNOTATION,
        SUBDOMAIN_POLICY_ANNOTATION,
        SUBGROUP_POLICY_TYPE_ANNOTATION,
        SUBGROUP_SIZE_ANNOTATION,
        SCHEDULING_LEVEL_ANNOTATION,
        WORKLOAD_NAME_ANNOTATION,
        *PLACEMENT_ANNOTATIONS,
    }
)


@dataclass(frozen=True, slots=True)
class Running:
    """Templates of StatefulSets that have a key without a revision.

    leader: the pod template that leaders of this key are recreated from; None if the leader StatefulSet does
    not have it any more. claims: the claim templates of the leader StatefulSet. workers: a worker StatefulSet
    of this key, untrimmed; None if there is none.
    """

    key: str
    leader: Object | None = None
    claims: tuple[Object, ...] = ()
    workers: Object | None = None


def reconstruct(lws: Object, running: Running) -> Reconstruction[Record] | None:
    """Build the record of the running templates and, for missing parts, the set; None without templates."""
    if running.leader is None and running.workers is None:
        return None
    spec, desired = SetSpec.of(lws), record(lws)
    topology = placement_given(*_template_in_use(spec, running), spec.placement)
    # If the key is the hash of the desired record, the templates need not be compared.
    is_hash = desired.key == running.key
    observed = _shown(spec, running, topology)
    # The spec of the set as its StatefulSets would show it.
    live = _shape(
        spec.leader_template,
        spec.worker_template,
        topology,
        size=spec.size,
        claims=claims_of(lws),
        subgroup=spec.subgroup,
        policy=spec.subdomain_policy,
    )
    is_equal = is_hash or equality_form(_comparable(observed)) == equality_form(_comparable(live))
    rebuilt = Record(desired.spec if is_equal else _recordable(lws, observed, live), topology)
    is_desired = is_equal and topology == desired.topology
    size = int(observed["leaderWorkerTemplate"]["size"])
    guessed = "" if is_hash or size == 1 or running.workers is not None else "the template of its workers"
    return Reconstruction(running.key, desired if is_desired else rebuilt, is_desired, guessed)


def claim_templates_of(statefulset: Object) -> tuple[Object, ...]:
    """Return the claim templates of a StatefulSet, which never change."""
    return tuple(statefulset["spec"].get("volumeClaimTemplates") or ())


def as_recorded(lws: Object, rebuilt: Reconstruction[Record]) -> Recorded:
    """Return the reconstruction as a revision to restore; it refers to no stored object."""
    reference = Reference("apps/v1", "ControllerRevision", namespace_of(lws), "")
    return Revision(reference=reference, number=0, key=rebuilt.key, record=rebuilt.record)


def _shown(spec: SetSpec, running: Running, topology: Mapping[str, str]) -> dict[str, Any]:
    """Return the recorded part of the spec that the running templates show."""
    workers, annotations = running.workers, _given(spec, running)
    policy_type = annotations.get(SUBGROUP_POLICY_TYPE_ANNOTATION)
    subgroup = {
        "subGroupSize": whole_number(annotations.get(SUBGROUP_SIZE_ANNOTATION), least=1),
        # A revision with an unknown value would be broken.
        "subGroupPolicyType": policy_type if policy_type in SUB_GROUP_POLICY_TYPE.choices else None,
    }
    return _shape(
        running.leader if running.leader is not None else spec.leader_template,
        workers["spec"]["template"] if workers is not None else spec.worker_template,
        topology,
        size=whole_number(annotations.get(SIZE_ANNOTATION), least=1) or spec.size,
        claims=running.claims or (claim_templates_of(workers) if workers is not None else ()),
        subgroup={field: value for field, value in subgroup.items() if value} or None,
        policy=_subdomain_policy(spec, running),
    )


def _shape(
    leader: Object,
    workers: Object,
    topology: Mapping[str, str],
    *,
    size: int,
    claims: Iterable[Object],
    subgroup: Mapping[str, Any] | None,
    policy: SubdomainPolicy,
) -> dict[str, Any]:
    """Return the part of a spec that a revision records, with stripped templates of leaders and workers."""
    return {
        "leaderWorkerTemplate": {
            "leaderTemplate": _stripped(leader, topology, ""),
            "workerTemplate": _stripped(workers, topology, group_topology(topology)),
            "size": size,
            "volumeClaimTemplates": [_claim(claim) for claim in claims],
            "subGroupPolicy": subgroup,
        },
        "networkConfig": {"subdomainPolicy": policy.value},
    }


def _recordable(lws: Object, observed: Object, live: Object) -> dict[str, Any]:
    """Return the running templates in the shape of a spec that a user would write."""
    desired, template = lws["spec"]["leaderWorkerTemplate"], dict(observed["leaderWorkerTemplate"])
    if _claims_form(observed) == _claims_form(live):
        # StatefulSets of earlier releases have only some fields of the claim templates.
        template["volumeClaimTemplates"] = desired.get("volumeClaimTemplates")
    template = {key: value for key, value in template.items() if value}
    if desired.get("leaderTemplate") is None:
        # Groups of one pod have no workers that could show a template.
        if template["size"] == 1:
            template["workerTemplate"] = template["leaderTemplate"]
        if _form(template["leaderTemplate"]) == _form(template["workerTemplate"]):
            del template["leaderTemplate"]
    template |= {key: desired[key] for key in NOT_IN_PODS if desired.get(key) is not None}
    return {"leaderWorkerTemplate": template, "networkConfig": observed["networkConfig"]}


def _form(template: Object) -> str:
    return equality_form({"leaderWorkerTemplate": {"workerTemplate": template}})


def _claims_form(shape: Object) -> str:
    claims = _comparable(shape)["leaderWorkerTemplate"]["volumeClaimTemplates"]
    return equality_form({"leaderWorkerTemplate": {"volumeClaimTemplates": claims}})


def _stripped(template: Object, placement: Mapping[str, str], domain: str) -> dict[str, Any]:
    """Return a pod template without the fields that controllers add. placement: the placement annotations.
    domain: the node label whose value all pods of a group share, and which workers have in their node
    selector.
    """
    metadata, pod = dict(template.get("metadata") or {}), dict(template.get("spec") or {})
    metadata["labels"] = without(labels_of(template), _OUR_LABELS)
    metadata["annotations"] = without(annotations_of(template), _OUR_ANNOTATIONS)
    if domain and pod.get("nodeSelector"):
        pod["nodeSelector"] = without(pod["nodeSelector"], {domain})
    if selects_by_group(placement):
        pod = without_group_nodes(pod, placement)
    if _is_of_leader(pod.get("schedulingGroup") or {}, labels_of(template)):
        del pod["schedulingGroup"]
    return {**template, "metadata": metadata, "spec": pod}


def _is_of_leader(scheduling_group: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Return whether workers name their leader's PodGroup, whose name begins with values of these labels."""
    prefix = "-".join(labels.get(key, "") for key in (NAME_LABEL, GROUP_INDEX_LABEL, REVISION_LABEL))
    return NAME_LABEL in labels and str(scheduling_group.get("podGroupName") or "").startswith(f"{prefix}-")


def _claim(claim: Object) -> dict[str, Any]:
    metadata = {key: metadata_of(claim).get(key) for key in ("name", "labels", "annotations")}
    return {
        "metadata": {key: value for key, value in metadata.items() if value},
        "spec": claim.get("spec") or {},
    }


def _comparable(shape: Object) -> dict[str, Any]:
    """Return the parts that StatefulSets of all releases have, which include only some fields of claims."""
    template = dict(shape["leaderWorkerTemplate"])
    common = (common_claim(claim, "") for claim in template["volumeClaimTemplates"])
    template["volumeClaimTemplates"] = [
        {"metadata": {"name": claim["metadata"]["name"]}, "spec": claim["spec"]} for claim in common
    ]
    return {**shape, "leaderWorkerTemplate": template}


def _template_in_use(spec: SetSpec, running: Running) -> tuple[Object, Object]:
    """Return a running template, preferably the leaders', and its counterpart in the current spec."""
    if running.leader is not None:
        return running.leader, spec.leader_template
    workers = running.workers["spec"]["template"] if running.workers is not None else {}
    return workers, spec.worker_template


def _given(spec: SetSpec, running: Running) -> dict[str, str]:
    """Return the annotations that controllers added to pods, without annotations of the user."""
    used, template = _template_in_use(spec, running)
    by_user, desired = annotations_of(template), spec.subgroup_annotations
    if spec.subdomain_policy == SubdomainPolicy.UNIQUE_PER_REPLICA:
        desired[SUBDOMAIN_POLICY_ANNOTATION] = SubdomainPolicy.UNIQUE_PER_REPLICA.value
    return {
        key: value
        for key, value in annotations_of(used).items()
        if key == SIZE_ANNOTATION or by_user.get(key) != value or desired.get(key) == value
    }


def _subdomain_policy(spec: SetSpec, running: Running) -> SubdomainPolicy:
    if running.leader is not None:
        policy = _given(spec, running).get(SUBDOMAIN_POLICY_ANNOTATION)
        is_shared = policy != SubdomainPolicy.UNIQUE_PER_REPLICA
    else:
        assert running.workers is not None
        is_shared = running.workers["spec"].get("serviceName") == name_of(spec.lws)
    return SubdomainPolicy.SHARED if is_shared else SubdomainPolicy.UNIQUE_PER_REPLICA

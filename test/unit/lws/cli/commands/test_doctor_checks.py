"""lws.cli.commands.doctor: each finding separately, and no finding for a healthy installation."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from lws.cli.commands.doctor import CHECKS, Finding, Result, Unchecked, check_stuck
from lws.cli.installation import Denied, Installation
from lws.runtime.certificates.serving_certificate import Certificates, renewed
from lws_api.crds import definitions
from lws_api.leaderworkerset.v1 import GROUP_REPLACEMENT_GATE, RESTART_BUDGET_FINALIZER
from test.unit.builders import make_set
from test.unit.lws.cli.healthy import (
    LEASE,
    NAMESPACE,
    NOW,
    SERVICE,
    configuration,
    definition,
    encoded,
    healthy,
    manager,
    secret,
)
from test.unit.lws.cli.healthy import lease as a_lease
from test.unit.lws.runtime.certificates.chains import another_authority

pytestmark = pytest.mark.usefixtures("shared_keys")

SETS = "leaderworkersets.leaderworkerset.x-k8s.io"
NAMES = [definition["metadata"]["name"] for definition in definitions().values()]


def results(facts: Installation) -> Iterator[Result]:
    for check in CHECKS.values():
        yield from check(facts)


def only(facts: Installation) -> Finding:
    """Return the only finding."""
    (finding,) = results(facts)
    assert isinstance(finding, Finding)
    assert finding.do and finding.where
    return finding


def broken_definition(name: str = SETS, /, **changes: Any) -> Installation:
    return replace(healthy(), definitions={SETS: definition(SETS), name: {**definition(name), **changes}})


def with_hook(index: int = 1, **changes: Any) -> Installation:
    changed = configuration(index)
    changed["webhooks"][0] |= changes
    return replace(healthy(), **{("mutating", "validating")[index]: (changed,)})


def test_a_healthy_installation_has_no_findings() -> None:
    assert list(results(healthy())) == []


def test_a_missing_definition() -> None:
    assert "is missing" in only(replace(healthy(), definitions={SETS: None})).what


def test_optional_kinds_may_be_missing() -> None:
    names = [name for name in healthy().definitions if name != SETS]
    facts = replace(healthy(), definitions={SETS: definition(SETS), **dict.fromkeys(names)})
    assert list(results(facts)) == []


def test_a_definition_whose_names_are_taken() -> None:
    conditions = [
        {"type": "Established", "status": "True"},
        {"type": "NamesAccepted", "status": "False", "message": "lws is taken"},
    ]
    facts = broken_definition(status={"conditions": conditions, "storedVersions": ["v1"]})
    assert only(facts).what == "is not NamesAccepted: lws is taken"
    names = {"plural": "others", "kind": "Other", "shortNames": ["lws"]}
    others = tuple(
        {"metadata": {"name": name}, "spec": {"group": group, "names": names}}
        for name, group in (("others.of.us", "leaderworkerset.x-k8s.io"), ("others.else", "else.io"))
    )
    finding = only(replace(facts, all_definitions=others))
    assert finding.do.startswith(
        "delete CustomResourceDefinition others.of.us, which has its names: all objects"
    )
    assert "save what is needed" in finding.do


@pytest.mark.parametrize(
    "conditions",
    [
        None,
        [{"type": "NamesAccepted", "status": "True"}],
        [
            {"type": "NamesAccepted", "status": "True"},
            {"type": "Established", "status": "False", "message": "installing"},
        ],
        [{"type": "NamesAccepted", "status": "Unknown"}, {"type": "Established", "status": "False"}],
    ],
)
def test_a_definition_that_is_not_established_yet(conditions: Any) -> None:
    finding = only(broken_definition(status={"conditions": conditions, "storedVersions": ["v1"]}))
    assert finding.what.startswith("is not ")
    assert "delete" not in finding.do
    assert f"kubectl describe crd {SETS}" in finding.do


def test_a_definition_of_another_release_lacks_fields() -> None:
    spec = copy.deepcopy(definition(SETS)["spec"])
    schema = spec["versions"][0]["schema"]["openAPIV3Schema"]
    del schema["properties"]["spec"]["properties"]["podDisruptionBudget"]
    finding = only(broken_definition(spec=spec))
    assert "it lacks spec.podDisruptionBudget" in finding.what
    assert "crds.enabled=true" in finding.do


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"served": False}, "does not serve version v1"),
        ({"storage": False}, "stores another version than v1"),
    ],
)
def test_a_definition_with_another_version(change: dict[str, Any], message: str) -> None:
    spec = copy.deepcopy(definition(SETS)["spec"])
    spec["versions"][0] |= change
    assert only(broken_definition(spec=spec)).what == message


def test_a_definition_with_a_foreign_conversion_webhook() -> None:
    spec = {**definition(SETS)["spec"], "conversion": {"strategy": "Webhook"}}
    spec["versions"] = [*spec["versions"], {**spec["versions"][0], "name": "v2", "storage": False}]
    finding = only(broken_definition(spec=spec))
    assert "convert" in finding.what
    assert f"kubectl patch crd {SETS} --type=json" in finding.do


def test_a_conversion_webhook_left_by_upstream_is_ignored() -> None:
    spec = {**definition(SETS)["spec"], "conversion": {"strategy": "Webhook"}}
    assert list(results(broken_definition(spec=spec))) == []


@pytest.mark.parametrize("name", NAMES)
def test_objects_of_an_earlier_version(name: str) -> None:
    status = {**definition(name)["status"], "storedVersions": ["v1alpha1", "v1"]}
    finding = only(broken_definition(name, status=status))
    assert (finding.where, finding.what) == (
        f"CustomResourceDefinition {name}",
        "may have objects stored as v1alpha1",
    )
    assert f"`kubectl get {name} -A -o json | kubectl replace -f -`" in finding.do


@pytest.mark.parametrize("name", NAMES)
def test_the_chart_upgrades_optional_definitions_only_on_request(name: str) -> None:
    spec = copy.deepcopy(definition(name)["spec"])
    spec["versions"][0] |= {"served": False}
    do = only(broken_definition(name, spec=spec)).do
    assert ("enableDisaggregatedSet=true" in do) is (name != SETS)


def test_a_terminating_definition() -> None:
    metadata = {**definition(SETS)["metadata"], "deletionTimestamp": "2026-03-01T11:00:00Z"}
    assert "being deleted" in only(broken_definition(metadata=metadata)).what


def test_no_webhooks() -> None:
    finding = only(replace(healthy(), validating=()))
    assert finding.where == "ValidatingWebhookConfiguration lws-validating-webhook-configuration"


def test_webhooks_of_a_second_controller() -> None:
    finding = only(replace(healthy(), mutating=(configuration(0), configuration(0, name="other"))))
    assert finding.where == "MutatingWebhookConfiguration other"
    assert "kubectl delete mutatingwebhookconfiguration other" in finding.do


def test_webhooks_of_other_operators_are_ignored() -> None:
    foreign = configuration(0, name="foreign")
    foreign["webhooks"][0]["rules"] = [{"apiGroups": ["cert-manager.io"]}]
    assert list(results(replace(healthy(), mutating=(configuration(0), foreign)))) == []


def test_webhooks_with_failure_policy_ignore() -> None:
    assert "failurePolicy Ignore" in only(with_hook(failurePolicy="Ignore")).what


def test_webhooks_that_call_another_service() -> None:
    client = configuration(1)["webhooks"][0]["clientConfig"]
    service = {"namespace": "old", "name": SERVICE}
    finding = only(with_hook(clientConfig={**client, "service": service}))
    assert finding.what.startswith(f"asks old/{SERVICE}, while")


def test_an_empty_ca_bundle() -> None:
    client = configuration(1)["webhooks"][0]["clientConfig"]
    assert "no CA bundle" in only(with_hook(clientConfig={**client, "caBundle": ""})).what


def test_an_unreadable_ca_bundle() -> None:
    broken = encoded(b"-----BEGIN CERTIFICATE-----\n?\n-----END CERTIFICATE-----\n")
    client = {**configuration(0)["webhooks"][0]["clientConfig"], "caBundle": broken}
    assert "unreadable" in only(with_hook(0, clientConfig=client)).what


def test_a_bundle_with_another_ca() -> None:
    client = {**configuration(1)["webhooks"][0]["clientConfig"], "caBundle": encoded(another_authority())}
    assert only(with_hook(clientConfig=client)).what.endswith("it is of another CA")


def test_an_expired_certificate() -> None:
    over = replace(healthy(), now=NOW + timedelta(days=366), leases={})
    findings = [result for result in CHECKS["certificate"](over) if isinstance(result, Finding)]
    assert findings == list(results(over))
    assert "valid only until" in findings[0].what


def test_a_certificate_that_is_not_renewed() -> None:
    finding = only(replace(healthy(), now=NOW + timedelta(days=360), leases={}))
    assert finding.what.startswith("its certificate ends in")


def test_a_certificate_for_another_name() -> None:
    renewal = renewed(Certificates(), ("other.svc",), NOW)
    assert renewal is not None
    findings = [
        result for result in results(replace(healthy(), secret=secret(renewal[0].server.certificate)))
    ]
    assert any(
        isinstance(finding, Finding) and f"not for {SERVICE}.{NAMESPACE}.svc" in finding.what
        for finding in findings
    )


@pytest.mark.parametrize(
    ("stored", "message_start"), [(None, "is missing"), ({"data": None}, "holds no certificate")]
)
def test_no_certificate(stored: Any, message_start: str) -> None:
    assert only(replace(healthy(), secret=stored)).what.startswith(message_start)


def test_no_service() -> None:
    assert only(replace(healthy(), service=None)).where == f"Service {NAMESPACE}/{SERVICE}"


@pytest.mark.parametrize("slices", [(), ({"endpoints": [{"conditions": {"ready": False}}]},)])
def test_a_service_without_endpoints(slices: Any) -> None:
    assert "no ready endpoint" in only(replace(healthy(), slices=slices)).what


def test_no_manager() -> None:
    assert "no Deployment" in only(replace(healthy(), managers=())).what


def test_a_manager_without_pods() -> None:
    assert "no available pod" in only(replace(healthy(), managers=({**manager(), "status": {}},))).what


def test_two_managers() -> None:
    finding = only(replace(healthy(), managers=(manager(), manager("old-lws"))))
    assert finding.where == "Deployments lws-system/lws-controller-manager, old-lws/lws-controller-manager"


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        (None, "is missing"),
        (a_lease(holderIdentity=""), "has no holder"),
        (a_lease(renewTime=None), "has never renewed it"),
        (a_lease(renewTime="2026-03-01T11:50:00.000000Z"), "has not renewed it for 10m"),
    ],
)
def test_a_lease_that_is_not_renewed(stored: Any, message: str) -> None:
    assert message in only(replace(healthy(), leases={LEASE: stored})).what


def test_a_late_renewal_within_the_clock_skew_is_accepted() -> None:
    late = a_lease(renewTime="2026-03-01T11:59:00.000000Z")
    assert list(results(replace(healthy(), leases={LEASE: late}))) == []


def test_a_too_old_api_server() -> None:
    assert "older than 1.26" in only(replace(healthy(), server="v1.25.9")).what


def test_a_manager_of_another_release() -> None:
    finding = only(replace(healthy(), managers=(manager(version="2026.10.3"),)))
    assert finding.what.startswith("is version 2026.10.3, this command")
    assert finding.do.startswith("install the command of version 2026.10.3")


def test_upstream_has_no_command_of_the_same_version() -> None:
    finding = only(replace(healthy(), managers=(manager(version="v0.10.0"),)))
    assert finding.what.startswith("is upstream's controller, version v0.10.0")
    assert "install the command" not in finding.do
    assert "docs/operations/handover.md" in finding.do


def test_sets_that_need_the_same_names() -> None:
    sets = (make_set("a", replicas=2), make_set("a-1"), make_set("a-1", namespace="other"))
    finding = only(replace(healthy(), sets=sets))
    assert finding.where == "LeaderWorkerSet default/a-1"
    assert "group 1 of LeaderWorkerSet a" in finding.what


def test_an_unreadable_resource_is_reported_with_the_missing_permission() -> None:
    denied = Denied("get it")
    facts = Installation(
        NOW,
        NAMESPACE,
        "v1.34.1",
        definitions={SETS: denied},
        mutating=denied,
        validating=denied,
        managers=denied,
        service=denied,
        secret=denied,
        leases={LEASE: denied},
        sets=denied,
    )
    by_check = {name: list(check(facts)) for name, check in CHECKS.items()}
    unchecked = [result for results in by_check.values() for result in results]
    assert all(isinstance(result, Unchecked) and result.needs == "get it" for result in unchecked)
    assert {name for name, results in by_check.items() if results} == {
        "definitions",
        "manager",
        "webhooks",
        "certificate",
        "lease",
        "clashes",
    }


def standing(**changes: Any) -> dict[str, Any]:
    usual = {
        "name": "demo",
        "namespace": "team",
        "settled": False,
        "paused": False,
        "stalled": False,
        "lastProgress": "2026-03-01T11:00:00Z",
        "waitingFor": "group 1 to be ready",
        "groups": [{"why": ""}, {"why": "pod demo-1: ImagePullBackOff"}],
    }
    return {**usual, **changes}


def stuck_findings(**changes: Any) -> list[Finding]:
    stored = {"metadata": {"creationTimestamp": "2026-03-01T11:58:00Z"}}
    return list(check_stuck("LeaderWorkerSet", standing(**changes), stored, NOW))


def test_a_set_of_another_controller_is_ignored() -> None:
    stored = {"metadata": {"creationTimestamp": "2025-01-01T00:00:00Z"}}
    unmoved = standing(lastProgress=None)
    assert list(check_stuck("LeaderWorkerSet", unmoved, stored, NOW))
    sent = {**stored, "spec": {"managedBy": "kueue.x-k8s.io/multikueue"}}
    assert list(check_stuck("LeaderWorkerSet", unmoved, sent, NOW)) == []


def test_a_status_of_upstream_changed_with_its_newest_condition() -> None:
    moments = ["2026-03-01T11:50:30Z", None, "2026-02-01T11:50:30Z"]
    stored = {
        "metadata": {"creationTimestamp": "2025-01-01T00:00:00Z"},
        "status": {"conditions": [{"lastTransitionTime": moment} for moment in moments]},
    }
    unmoved = standing(lastProgress=None)
    assert list(check_stuck("LeaderWorkerSet", unmoved, stored, NOW)) == []
    (finding,) = check_stuck("LeaderWorkerSet", unmoved, stored, NOW + timedelta(minutes=1))
    assert finding.what.startswith("has not moved for 10m")


def test_a_set_without_progress() -> None:
    (finding,) = stuck_findings()
    assert finding.where == "LeaderWorkerSet team/demo"
    assert finding.what == (
        "has not moved for 60m: it waits for group 1 to be ready; pod demo-1: ImagePullBackOff"
    )
    assert finding.do == "kubectl lws status -n team leaderworkerset/demo"


@pytest.mark.parametrize(
    "changes",
    [{"settled": True}, {"paused": True}, {"lastProgress": "2026-03-01T11:55:00Z"}, {"lastProgress": None}],
)
def test_settled_paused_and_progressing_sets_are_no_findings(changes: dict[str, Any]) -> None:
    assert stuck_findings(**changes) == []


def test_a_set_that_exceeds_its_progress_deadline() -> None:
    assert stuck_findings(stalled=True, lastProgress="2026-03-01T11:55:00Z")


def held(name: str, **changes: Any) -> dict[str, Any]:
    pod = {"metadata": {"name": name, "namespace": "default"}, "spec": {}}
    return {**pod, **changes}


GATED = [
    held(f"demo-{index}", spec={"schedulingGates": [{"name": GROUP_REPLACEMENT_GATE}]}) for index in range(5)
]
KEPT = held("demo-9")
KEPT["metadata"]["finalizers"] = [RESTART_BUDGET_FINALIZER]


def without_field(*path: str) -> Installation:
    """Return an installation whose definition lacks a field of the spec, as that of an earlier release."""
    stored = definition(SETS)
    for version in stored["spec"]["versions"]:
        properties = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        for name in path[:-1]:
            properties = properties[name]["properties"]
        del properties[path[-1]]
    return replace(healthy(), definitions={SETS: stored})


def test_a_running_manager_removes_its_gates_and_finalizers() -> None:
    assert list(results(replace(healthy(), idle_pods=(*GATED, KEPT, held("demo-7"))))) == []


def test_gates_and_finalizers_that_an_earlier_release_does_not_know() -> None:
    before = replace(without_field("groupReplacementPolicy"), idle_pods=(*GATED, KEPT))
    (finding,) = CHECKS["pods"](before)
    assert isinstance(finding, Finding)
    assert finding.where == "Pods demo-0, demo-1, demo-2 and 2 more in namespace default"
    assert finding.what == (
        "have the scheduling gate leaderworkerset.sigs.k8s.io/group-replacement, and are never scheduled: "
        "the release that is installed does not know it"
    )
    path = ("leaderWorkerTemplate", "maxGroupRestarts")
    (finding,) = CHECKS["pods"](replace(without_field(*path), idle_pods=(*GATED, KEPT)))
    assert isinstance(finding, Finding) and finding.where == "Pods demo-9 in namespace default"
    assert "docs/operations/upgrades.md#downgrade" in finding.do


@pytest.mark.parametrize(("version", "count"), [("v0.10.0", 2), ("v0.11.0", 0), ("2026.11.0", 0)])
def test_gates_and_finalizers_that_a_release_of_upstream_does_not_know(version: str, count: int) -> None:
    facts = replace(healthy(), managers=(manager(version=version),), idle_pods=(*GATED, KEPT))
    assert len(list(CHECKS["pods"](facts))) == count


def test_gates_and_finalizers_while_no_manager_acts() -> None:
    silent = replace(healthy(), leases={LEASE: a_lease(holderIdentity="")}, idle_pods=(*GATED, KEPT))
    whats = [result.what for result in CHECKS["pods"](silent) if isinstance(result, Finding)]
    assert len(whats) == 2 and all(what.endswith("no manager acts") for what in whats)


def test_pods_that_may_not_be_listed() -> None:
    denied = replace(healthy(), idle_pods=Denied("list pods in all namespaces"))
    assert [type(result) for result in results(denied)] == [Unchecked]

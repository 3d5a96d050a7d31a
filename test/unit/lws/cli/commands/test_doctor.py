"""lws.cli.commands.doctor: which objects are read, with which permissions, and how the result is printed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web

from lws.cli.commands import doctor as module
from lws.cli.commands.manager import overriding_flags
from lws.cli.installation import (
    Denied,
    Installation,
    Reader,
    Right,
    lease_names,
    needed,
    permissions,
    read_installation,
)
from lws_api.config.v1alpha1 import Configuration
from test.unit.builders import make_set
from test.unit.fake_api import answer_json, failure
from test.unit.lws.cli.conftest import Talk
from test.unit.lws.cli.healthy import (
    LEASE,
    NAMESPACE,
    NOW,
    SECRET,
    SERVICE,
    configuration,
    definition,
    healthy,
    lease,
    manager,
    secret,
)

pytestmark = pytest.mark.usefixtures("shared_keys")

MANAGER = f"system:serviceaccount:{NAMESPACE}:lws-controller-manager"
FORBIDDEN = failure(403, "Forbidden", "leave it")
MISSING = failure(404, "NotFound", "there is none")
FILE = "apiVersion: config.lws.x-k8s.io/v1alpha1\nkind: Configuration\n"


def stored(text: str = FILE, *arguments: str) -> dict[str, Any]:
    """Return the objects on the API server by path. text, arguments: file and flags of the manager."""
    deployment = manager()
    pod = deployment["spec"]["template"]["spec"]
    proxy = {"name": "proxy", "args": ["--leader-elect=false"]}
    pod["containers"] = [proxy, {"name": "manager", "command": ["lws", "manager"], "args": [*arguments]}]
    pod["volumes"] = [{"name": "manager-config", "configMap": {"name": "the-file"}}]
    admission = "/apis/admissionregistration.k8s.io/v1"
    within = f"/api/v1/namespaces/{NAMESPACE}"
    names = list(healthy().definitions)
    return {
        "/version": {"gitVersion": "v1.34.1"},
        f"{admission}/mutatingwebhookconfigurations": {"items": [configuration(0)]},
        f"{admission}/validatingwebhookconfigurations": {"items": [configuration(1)]},
        "/apis/apps/v1/deployments": {"items": [deployment]},
        f"{within}/configmaps/the-file": {"data": {"controller_manager_config.yaml": text}},
        f"{within}/services/{SERVICE}": {"kind": "Service", "metadata": {}},
        f"{within}/secrets/{SECRET}": secret(),
        f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices": {
            "items": [{"endpoints": [{"conditions": {}}]}]
        },
        f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{LEASE}": lease(),
        "/apis/leaderworkerset.x-k8s.io/v1/leaderworkersets": {"items": []},
        **{
            f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}": definition(name)
            for name in names
        },
    }


def serve(
    talk: Talk,
    responses: dict[str, Any],
    allowed: Callable[[Any], bool] = lambda spec: True,
    user: str = "somebody",
) -> None:
    """Answer every read from `responses`, and access reviews by `allowed`."""

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.method == "GET":
            response = responses.get(request.path)
            return await (MISSING if response is None else answer_json(response))(request)
        if request.path.endswith("/selfsubjectreviews"):
            return await answer_json({"status": {"userInfo": {"username": user}}})(request)
        spec = talk.api.requests[-1].body["spec"]
        return await answer_json({"status": {"allowed": allowed(spec)}})(request)

    talk.api.will(*[answer] * 500)


async def examined(talk: Talk, capsys: pytest.CaptureFixture[str]) -> tuple[int, Any]:
    code = await module._examine(replace_now(talk), "json")
    return code, json.loads(capsys.readouterr().out)


def replace_now(talk: Talk) -> Any:
    """Return a session at the moment for which the certificate was created."""

    class AtThatTime(type(talk.session)):  # type: ignore[misc]
        now = NOW

    return AtThatTime(talk.session.cluster, "default", None)


async def test_a_healthy_installation_has_no_findings(talk: Talk, capsys: pytest.CaptureFixture[str]) -> None:
    serve(talk, stored())
    code, data = await examined(talk, capsys)
    assert (code, data["findings"], data["unchecked"]) == (0, [], [])
    assert data["namespace"] == NAMESPACE


async def test_unreadable_resources_are_listed(talk: Talk, capsys: pytest.CaptureFixture[str]) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        return await (answer_json({"gitVersion": "v1.34.1"}) if request.path == "/version" else FORBIDDEN)(
            request
        )

    talk.api.will(*[answer] * 100)
    code, data = await examined(talk, capsys)
    assert (code, data["findings"]) == (0, [])
    needs = {unchecked["needs"] for unchecked in data["unchecked"]}
    assert f"get secrets in namespace {NAMESPACE} (name {SECRET})" in needs
    assert "list mutatingwebhookconfigurations in the cluster" in needs
    assert "list leaderworkersets in all namespaces" in needs
    assert "create subjectaccessreviews.authorization.k8s.io in the cluster" in needs


async def test_a_missing_permission_is_a_finding(talk: Talk, capsys: pytest.CaptureFixture[str]) -> None:
    def allowed(spec: Any) -> bool:
        attributes = spec["resourceAttributes"]
        return (attributes["verb"], attributes["resource"]) != ("delete", "pods")

    serve(talk, stored(), allowed)
    code, data = await examined(talk, capsys)
    (finding,) = data["findings"]
    assert (code, finding["check"]) == (1, "permissions")
    assert finding["where"] == "ServiceAccount lws-system/lws-controller-manager"
    assert finding["what"] == "may not, in the cluster: delete pods"


async def test_a_user_reviews_permissions_of_the_manager(talk: Talk) -> None:
    serve(talk, stored())
    await permissions(Reader(talk.session.cluster), healthy())
    reviews = [request for request in talk.api.requests if request.path.endswith("accessreviews")]
    assert {review.path.rpartition("/")[2] for review in reviews} == {"subjectaccessreviews"}
    assert {review.body["spec"]["user"] for review in reviews} == {MANAGER}
    assert f"system:serviceaccounts:{NAMESPACE}" in reviews[0].body["spec"]["groups"]


async def test_the_manager_reviews_its_own_permissions(talk: Talk) -> None:
    serve(talk, stored(), user=MANAGER)
    await permissions(Reader(talk.session.cluster), healthy())
    kinds = {request.path.rpartition("/")[2] for request in talk.api.requests}
    assert kinds == {"selfsubjectreviews", "selfsubjectaccessreviews"}


async def test_the_configuration_of_the_manager_is_read(talk: Talk) -> None:
    serve(talk, stored(FILE + "internalCertManagement: {enable: false}\nsharding: {shards: 2}\n"))
    facts = await read_installation(Reader(talk.session.cluster), None, NOW, overriding_flags)
    assert not facts.configuration.internal_cert_management.enable
    assert list(facts.leases) == [LEASE, f"{LEASE}-0", f"{LEASE}-1"]
    rights = set(needed(facts))
    assert not any(right.resource == "secrets" for right in rights)
    assert Right("get", "coordination.k8s.io", "leases", NAMESPACE, f"{LEASE}-1") in rights


@pytest.mark.parametrize(
    ("text", "arguments", "leases"),
    [
        pytest.param(FILE, ["--config=/a.yaml", "--leader-elect=false"], [], id="no leader election"),
        pytest.param(
            FILE + "leaderElection: {resourceName: file}\n",
            ["--zap-log-level=2", "-leader-elect-resource-name", "flag"],
            ["flag"],
            id="flags override the file",
        ),
        pytest.param("unknown: 1", ["--leader-elect-resource-name=flag"], ["flag"], id="an unreadable file"),
        pytest.param(
            "a: 2026-13-45", ["--leader-elect-resource-name=flag"], ["flag"], id="an impossible date"
        ),
        pytest.param("[" * 9999, ["--leader-elect-resource-name=flag"], ["flag"], id="nested too deeply"),
        pytest.param(
            FILE, ["--later=1", "--leader-elect=$(ELECT)", "--feature-gates"], [LEASE], id="unreadable flags"
        ),
        pytest.param(
            FILE + "leaderElection: {resourceName: file}\n",
            ["--leader-elect=false", "--feature-gates=Unknown=true"],
            ["file"],
            id="a value that the manager rejects",
        ),
    ],
)
async def test_flags_of_the_manager_are_read(
    text: str, arguments: list[str], leases: list[str], talk: Talk
) -> None:
    serve(talk, stored(text, *arguments))
    facts = await read_installation(Reader(talk.session.cluster), None, NOW, overriding_flags)
    assert list(facts.leases) == leases


async def test_the_manager_of_a_chart_with_other_names_is_found(
    talk: Talk, capsys: pytest.CaptureFixture[str]
) -> None:
    responses = stored()
    (deployment,) = responses["/apis/apps/v1/deployments"]["items"]
    deployment["metadata"]["name"] = "inference-controller-manager"
    deployment["metadata"]["labels"] |= {
        "app.kubernetes.io/name": "serving",
        "helm.sh/chart": "lws-2026.11.0",
    }
    serve(talk, responses)
    code, data = await examined(talk, capsys)
    assert (code, data["findings"]) == (0, [])


async def test_a_definition_with_the_same_names_is_found(
    talk: Talk, capsys: pytest.CaptureFixture[str]
) -> None:
    responses = stored()
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    ours = responses[f"{definitions}/leaderworkersets.leaderworkerset.x-k8s.io"]
    ours["status"]["conditions"] = [{"type": "NamesAccepted", "status": "False", "message": "taken"}]
    definition = {
        "metadata": {"name": "mine"},
        "spec": {**ours["spec"], "names": {"plural": "mine", "kind": "Mine", "shortNames": ["lws"]}},
    }
    responses[definitions] = {"items": [ours, definition]}
    serve(talk, responses)
    code, data = await examined(talk, capsys)
    (finding,) = data["findings"]
    assert (code, finding["what"]) == (1, "is not NamesAccepted: taken")
    assert "CustomResourceDefinition mine," in finding["do"]


async def test_an_unreadable_set_is_a_finding(talk: Talk, capsys: pytest.CaptureFixture[str]) -> None:
    responses = stored()
    broken = make_set("a", namespace="team")
    broken["spec"]["replicas"] = "two"
    responses["/apis/leaderworkerset.x-k8s.io/v1/leaderworkersets"] = {"items": [broken]}
    serve(talk, responses)
    code, data = await examined(talk, capsys)
    (finding,) = data["findings"]
    assert (code, data["unchecked"]) == (1, [])
    assert (finding["check"], finding["where"]) == ("sets", "LeaderWorkerSet team/a")
    assert "spec.replicas" in finding["what"]
    assert finding["do"] == "correct it: kubectl edit -n team leaderworkerset a"


async def test_the_given_namespace_is_used(talk: Talk) -> None:
    serve(talk, stored())
    facts = await read_installation(Reader(talk.session.cluster), "another", NOW, overriding_flags)
    assert (facts.namespace, facts.deployment, facts.service) == ("another", None, None)


def test_permissions_are_reviewed_by_object_name() -> None:
    rights = set(needed(healthy()))
    assert Right("update", "", "secrets", NAMESPACE, SECRET) in rights
    assert Right("create", "coordination.k8s.io", "leases", NAMESPACE) in rights
    patch = Right(
        "patch",
        "admissionregistration.k8s.io",
        "mutatingwebhookconfigurations",
        name="lws-mutating-webhook-configuration",
    )
    assert patch in rights


def test_gang_scheduling_needs_permissions_for_the_scheduler() -> None:
    values = {
        "apiVersion": "config.lws.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "gangSchedulingManagement": {"schedulerProvider": "volcano"},
    }
    facts = replace(healthy(), configuration=Configuration.model_validate(values))
    assert Right("create", "scheduling.volcano.sh", "podgroups") in set(needed(facts))
    assert Right("create", "scheduling.volcano.sh", "podgroups") not in set(needed(healthy()))


def test_no_lease_is_expected_without_leader_election() -> None:
    values = {
        "apiVersion": "config.lws.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "leaderElection": {"leaderElect": False},
    }
    assert lease_names(Configuration.model_validate(values)) == ()


def test_permissions_are_unchecked_without_the_configuration() -> None:
    facts: Installation = replace(healthy(), configuration_read=Denied("get configmaps"))
    (unchecked,) = module.check_permissions(facts)
    assert getattr(unchecked, "needs", "") == "get configmaps"

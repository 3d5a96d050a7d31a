"""Facts that the chart repeats, from itself or from other files of the project, agree with their source."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from test.unit.chart.templates import CHART, ROOT, TEMPLATES, stripped

DOCKERFILE = (ROOT / "Dockerfile").read_text()
DEFINITIONS = sorted((TEMPLATES / "crds").glob("*.yaml"))


def manifest(name: str) -> str:
    return (TEMPLATES / name).read_text()


@pytest.mark.parametrize("path", DEFINITIONS, ids=lambda path: path.stem)
def test_helm_deletes_crds_only_on_request(path: Path) -> None:
    """The deletion of a CRD deletes all its objects, and all their pods."""
    metadata = path.read_text().split("\nmetadata:\n")[1].split("\nspec:\n")[0]
    policy = (
        "  {{- if .Values.crds.keep }}\n  annotations:\n    helm.sh/resource-policy: keep\n  {{- end }}\n"
    )
    assert metadata.startswith(policy)
    assert yaml.safe_load((CHART / "values.yaml").read_text())["crds"] == {"enabled": True, "keep": True}


def test_crds_are_upgraded_by_helm() -> None:
    """Helm installs files in crds/ once and never upgrades them."""
    assert [path.name for path in DEFINITIONS] == [
        "disaggregatedsetrolescalers.yaml",
        "disaggregatedsets.yaml",
        "leaderworkersets.yaml",
    ]
    assert not (CHART / "crds").exists()


def test_the_image_and_the_deployment_start_the_same_command() -> None:
    (entrypoint,) = re.findall(r"^ENTRYPOINT (.+)$", DOCKERFILE, re.MULTILINE)
    (command,) = re.findall(r"^ {10}command: (.+)$", manifest("manager/deployment.yaml"), re.MULTILINE)
    assert yaml.safe_load(entrypoint) == yaml.safe_load(command) == ["lws", "manager"]


def test_the_image_provides_the_command_of_upstream() -> None:
    """Deployments for upstream's image, for example with kustomize, contain `command: [/manager]`."""
    assert "COPY --from=build /opt/lws/bin/lws /manager" in DOCKERFILE


def test_the_image_sets_the_user_and_the_chart_does_not() -> None:
    """A number shows the kubelet that the user is not root.

    OpenShift rejects a `runAsUser` outside the range of the namespace, so the chart sets none.
    """
    (user,) = re.findall(r"^USER (.+)$", DOCKERFILE, re.MULTILINE)
    assert re.fullmatch(r"[1-9][0-9]*:[1-9][0-9]*", user)
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    for context in (values["podSecurityContext"], values["securityContext"]):
        assert not context.keys() & {"runAsUser", "runAsGroup", "fsGroup", "supplementalGroups"}


def test_only_files_that_the_image_copies_reach_its_build() -> None:
    context = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    sources = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE)
    assert context == {name.rstrip("/") for line in sources for name in line.split()}


def test_webhooks_have_the_expected_names_paths_and_selectors() -> None:
    """Paths and names are upstream's; of all pods, only pods of sets are sent for review."""
    entries = {
        entry["name"]: entry
        for name in ("mutating", "validating")
        for configuration in stripped(TEMPLATES / "webhook" / f"{name}.yaml")
        for entry in configuration["webhooks"]
    }
    operations = {name: [rule["operations"] for rule in entry["rules"]] for name, entry in entries.items()}
    assert operations == {
        "mleaderworkerset.kb.io": [["CREATE", "UPDATE"]],
        "vleaderworkerset.kb.io": [["CREATE", "UPDATE"]],
        "mpod.kb.io": [["CREATE"]],
        "vdisaggregatedset.kb.io": [["CREATE", "UPDATE"]],
    }
    set_label = [{"key": "leaderworkerset.sigs.k8s.io/name", "operator": "Exists"}]
    assert entries["mpod.kb.io"]["objectSelector"] == {"matchExpressions": set_label}
    paths = re.findall(
        r'"(/[a-z0-9-]+)"', manifest("webhook/mutating.yaml") + manifest("webhook/validating.yaml")
    )
    assert paths == [
        "/mutate-leaderworkerset-x-k8s-io-v1-leaderworkerset",
        "/mutate--v1-pod",
        "/validate-leaderworkerset-x-k8s-io-v1-leaderworkerset",
        "/validate-disaggregatedset-x-k8s-io-v1-disaggregatedset",
    ]


def test_argo_cd_ignores_fields_that_the_manager_fills_in() -> None:
    """Otherwise Argo CD would treat every certificate as drift and revert it."""
    application = yaml.safe_load((ROOT / "docs" / "start" / "argocd.yaml").read_text())
    ignored = {
        (difference["kind"], difference.get("name"))
        for difference in application["spec"]["ignoreDifferences"]
    }
    assert ignored == {
        ("Secret", stripped(TEMPLATES / "webhook" / "secret.yaml")[0]["metadata"]["name"]),
        ("MutatingWebhookConfiguration", None),
        ("ValidatingWebhookConfiguration", None),
    }
    assert "RespectIgnoreDifferences=true" in application["spec"]["syncPolicy"]["syncOptions"]
    assert (ROOT / application["spec"]["source"]["path"] / "Chart.yaml").is_file()

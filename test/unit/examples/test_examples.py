"""The examples are listed, explained and valid, and their references resolve."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from lws.disaggregatedset.admission.validation import errors_in, warnings_in
from lws_api.crds import defaulted
from lws_api.disaggregatedset import v1 as disaggregated
from lws_api.leaderworkerset import v1

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples"
# PyYAML's loader in C, if it is available, takes a tenth of the time.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
FILES = sorted(EXAMPLES.rglob("*.yaml"))
VARIABLES = {v1.LEADER_ADDRESS_ENV: "leader", v1.GROUP_SIZE_ENV: "2", v1.WORKER_INDEX_ENV: "1"}
# Kubernetes expands up to the first closing bracket, and keeps references to unknown variables.
REFERENCE = re.compile(r"\$\(([^)]*)\)")

each_file = pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(EXAMPLES)))


def objects(path: Path, kind: str = "") -> list[dict[str, Any]]:
    return [document for document in documents(path) if not kind or document["kind"] == kind]


@cache
def documents(path: Path) -> list[dict[str, Any]]:
    """Return the documents of a file, cached because no test changes them."""
    return [document for document in yaml.load_all(path.read_text(), Loader=LOADER) if document]


def templates(lws: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the pod templates of a LeaderWorkerSet, or of a role, which has the same spec."""
    template = lws["spec"]["leaderWorkerTemplate"]
    return [template[key] for key in ("leaderTemplate", "workerTemplate") if key in template]


def everything_with_templates(path: Path) -> list[dict[str, Any]]:
    """Return the LeaderWorkerSets and roles of a file."""
    roles = [role for obj in objects(path, disaggregated.KIND) for role in obj["spec"]["roles"]]
    return [*objects(path, v1.KIND), *roles]


def leader(lws: dict[str, Any]) -> dict[str, Any]:
    return templates(lws)[0]


@each_file
def test_a_file_begins_with_its_purpose_and_command(path: Path) -> None:
    opening = path.read_text().split("\napiVersion:")[0]
    assert all(line.startswith("#") for line in opening.splitlines())
    assert "What to look at" in opening
    assert f"kubectl apply -f {path.name}" in opening


def test_the_index_lists_every_file() -> None:
    index = (EXAMPLES / "README.md").read_text()
    listed = re.findall(r"^\| \[(\S+)\]\((\S+)\)", index, re.MULTILINE)
    assert sorted(listed) == [(str(path.relative_to(EXAMPLES)),) * 2 for path in FILES]


@each_file
def test_a_file_holds_valid_sets(path: Path) -> None:
    assert everything_with_templates(path)
    for lws in objects(path, v1.KIND):
        assert lws["apiVersion"] == v1.API_VERSION
        spec = v1.LeaderWorkerSet.model_validate(lws).spec
        assert (spec.leader_worker_template.size or 0) > 1
    for obj in objects(path, disaggregated.KIND):
        disaggregated.DisaggregatedSet.model_validate(obj)
        stored = defaulted({**obj, "metadata": {**obj["metadata"], "namespace": "default"}})
        assert list(errors_in(stored, None)) == []
        assert warnings_in(stored, None) == []


@each_file
def test_a_file_with_roles_says_how_requests_stay_within_a_revision(path: Path) -> None:
    opening = path.read_text().split("\napiVersion:")[0].replace("\n#", "")
    assert ("stay within one revision" in opening) == (path.parent.name == "disaggregated")


def test_disaggregatedsets_are_only_in_their_folder() -> None:
    apart = [path for path in FILES if path.parent.name != "disaggregated"]
    assert not [path for path in apart if objects(path, disaggregated.KIND)]


def test_names_are_unique() -> None:
    names = [(obj["kind"], obj["metadata"]["name"]) for path in FILES for obj in objects(path)]
    assert len(names) == len(set(names))


@each_file
def test_commands_contain_no_unexpanded_reference(path: Path) -> None:
    for lws in everything_with_templates(path):
        for template in templates(lws):
            for container in template["spec"]["containers"]:
                for word in (*container.get("command", []), *container.get("args", [])):
                    expanded = REFERENCE.sub(lambda match: VARIABLES.get(match[1], match[0]), word)
                    assert "$(LWS_" not in expanded, expanded


@each_file
def test_files_in_config_maps_are_valid(path: Path) -> None:
    for config in objects(path, "ConfigMap"):
        for name, text in config["data"].items():
            if name.endswith(".py"):
                compile(text, name, "exec")
            else:
                assert yaml.load(text, Loader=LOADER)


def selected(path: Path, selector: dict[str, str]) -> dict[str, Any]:
    """Return the set or role that a selector selects, and remove its identifying labels from the selector."""
    if v1.NAME_LABEL in selector:
        name = selector.pop(v1.NAME_LABEL)
        return next(obj for obj in objects(path, v1.KIND) if obj["metadata"]["name"] == name)
    of_set, of_role = selector.pop(disaggregated.NAME_LABEL), selector.pop(disaggregated.ROLE_LABEL)
    (disaggregated_set,) = [
        obj for obj in objects(path, disaggregated.KIND) if obj["metadata"]["name"] == of_set
    ]
    return next(role for role in disaggregated_set["spec"]["roles"] if role["name"] == of_role)


@each_file
def test_services_select_leaders_of_a_set_in_the_file(path: Path) -> None:
    for service in objects(path, "Service"):
        selector = dict(service["spec"]["selector"])
        lws = selected(path, selector)
        template = leader(lws)
        assert selector
        assert selector.items() <= template["metadata"]["labels"].items()
        worker = lws["spec"]["leaderWorkerTemplate"]["workerTemplate"]
        is_alone = template is worker
        assert is_alone or not selector.items() <= worker.get("metadata", {}).get("labels", {}).items()
        ports = {
            port["name"]
            for container in template["spec"]["containers"]
            for port in container.get("ports", [])
        }
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports


def target_of(path: Path, autoscaler: dict[str, Any]) -> dict[str, Any]:
    """Return the set or role that an autoscaler scales."""
    target = autoscaler["spec"]["scaleTargetRef"]
    sets = {(v1.API_VERSION, v1.KIND, lws["metadata"]["name"]): lws for lws in objects(path, v1.KIND)}
    scalers = {
        (
            disaggregated.API_VERSION,
            disaggregated.SCALER_KIND,
            f"{obj['metadata']['name']}-{role['name']}",
        ): role
        for obj in objects(path, disaggregated.KIND)
        for role in obj["spec"]["roles"]
        if role.get("scaling") == {"mode": "External"}
    }
    return {**sets, **scalers}[target["apiVersion"], target["kind"], target["name"]]


@each_file
def test_mounts_probes_and_autoscalers_refer_to_something(path: Path) -> None:
    for autoscaler in objects(path, "HorizontalPodAutoscaler"):
        # The percentage is relative to the leaders' requests.
        scaled = target_of(path, autoscaler)
        assert "requests" in leader(scaled)["spec"]["containers"][0]["resources"]
    for scaled_object in objects(path, "ScaledObject"):
        assert target_of(path, scaled_object)
    for lws in everything_with_templates(path):
        for template in templates(lws):
            claims = lws["spec"]["leaderWorkerTemplate"].get("volumeClaimTemplates", [])
            volumes = {volume["name"] for volume in template["spec"].get("volumes", [])}
            volumes |= {claim["metadata"]["name"] for claim in claims}
            for container in template["spec"]["containers"]:
                mounts = [mount["name"] for mount in container.get("volumeMounts", [])]
                assert set(mounts) <= volumes
                probe = container.get("readinessProbe", {})
                probed = probe.get("httpGet", probe.get("tcpSocket", {})).get("port")
                assert probed in {None, *(port["name"] for port in container.get("ports", []))}

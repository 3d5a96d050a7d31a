"""`lws plan`: its predictions come true."""

from __future__ import annotations

import copy
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from lws.leaderworkerset.spec import leaders_kind, other_manager
from lws_api.disaggregatedset.v1 import KIND as DISAGGREGATED_KIND
from lws_api.leaderworkerset.v1 import KIND
from test.harness.groups import pod_uids, revisions_of, settle, uids_of_group
from test.harness.manifests import a_set, new_image, rolling
from test.harness.waiting import eventually, stays
from test.harness.world import SET, World
from test.integration.cli.command import Caller
from tools.localcluster import CommandError
from tools.localcluster.api import Call

EXAMPLES = Path(__file__).parents[3] / "examples"
DISAGGREGATED = sorted((EXAMPLES / "disaggregated").glob("*.yaml"))
# The set is rejected without a feature gate.
SCHEDULED = EXAMPLES / "scheduling.yaml"
SETS = sorted({*EXAMPLES.rglob("*.yaml")} - {*DISAGGREGATED, SCHEDULED})
NOTHING = "no pod is restarted: nothing changes"

Object = dict[str, Any]


def names_in(path: Path) -> list[str]:
    return [document["metadata"]["name"] for document in documents_in(path) if document["kind"] == KIND]


def documents_in(path: Path) -> list[Object]:
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


def defaulted(world: World, template: Object, claims: list[str]) -> Object:
    """Return a pod template with all defaults, as a typed client would write it.

    claims: names of volumes that StatefulSets add; without them the API server would reject the template.
    """
    template = copy.deepcopy(template)
    volumes = template["spec"].get("volumes", [])
    template["spec"]["volumes"] = [*volumes, *({"name": claim, "emptyDir": {}} for claim in claims)]
    manifest = {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": {"generateName": "t-"},
        "template": template,
    }
    path = f"/api/v1/namespaces/{world.namespace}/podtemplates"
    stored = world.api.send(Call("POST", path, manifest, query={"dryRun": "All"}))
    result: Object = stored["template"]
    result["spec"]["volumes"] = [
        volume for volume in result["spec"].get("volumes", []) if volume["name"] not in claims
    ]
    if not result["spec"]["volumes"]:
        del result["spec"]["volumes"]
    result["metadata"] = {"creationTimestamp": None, **result.get("metadata", {})}
    return result


def write_defaults(world: World, lws: Object) -> None:
    """Set all defaults in the templates of a set, like a typed client that reads it and writes it back."""
    templates = lws["spec"]["leaderWorkerTemplate"]
    claims = [claim["metadata"]["name"] for claim in templates.get("volumeClaimTemplates", [])]
    for part in ("leaderTemplate", "workerTemplate"):
        if part in templates:
            templates[part] = defaulted(world, templates[part], claims)


def test_applying_the_examples_again_restarts_nothing(world: World, lws: Caller) -> None:
    every = [name for path in SETS for name in names_in(path)]
    world.kubectl("apply", *(argument for path in SETS for argument in ("-f", str(path))))
    others = {name: manager for name in every if (manager := other_manager(world.get(SET, name)))}
    assert list(others) == ["managed-elsewhere"]
    seen = "the controller has seen it"
    for name in (name for name in every if name not in others):
        eventually(seen, lambda name=name: len(revisions_of(world, name)), lambda count: count == 1)
        kind = leaders_kind(world.get(SET, name))
        eventually(seen, lambda kind=kind, name=name: world.find(kind, name))

    left_alone = {
        name: f"nothing happens: {manager} runs this set (spec.managedBy)" for name, manager in others.items()
    }
    # All files at once need one connection and one answer per set.
    text = "\n---\n".join(path.read_text() for path in SETS)
    nothing = [
        line
        for name in every
        for line in (
            f"leaderworkerset.leaderworkerset.x-k8s.io/{name} unchanged",
            left_alone.get(name, NOTHING),
        )
    ]
    assert lws.succeed("plan", "-f", "-", stdin=text).lines == nothing
    for name in every:
        world.update(SET, name, partial(write_defaults, world))
    lines = lws.succeed("plan", "-f", "-", stdin=text).lines
    assert lines[1::2] == nothing[1::2]
    stays("no revision is recorded", lambda: {name: len(revisions_of(world, name)) for name in every}, 1)


def test_applying_the_disaggregated_examples_again_restarts_nothing(world: World, lws: Caller) -> None:
    """Only the sets: other objects of an example need clusters with more APIs."""
    sets = [
        document
        for path in DISAGGREGATED
        for document in documents_in(path)
        if document["kind"] == DISAGGREGATED_KIND
    ]
    world.kubectl("apply", "-f", "-", input={"apiVersion": "v1", "kind": "List", "items": sets})
    names = [document["metadata"]["name"] for document in sets]
    for name in names:
        stored = partial(world.get, DISAGGREGATED_KIND, name)
        eventually(
            "the revision is recorded", stored, lambda now: (now.get("status") or {}).get("updateRevision")
        )
    lines = lws.succeed("plan", "-f", "-", stdin=yaml.safe_dump_all(sets)).lines
    assert lines[0::2] == [f"disaggregatedset.disaggregatedset.x-k8s.io/{name} unchanged" for name in names]
    assert lines[1::2] == [NOTHING] * len(names)


def test_a_predicted_rollout_happens(world: World, lws: Caller) -> None:
    manifest = a_set("demo", replicas=3, rolloutStrategy=rolling(partition=1))
    result = lws.succeed("plan", "-f", "-", stdin=yaml.safe_dump(manifest))
    assert result.lines[1].startswith("new: 3 groups of 2 pods, 6 in all, under key ")
    world.kubectl("apply", "-f", "-", input=manifest)
    settle(world, "demo")
    before = {index: uids_of_group(world, "demo", index) for index in range(3)}
    stored = world.get(SET, "demo")

    manifest["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"][0]["image"] = "server:2"
    result = lws.succeed("plan", "-f", "-", "--steps", stdin=yaml.safe_dump(manifest))
    assert result.lines[:4] == [
        "leaderworkerset.leaderworkerset.x-k8s.io/demo would be changed",
        "groups 1 to 2 restart, by a rollout, one at a time",
        "  group 0 keeps its revision until the partition is lowered",
        "  worker template container server image: server:1 → server:2",
    ]
    # Users without our commands get the warning as well.
    with pytest.raises(CommandError) as warned:
        world.kubectl("apply", "--dry-run=server", "--warnings-as-errors", "-f", "-", input=manifest)
    assert f"Warning: {result.lines[1]}; {result.lines[2].strip()}: {result.lines[3].strip()}" in str(
        warned.value
    )
    steps = [line.split()[0] for line in result.lines[6:]]
    assert steps == ["1", "2", "3"]
    (data,) = lws.succeed("plan", "-f", "-", "--steps", "-o", "json", stdin=yaml.safe_dump(manifest)).data[
        "items"
    ]
    assert (data["action"], data["restarts"], len(data["steps"])) == ("configured", [1, 2], 3)
    now = world.get(SET, "demo")
    assert (now["spec"], now["metadata"]["generation"]) == (stored["spec"], stored["metadata"]["generation"])

    world.kubectl("apply", "-f", "-", input=manifest)
    settle(world, "demo", updated=2)
    after = {index: uids_of_group(world, "demo", index) for index in range(3)}
    assert [index for index in range(3) if before[index] != after[index]] == [1, 2]
    assert lws.succeed("plan", "-f", "-", stdin=yaml.safe_dump(manifest)).lines[1] == NOTHING


def test_edits_without_a_rollout_are_predicted(world: World, lws: Caller) -> None:
    manifest = a_set("demo", replicas=2)
    world.kubectl("apply", "-f", "-", input=manifest)
    settle(world, "demo")
    pods = pod_uids(world, "demo")
    manifest["spec"]["leaderWorkerTemplate"]["restartPolicy"] = "None"
    manifest["spec"]["replicas"] = 3
    result = lws.succeed("plan", "-f", "-", stdin=yaml.safe_dump(manifest))
    assert result.lines[1:] == [
        "no pod is restarted",
        "  group 2 will be created",
        "  replicas: 2 → 3 (at once)",
        "  restartPolicy: RecreateGroupOnPodRestart → None (at once)",
    ]
    world.kubectl("apply", "-f", "-", input=manifest)
    settle(world, "demo")
    assert pods.items() <= pod_uids(world, "demo").items()


def test_the_removal_of_a_field_is_predicted(world: World, lws: Caller) -> None:
    manifest = a_set("demo", replicas=1)
    container = manifest["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]
    container["terminationGracePeriodSeconds"] = 1
    world.kubectl("apply", "-f", "-", input=manifest)
    settle(world, "demo")
    del container["terminationGracePeriodSeconds"]
    text = yaml.safe_dump(manifest)
    assert lws.succeed("plan", "-f", "-", stdin=text).lines[1] == "group 0 restarts, by a rollout"
    # Another field manager applied it, and its fields stay.
    result = lws.succeed("plan", "-f", "-", "--server-side", "--force-conflicts", stdin=text)
    assert result.lines[1] == NOTHING


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"replicaz": 1}, 'unknown field "spec.replicaz"'),
        ({"replicas": -1}, "spec.replicas"),
        ({"rolloutStrategy": rolling(maxUnavailable=0)}, "it would be rejected: admission webhook"),
    ],
    ids=["unknown field", "schema", "webhook"],
)
def test_a_rejection_is_predicted(world: World, lws: Caller, change: Object, message: str) -> None:
    manifest = yaml.safe_dump(a_set("demo", **change))
    refused = lws("plan", "-f", "-", stdin=manifest)
    assert (refused.code, refused.out) == (1, "")
    assert message in refused.err
    assert len(refused.err) < 500


def test_conflicts_of_a_server_side_apply_are_reported(world: World, lws: Caller) -> None:
    manifest = a_set("demo", replicas=0)
    world.kubectl("apply", "--server-side", "--field-manager=flux", "-f", "-", input=manifest)
    text = yaml.safe_dump({**manifest, "spec": {**manifest["spec"], **new_image("server:2")["spec"]}})
    refused = lws("plan", "-f", "-", "--server-side", stdin=text)
    assert refused.code == 1
    assert 'conflicts with "flux"' in refused.err
    forced = lws.succeed("plan", "-f", "-", "--server-side", "--force-conflicts", stdin=text)
    assert forced.lines[1] == "no pod is restarted"


def test_a_wrong_namespace_is_reported(world: World, lws: Caller) -> None:
    manifest = a_set("demo")
    manifest["metadata"]["namespace"] = "elsewhere"
    refused = lws("plan", "-f", "-", stdin=yaml.safe_dump(manifest))
    assert refused.code == 1
    assert f"-n says {world.namespace}" in refused.err
    absent = Caller(lws.kubeconfig, None)("plan", "-f", "-", stdin=yaml.safe_dump(manifest))
    assert absent.code == 1
    assert 'namespaces "elsewhere" not found' in absent.err

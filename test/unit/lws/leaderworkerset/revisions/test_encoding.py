"""Tests of lws.leaderworkerset.revisions.encoding: recorded text, key, and which specs are equivalent."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from lws.leaderworkerset.revisions.encoding import (
    canonical_text,
    equality_form,
    equality_tree,
    key_of,
    serialised,
)

Spec = dict[str, Any]

TINY_TEXT = (
    '{"spec":{"leaderWorkerTemplate":{"$patch":"replace","restartPolicy":"None","size":1,"workerTemplate":'
    '{"metadata":{},"spec":{"containers":[{"image":"a:1","name":"c","resources":{}}]}}},'
    '"networkConfig":{"$patch":"replace","subdomainPolicy":"Shared"}}}'
)


def make_tiny(**template: Any) -> Spec:
    """Return the smallest spec, with these further fields of leaderWorkerTemplate."""
    worker = {"spec": {"containers": [{"name": "c", "image": "a:1"}]}}
    return {
        "leaderWorkerTemplate": {"restartPolicy": "None", "size": 1, "workerTemplate": worker, **template}
    }


def make_serving() -> Spec:
    """Return a realistic model server: a leader and three workers with eight accelerators each."""
    env = [
        {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf", "key": "token"}}},
        {"name": "WAIT", "value": "1"},
    ]
    resources = {"limits": {"nvidia.com/gpu": "8", "memory": "1124Gi"}, "requests": {"cpu": "125"}}
    leader: Spec = {
        "metadata": {"labels": {"role": "leader"}},
        "spec": {
            "containers": [
                {
                    "name": "vllm-leader",
                    "image": "vllm/vllm-openai:v0.11.0",
                    "command": ["sh", "-c", "ray start --head; vllm serve --port 8080 $(LWS_LEADER_ADDRESS)"],
                    "env": env,
                    "resources": resources,
                    "ports": [{"containerPort": 8080}],
                    "readinessProbe": {
                        "tcpSocket": {"port": 8080},
                        "initialDelaySeconds": 15,
                        "periodSeconds": 10,
                    },
                    "livenessProbe": {"httpGet": {"path": "/health", "port": "http"}},
                    "volumeMounts": [{"mountPath": "/dev/shm", "name": "dshm"}],
                }
            ],
            "volumes": [
                {"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": "15Gi"}},
                {"name": "config", "configMap": {"name": "vllm"}},
            ],
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
            "affinity": {"podAntiAffinity": {}},
        },
    }
    worker = copy.deepcopy(leader)
    worker["spec"]["containers"][0] |= {"name": "vllm-worker", "command": ["sh", "-c", "ray start"]}
    claim = {"metadata": {"name": "d"}, "spec": {"resources": {"requests": {"storage": "1Ti"}}}}
    return {
        "replicas": 2,
        "leaderWorkerTemplate": {
            "size": 4,
            "restartPolicy": "RecreateGroupOnPodRestart",
            "leaderTemplate": leader,
            "workerTemplate": worker,
            "volumeClaimTemplates": [claim],
        },
        "networkConfig": {"subdomainPolicy": "Shared"},
    }


def test_smallest_spec() -> None:
    assert canonical_text(make_tiny()) == TINY_TEXT
    assert key_of(TINY_TEXT) == "58b6956df9"


def test_escapes_and_quantities() -> None:
    container = {
        "name": "main",
        "image": "img:1",
        "args": ["--a=<b>&c"],
        "env": [{"name": "LWS_GROUP_SIZE", "value": "user"}, {"name": "X", "value": "1"}],
        "resources": {"limits": {"cpu": "1.5", "memory": "1024Mi"}},
    }
    worker = {"metadata": {"labels": {"app": "w"}}, "spec": {"nodeName": "n1", "containers": [container]}}
    spec = make_tiny(restartPolicy="RecreateGroupOnPodRestart", size=2, workerTemplate=worker)
    text = canonical_text(spec)
    assert r"--a=\u003cb\u003e\u0026c" in text
    assert '"limits":{"cpu":"1500m","memory":"1Gi"}' in text
    assert key_of(text) == "6b44f4458c"


def test_every_rule() -> None:
    directory = Path(__file__).parent
    spec = yaml.safe_load((directory / "every_rule.yaml").read_text(encoding="utf-8"))
    expected = (directory / "every_rule.json").read_text(encoding="utf-8")
    assert canonical_text(spec) == expected
    assert key_of(expected) == "8bc7b8c4d"
    assert canonical_text(json.loads(expected)["spec"]) == expected, "a recorded spec is recorded unchanged"


@pytest.mark.parametrize(
    ("network", "recorded"),
    [
        (None, '{"$patch":"replace","subdomainPolicy":"Shared"}'),
        ({}, '{"$patch":"replace"}'),
        ({"subdomainPolicy": None}, '{"$patch":"replace"}'),
        (
            {"subdomainPolicy": "UniquePerReplica"},
            '{"$patch":"replace","subdomainPolicy":"UniquePerReplica"}',
        ),
    ],
    ids=["null", "empty", "null policy", "policy"],
)
def test_network_configuration(network: Spec | None, recorded: str) -> None:
    text = canonical_text({**make_tiny(), "networkConfig": network})
    assert text == TINY_TEXT.replace('{"$patch":"replace","subdomainPolicy":"Shared"}', recorded)


def test_only_what_a_rollout_depends_on_is_recorded() -> None:
    outside = {"replicas": 7, "startupPolicy": "LeaderReady", "rolloutStrategy": {"type": "RollingUpdate"}}
    assert canonical_text({**make_tiny(), **outside}) == TINY_TEXT


def test_fields_of_later_upstream_releases_are_not_recorded() -> None:
    """As with upstream, these fields affect neither bytes nor key nor equality."""
    later = {"groupIdentity": "Ordinal", "groupReplacementPolicy": "PostTermination", "scheduling": {}}
    limited = {**make_tiny(maxGroupRestarts=3, restartBackoff={"baseSeconds": 5}), **later}
    assert canonical_text(limited) == TINY_TEXT
    assert (
        equality_form(limited) == equality_form(make_tiny(maxGroupRestarts=5)) == equality_form(make_tiny())
    )


def test_unknown_fields_are_recorded() -> None:
    future = {"spec": {"containers": [], "fromTheFuture": {"deep": [{"zero": 0, "null": None}]}}}
    text = canonical_text(make_tiny(workerTemplate=future))
    assert '"fromTheFuture":{"deep":[{"null":null,"zero":0}]}' in text


def test_the_spec_is_not_mutated() -> None:
    spec = make_serving()
    before = copy.deepcopy(spec)
    canonical_text(spec)
    equality_form(spec)
    assert spec == before


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("<>&", r'"\u003c\u003e\u0026"'),
        ("\u2028\u2029", r'"\u2028\u2029"'),
        ('\b\f\n\r\t\\"', r'"\b\f\n\r\t\\\""'),
        ("\0\x1f", r'"\u0000\u001f"'),
        ("\x7f é 漢 😀", '"\x7f é 漢 😀"'),
        ({"b": 1, "a": [True, None, 1.5]}, '{"a":[true,null,1.5],"b":1}'),
        ({"é": 1, "z": 2, "😀": 3, "\uffee": 4}, '{"z":2,"é":1,"\uffee":4,"😀":3}'),
        (9223372036854776000, "9223372036854776000"),
    ],
    ids=[
        "html",
        "line separators",
        "short escapes",
        "control characters",
        "utf-8",
        "compact",
        "order",
        "integer",
    ],
)
def test_serialised(value: Any, text: str) -> None:
    assert serialised(value) == text


def test_keys_have_no_vowels_and_probes_differ() -> None:
    keys = [key_of(TINY_TEXT, probe) for probe in range(50)]
    assert len(set(keys)) == 50
    assert set("".join(keys)) <= set("bcdf456789")
    assert keys[0] == key_of(TINY_TEXT)


Change = Callable[[Spec], object]


def _template(spec: Spec) -> Spec:
    worker: Spec = spec["leaderWorkerTemplate"]["workerTemplate"]
    return worker


def _pod(spec: Spec) -> Spec:
    pod: Spec = _template(spec)["spec"]
    return pod


def _main(spec: Spec) -> Spec:
    container: Spec = _pod(spec)["containers"][0]
    return container


def _claim(spec: Spec) -> Spec:
    claim: Spec = spec["leaderWorkerTemplate"]["volumeClaimTemplates"][0]
    return claim


def _reversed_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _reversed_keys(value[key]) for key in reversed(value)}
    return [_reversed_keys(item) for item in value] if isinstance(value, list) else value


EQUAL: dict[str, Change] = {
    "nothing": lambda spec: None,
    "key order": lambda spec: spec.update(_reversed_keys(spec)),
    "binary quantity": lambda spec: _main(spec)["resources"]["limits"].update(memory="1150976Mi"),
    "decimal quantity": lambda spec: _main(spec)["resources"]["requests"].update(cpu="125000m"),
    "quantity as a number": lambda spec: _main(spec)["resources"]["requests"].update(cpu=125),
    "gpu as a number": lambda spec: _main(spec)["resources"]["limits"].update({"nvidia.com/gpu": 8}),
    "size limit": lambda spec: _pod(spec)["volumes"][0]["emptyDir"].update(sizeLimit="15360Mi"),
    "storage": lambda spec: _claim(spec)["spec"]["resources"]["requests"].update(storage="1024Gi"),
    "null field": lambda spec: _pod(spec).update(nodeSelector=None, hostNetwork=None, priority=None),
    "null timestamps": lambda spec: _template(spec)["metadata"].update(creationTimestamp=None),
    "null timestamp of a claim": lambda spec: _claim(spec)["metadata"].update(creationTimestamp=None),
    "empty status of a claim": lambda spec: _claim(spec).update(status={}),
    "status of a claim": lambda spec: _claim(spec).update(status={"phase": "Pending"}),
    "kind of a claim": lambda spec: _claim(spec).update(kind="PersistentVolumeClaim", apiVersion="v1"),
    "another kind of a claim": lambda spec: _claim(spec).update(kind="Claim", apiVersion="v2"),
    "volume mode": lambda spec: _claim(spec)["spec"].update(volumeMode="Filesystem"),
    "empty maps": lambda spec: _pod(spec).update(nodeSelector={}, overhead={}),
    "empty annotations": lambda spec: _template(spec)["metadata"].update(annotations={}),
    "empty lists": lambda spec: _pod(spec).update(imagePullSecrets=[], initContainers=[]),
    "empty resource claims": lambda spec: _main(spec)["resources"].update(claims=[]),
    "zero values": lambda spec: _pod(spec).update(hostNetwork=False, nodeName="", subdomain=""),
    "zero values of a container": lambda spec: _main(spec).update(tty=False, stdin=False, workingDir=""),
    "zero value of a probe": lambda spec: _main(spec)["livenessProbe"].update(initialDelaySeconds=0),
    "zero value of a mount": lambda spec: _main(spec)["volumeMounts"][0].update(readOnly=False, subPath=""),
    "host port": lambda spec: _main(spec)["ports"][0].update(hostPort=0),
    "grace period": lambda spec: _pod(spec).update(terminationGracePeriodSeconds=30),
    "pod restart policy": lambda spec: _pod(spec).update(restartPolicy="Always"),
    "DNS policy": lambda spec: _pod(spec).update(dnsPolicy="ClusterFirst"),
    "scheduler": lambda spec: _pod(spec).update(schedulerName="default-scheduler"),
    "pod security context": lambda spec: _pod(spec).update(securityContext={}),
    "pull policy of a tag": lambda spec: _main(spec).update(imagePullPolicy="IfNotPresent"),
    "termination message": lambda spec: _main(spec).update(
        terminationMessagePath="/dev/termination-log", terminationMessagePolicy="File"
    ),
    "protocol": lambda spec: _main(spec)["ports"][0].update(protocol="TCP"),
    "probe": lambda spec: _main(spec)["readinessProbe"].update(
        timeoutSeconds=1, successThreshold=1, failureThreshold=3
    ),
    "probe scheme": lambda spec: _main(spec)["livenessProbe"]["httpGet"].update(scheme="HTTP"),
    "config map mode": lambda spec: _pod(spec)["volumes"][1]["configMap"].update(defaultMode=420),
    "null subgroup policy": lambda spec: spec["leaderWorkerTemplate"].update(subGroupPolicy=None),
    "group restart policy": lambda spec: spec["leaderWorkerTemplate"].update(restartPolicy="None"),
    "claim retention": lambda spec: spec["leaderWorkerTemplate"].update(
        persistentVolumeClaimRetentionPolicy={"whenDeleted": "Delete"}
    ),
    "no network configuration": lambda spec: spec.pop("networkConfig"),
    "empty network configuration": lambda spec: spec.update(networkConfig={}),
    "replicas": lambda spec: spec.update(replicas=100),
    "patch markers": lambda spec: [part.update({"$patch": "replace"}) for part in (
        spec["leaderWorkerTemplate"], spec["networkConfig"])],
}  # fmt: skip

DIFFERENT: dict[str, Change] = {
    "image": lambda spec: _main(spec).update(image="vllm/vllm-openai:v0.11.1"),
    "pull policy": lambda spec: _main(spec).update(imagePullPolicy="Always"),
    "argument": lambda spec: _main(spec)["command"].append("x"),
    "order of arguments": lambda spec: _main(spec)["command"].reverse(),
    "order of the environment": lambda spec: _main(spec)["env"].reverse(),
    "a number where a text was": lambda spec: _main(spec)["env"][1].update(value=1),
    "true where 1 was": lambda spec: _main(spec)["ports"][0].update(containerPort=True),
    "limit": lambda spec: _main(spec)["resources"]["limits"].update(memory="1125Gi"),
    "limit one byte off": lambda spec: _main(spec)["resources"]["limits"].update(memory="1206884777985"),
    "request added": lambda spec: _main(spec)["resources"]["requests"].update(memory="1Gi"),
    "emptyDir without content": lambda spec: _pod(spec)["volumes"][0].update(emptyDir={}),
    "another volume source": lambda spec: _pod(spec)["volumes"].append({"name": "v", "emptyDir": {}}),
    "container security context": lambda spec: _main(spec).update(securityContext={}),
    "pod affinity beside": lambda spec: _pod(spec)["affinity"].update(podAffinity={}),
    "affinity gone": lambda spec: _pod(spec).pop("affinity"),
    "pointer to zero": lambda spec: _pod(spec).update(terminationGracePeriodSeconds=0),
    "pointer to false": lambda spec: _pod(spec).update(automountServiceAccountToken=False),
    "default of pods, not of templates": lambda spec: _pod(spec).update(enableServiceLinks=True),
    "pointer to an empty text": lambda spec: _claim(spec)["spec"].update(storageClassName=""),
    "empty label": lambda spec: _template(spec)["metadata"]["labels"].update(empty=""),
    "label": lambda spec: _template(spec)["metadata"]["labels"].update(role="worker"),
    "toleration": lambda spec: _pod(spec)["tolerations"].append({"key": "a"}),
    "size": lambda spec: spec["leaderWorkerTemplate"].update(size=5),
    "no leader template": lambda spec: spec["leaderWorkerTemplate"].pop("leaderTemplate"),
    "no claim templates": lambda spec: spec["leaderWorkerTemplate"].pop("volumeClaimTemplates"),
    "subgroups": lambda spec: spec["leaderWorkerTemplate"].update(subGroupPolicy={"subGroupSize": 2}),
    "subdomain policy": lambda spec: spec["networkConfig"].update(subdomainPolicy="UniquePerReplica"),
    # The API server drops the field while a feature gate is closed. The controller does not know the gates.
    "stop signal": lambda spec: _main(spec).update(lifecycle={"stopSignal": "SIGINT"}),
    "unknown field": lambda spec: _pod(spec).update(fromTheFuture={}),
}  # fmt: skip


def changed(change: Change) -> dict[str, Any]:
    spec = make_serving()
    change(spec)
    return spec


def test_equivalent_specs_are_equal() -> None:
    form = equality_form(make_serving())
    assert [name for name, change in EQUAL.items() if equality_form(changed(change)) != form] == []


def test_different_specs_are_not_equal() -> None:
    form = equality_form(make_serving())
    assert [name for name, change in DIFFERENT.items() if equality_form(changed(change)) == form] == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({}, {"size": 1}),
        ({"subGroupPolicy": {}}, {"subGroupPolicy": {"subGroupPolicyType": "LeaderWorker"}}),
    ],
    ids=["size", "subgroup policy"],
)
def test_defaults_of_our_own_fields(one: Spec, other: Spec) -> None:
    base = make_tiny()["leaderWorkerTemplate"]
    del base["size"]
    assert equality_form({"leaderWorkerTemplate": {**base, **one}}) == equality_form(
        {"leaderWorkerTemplate": {**base, **other}}
    )


def test_recorded_specs_are_equal_to_their_source() -> None:
    for name, change in EQUAL.items():
        spec = changed(change)
        recorded = json.loads(canonical_text(spec))["spec"]
        assert equality_form(recorded) == equality_form(spec), name


def test_the_equality_tree_serialises_to_the_equality_form() -> None:
    assert serialised(equality_tree(make_serving())) == equality_form(make_serving())


@pytest.mark.parametrize(
    "spec",
    [{}, {"leaderWorkerTemplate": None}, {"leaderWorkerTemplate": {"workerTemplate": "no object"}}],
    ids=["nothing", "null", "another shape"],
)
def test_invalid_specs_are_recorded_without_an_error(spec: Spec) -> None:
    recorded = json.loads(canonical_text(spec))["spec"]
    assert equality_form(recorded) == equality_form(spec)

"""Apply one example, and check that it comes up as described, with every feature that it uses."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any

import yaml

from lws.leaderworkerset.group.placement import subgroup_of
from lws.leaderworkerset.spec import other_manager
from lws_api.disaggregatedset import v1 as disaggregated
from lws_api.disaggregatedset.v1 import NAME_LABEL, REVISION_LABEL, ROLE_LABEL, SLICE_LABEL
from lws_api.leaderworkerset import v1
from lws_api.leaderworkerset.v1 import KIND
from tools.demo.check import Check, equal, none_of, same_members
from tools.demo.facts import Kind, Object, SetFacts, View, host_of, name_of
from tools.demo.mirror import NAMESPACE
from tools.demo.scene import Scene
from tools.demo.show import Result, Show
from tools.demo.structure import is_at_rest, verify_pods, verify_revision, verify_status
from tools.demo.tour import play_in
from tools.deployment import REPOSITORY

EXAMPLES = REPOSITORY / "examples"
# The loader that is written in C, if PyYAML has it, takes a tenth of the time.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_AUTOSCALER = "HorizontalPodAutoscaler"
_COMMENTED = re.compile("#")
_WHOLE, _PART = v1.GROUP_KEY_LABEL, v1.SUBGROUP_KEY_LABEL
_TPU_HOSTS, _TPU_ID = "TPU_WORKER_HOSTNAMES", "TPU_WORKER_ID"
_SECONDS = 180.0
_CLAIMS, _NODES = f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims", "/api/v1/nodes"
_STAND_INS = {"ScaledObject": Path(__file__).parent / "stand_ins" / "scaledobjects.keda.sh.yaml"}


class UnknownExampleError(LookupError):
    """No manifest has this name; the message lists the existing examples."""


@dataclass(frozen=True, slots=True)
class Example:
    """One manifest.

    comment: the lines at its beginning, without comment signs.
    sets, disaggregated: its LeaderWorkerSets and DisaggregatedSets by name, as written.
    left_alone: the LeaderWorkerSets that another controller reconciles.
    least: the minimum of groups to which an autoscaler scales a set, or the role of a scaler.
    needs: the definitions of kinds that a plain cluster lacks.
    """

    name: str
    path: Path
    comment: tuple[str, ...]
    sets: Mapping[str, Mapping[str, Any]]
    least: Mapping[str, int]
    disaggregated: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    needs: tuple[Path, ...] = ()
    left_alone: tuple[str, ...] = ()

    @property
    def needs_workloads(self) -> bool:
        """Whether a set has `spec.scheduling`, for which Kubernetes and the manager need feature gates."""
        return any("scheduling" in (lws.get("spec") or {}) for lws in self.sets.values())


def example_names(directory: Path = EXAMPLES) -> list[str]:
    """Return the names of all examples."""
    names = (path.relative_to(directory).with_suffix("") for path in directory.rglob("*.yaml"))
    return sorted(path.as_posix() for path in names)


def find_example(name: str, directory: Path = EXAMPLES) -> Example:
    """Return the example of this name, with or without its suffix. Raises UnknownExampleError."""
    names, stem = example_names(directory), name.removesuffix(".yaml")
    if stem not in names:
        raise UnknownExampleError(f"there is no example {name!r}; DEMO may be one of: {', '.join(names)}")
    path = directory / f"{stem}.yaml"
    text = path.read_text("utf-8")
    objects = [obj for obj in yaml.load_all(text, Loader=_LOADER) if obj]
    scaled = [obj["spec"] for obj in objects if obj["kind"] == _AUTOSCALER]
    kinds = {obj["kind"] for obj in objects}
    sets = _by_name(objects, KIND)
    left_alone = tuple(set_name for set_name, written in sets.items() if other_manager(written))
    return Example(
        stem,
        path,
        tuple(line[1:].removeprefix(" ") for line in takewhile(_COMMENTED.match, text.splitlines())),
        sets={set_name: written for set_name, written in sets.items() if set_name not in left_alone},
        least={spec["scaleTargetRef"]["name"]: int(spec.get("minReplicas", 1)) for spec in scaled},
        disaggregated=_by_name(objects, disaggregated.KIND),
        needs=tuple(definition for kind, definition in _STAND_INS.items() if kind in kinds),
        left_alone=left_alone,
    )


def _by_name(objects: Sequence[Mapping[str, Any]], kind: str) -> dict[str, Mapping[str, Any]]:
    return {obj["metadata"]["name"]: obj for obj in objects if obj["kind"] == kind}


@dataclass(frozen=True, slots=True)
class Scenery:
    """A set, all Services and claims of its namespace, and the labels of nodes by name."""

    lws: Object
    pods: Sequence[Object]
    services: Sequence[Object]
    claims: Sequence[Object]
    nodes: Mapping[str, Mapping[str, str]]

    @property
    def name(self) -> str:
        return str(self.lws["metadata"]["name"])

    @property
    def template(self) -> Mapping[str, Any]:
        return dict(self.lws["spec"]["leaderWorkerTemplate"])


def verify_features(seen: Scenery) -> list[Check]:
    """Verify the addresses of every set, and the other features that this set uses."""
    return [check for verify in _FEATURES for check in verify(seen)]


def _verify_addresses(seen: Scenery) -> list[Check]:
    headless = {name_of(service) for service in seen.services if service["spec"].get("clusterIP") == "None"}
    astray = [
        name_of(pod)
        for pod in seen.pods
        if pod["spec"].get("subdomain") not in headless
        or _variable(pod, v1.LEADER_ADDRESS_ENV)
        != f"{host_of(seen.name, _label(pod, v1.GROUP_INDEX_LABEL))}.{pod['spec']['subdomain']}."
        f"{pod['metadata']['namespace']}"
    ]
    claim = f"{len(seen.pods)} pods carry {v1.LEADER_ADDRESS_ENV} of their own leader, in a headless Service"
    return [none_of(claim, astray, len(seen.pods))]


def _verify_subdomains(seen: Scenery) -> list[Check]:
    policy = (seen.lws["spec"].get("networkConfig") or {}).get("subdomainPolicy")
    if policy != v1.SubdomainPolicy.UNIQUE_PER_REPLICA:
        return []
    groups = {f"{seen.name}-{_label(pod, v1.GROUP_INDEX_LABEL)}" for pod in seen.pods}
    services = {name_of(service) for service in seen.services if _label(service, v1.NAME_LABEL) == seen.name}
    return [same_members(f"each of {len(groups)} groups has a Service of its own", groups, services)]


def _verify_subgroups(seen: Scenery) -> list[Check]:
    policy = seen.template.get("subGroupPolicy")
    if not policy:
        return []
    excluded = policy.get("subGroupPolicyType") == v1.SubGroupPolicyType.LEADER_EXCLUDED
    size, part = seen.template["size"], policy["subGroupSize"]

    def expected(pod: Object) -> str:
        worker = int(_label(pod, v1.WORKER_INDEX_LABEL))
        return "" if excluded and worker == 0 else str(subgroup_of(worker, size, part))

    astray = [name_of(pod) for pod in seen.pods if _label(pod, v1.SUBGROUP_INDEX_LABEL) != expected(pod)]
    whose = "workers" if excluded else "pods"
    return [none_of(f"{whose} of each group are in subgroups of {part}, in order", astray, len(seen.pods))]


def _verify_placement(seen: Scenery) -> list[Check]:
    annotations = seen.lws["metadata"].get("annotations") or {}
    pairs = ((v1.EXCLUSIVE_TOPOLOGY_ANNOTATION, _WHOLE), (v1.SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION, _PART))
    return [
        check
        for annotation, label in pairs
        if (topology := annotations.get(annotation))
        for check in _verify_apart(seen, label, topology)
    ]


def _verify_apart(seen: Scenery, label: str, topology: str) -> list[Check]:
    """Verify that each group or subgroup, as told by `label`, is alone in one topology domain."""
    domains: dict[str, set[str]] = {}
    for pod in seen.pods:
        if key := _label(pod, label):
            node = str(pod["spec"].get("nodeName", ""))
            domains.setdefault(key, set()).add(seen.nodes.get(node, {}).get(topology, f"nowhere ({node})"))
    scattered = [f"{key}: {', '.join(sorted(names))}" for key, names in domains.items() if len(names) != 1]
    counts = Counter(domain for names in domains.values() for domain in names)
    shared = [domain for domain, count in counts.items() if count > 1]
    noun = "groups" if label == _WHOLE else "subgroups"
    return [
        none_of(f"each of {len(domains)} {noun} is in one {topology}", scattered, len(domains)),
        none_of(f"no two {noun} share a {topology}", shared, len(domains)),
    ]


def _verify_claims(seen: Scenery) -> list[Check]:
    templates = [name_of(template) for template in seen.template.get("volumeClaimTemplates") or ()]
    if not templates:
        return []
    expected = [f"{template}-{name_of(pod)}" for template in templates for pod in seen.pods]
    bound = [name_of(pvc) for pvc in seen.claims if (pvc.get("status") or {}).get("phase") == "Bound"]
    claim = f"each of {len(seen.pods)} pods has its volumes: {len(expected)} claims are bound"
    return [same_members(claim, expected, [name for name in bound if name in expected])]


def _verify_tpus(seen: Scenery) -> list[Check]:
    """Verify the TPU variables. Pods that use no TPUs have none."""
    by_hosts: dict[str, list[Object]] = {}
    for pod in seen.pods:
        if hosts := _variable(pod, _TPU_HOSTS):
            by_hosts.setdefault(hosts, []).append(pod)
    if not by_hosts:
        return []
    wrong = [
        f"{', '.join(map(name_of, pods))} of {hosts}"
        for hosts, pods in by_hosts.items()
        if sorted(_variable(pod, _TPU_ID) for pod in pods)
        != sorted(str(number) for number in range(len(hosts.split(","))))
    ]
    claim = f"pods of {len(by_hosts)} TPU slices name the same hosts, each with its own {_TPU_ID}"
    return [none_of(claim, wrong, len(by_hosts))]


_FEATURES: tuple[Callable[[Scenery], list[Check]], ...] = (
    _verify_addresses,
    _verify_subdomains,
    _verify_subgroups,
    _verify_placement,
    _verify_claims,
    _verify_tpus,
)


def _label(obj: Object, key: str) -> str:
    return str((obj["metadata"].get("labels") or {}).get(key, ""))


def _variable(pod: Object, name: str) -> str:
    entries = [entry for container in pod["spec"]["containers"] for entry in container.get("env") or ()]
    return next((str(entry.get("value", "")) for entry in entries if entry["name"] == name), "")


def children_of(view: View, name: str) -> list[str]:
    """Return the names of a DisaggregatedSet's LeaderWorkerSets."""
    return sorted(map(name_of, _sets(view, name)))


def is_whole(view: View, written: Mapping[str, Any], least: Mapping[str, int]) -> bool:
    """Report whether every role has its set in every slice, with all groups (`least` by scaler's name)."""
    name = written["metadata"]["name"]
    children = {_place(lws): name_of(lws) for lws in _sets(view, name)}
    return children.keys() == _places(written) and all(
        is_at_rest(view, child, least.get(f"{name}-{role}", 0)) for (_, role), child in children.items()
    )


def verify_roles(view: View, written: Mapping[str, Any]) -> list[Check]:
    """Verify the names of LeaderWorkerSets, that all have one revision, and that each has a Service."""
    name = written["metadata"]["name"]
    keys = Counter(_label(lws, REVISION_LABEL) for lws in _sets(view, name))
    key = next(iter(keys), "")
    expected = [f"{name}-{index}-{key}-{role}" for index, role in _places(written)]
    services = [name_of(obj) for obj in view.objects[Kind.SERVICE] if _label(obj, NAME_LABEL) == name]
    return [
        equal(f"all roles of {name} are on one revision", 1, len(keys)),
        same_members("a LeaderWorkerSet for each role in each slice", expected, children_of(view, name)),
        same_members("a Service for each of them", [f"{child}-prv" for child in expected], services),
    ]


def _sets(view: View, name: str) -> list[Object]:
    return [lws for lws in view.objects[Kind.SET] if _label(lws, NAME_LABEL) == name]


def _places(written: Mapping[str, Any]) -> set[tuple[str, str]]:
    spec = written["spec"]
    return {(str(index), role["name"]) for index in range(spec.get("slices", 1)) for role in spec["roles"]}


def _place(child: Object) -> tuple[str, str]:
    return _label(child, SLICE_LABEL) or "0", _label(child, ROLE_LABEL)


def run_example(scene: Scene, show: Show, example: Example) -> Result:
    """Apply the example, wait until all of its sets are at rest, and verify them."""
    steps = [(f"Example {example.name}", partial(_apply, scene, show, example))]
    return play_in(scene, show, steps, "the example can be applied")


def _apply(scene: Scene, show: Show, example: Example) -> list[Check]:
    show.tell(["", *example.comment, ""])
    for definition in example.needs:
        show.say(f"$ kubectl apply --server-side -f {os.path.relpath(definition)}")
        scene.cluster.kubectl("apply", "--server-side", "-f", str(definition))
        scene.cluster.kubectl("wait", "--for=condition=Established", "-f", str(definition))
    show.say(f"$ kubectl apply -f {os.path.relpath(example.path)}")
    scene.cluster.kubectl("--namespace", NAMESPACE, "apply", "-f", str(example.path))
    for name in example.sets:
        condition = f"LeaderWorkerSet {name} to be at rest"
        show.wait_for(condition)
        rests = partial(is_at_rest, name=name, least=example.least.get(name, 0))
        scene.mirror.until(rests, _SECONDS, condition)
    for name, written in example.disaggregated.items():
        condition = f"DisaggregatedSet {name} to be at rest"
        show.wait_for(condition)
        scene.mirror.until(partial(_is_there, written=written, least=example.least), _SECONDS, condition)
    return list(_verify_all(scene, scene.mirror.fresh(), example))


def _is_there(view: View, written: Mapping[str, Any], least: Mapping[str, int]) -> bool:
    """Report whether a DisaggregatedSet is complete. Services come last, after a ready group per role."""
    return is_whole(view, written, least) and all(check.held for check in verify_roles(view, written))


def _verify_all(scene: Scene, view: View, example: Example) -> Iterator[Check]:
    for written in example.disaggregated.values():
        yield from verify_roles(view, written)
    children = (name for parent in example.disaggregated for name in children_of(view, parent))
    for name in (*example.sets, *children):
        yield from _verify(scene, view, name)
    for name in example.left_alone:
        yield _verify_left_alone(view, name)


def _verify(scene: Scene, view: View, name: str) -> Iterator[Check]:
    facts = view.set(name)
    if facts is None:
        yield Check(f"LeaderWorkerSet {name} exists", False, "it does", "it does not")
        return
    yield from verify_pods(view, facts)
    yield _verify_statefulsets(view, facts)
    yield verify_revision(view, facts, view.pods(name))
    yield from verify_status(facts)
    yield from verify_features(_scenery(scene, view, name))
    warnings = [
        str(event.get("note"))
        for event in view.objects[Kind.EVENT]
        if event.get("type") == "Warning" and (event.get("regarding") or {}).get("uid") == facts.uid
    ]
    yield none_of(f"no Warning was sent about {name}", warnings, 1)


def _verify_left_alone(view: View, name: str) -> Check:
    kinds = (Kind.POD, Kind.STATEFULSET, Kind.SERVICE, Kind.REVISION)
    children = [obj for kind in kinds for obj in view.objects[kind] if _label(obj, v1.NAME_LABEL) == name]
    reported = [lws for lws in view.objects[Kind.SET] if name_of(lws) == name and lws.get("status")]
    claim = f"{name}, which another controller runs, has no children and no status"
    return none_of(claim, [name_of(obj) for obj in (*children, *reported)], 1)


def _verify_statefulsets(view: View, facts: SetFacts) -> Check:
    name = facts.name
    of_leaders = [name] if facts.has_indices else []
    of_workers = [pod.host for pod in view.pods(name) if pod.is_leader] if facts.size > 1 else []
    names = [name_of(obj) for obj in view.objects[Kind.STATEFULSET] if _label(obj, v1.NAME_LABEL) == name]
    claim = f"{len(of_leaders)} StatefulSet of leaders, {len(of_workers)} of workers"
    return same_members(claim, [*of_leaders, *of_workers], names)


def _scenery(scene: Scene, view: View, name: str) -> Scenery:
    api = scene.cluster.api
    return Scenery(
        lws=next(obj for obj in view.objects[Kind.SET] if name_of(obj) == name),
        pods=[pod for pod in view.objects[Kind.POD] if _label(pod, v1.NAME_LABEL) == name],
        services=view.objects[Kind.SERVICE],
        claims=api.get(_CLAIMS)["items"],
        nodes={name_of(node): node["metadata"]["labels"] for node in api.get(_NODES)["items"]},
    )

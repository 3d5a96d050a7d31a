"""Answers: does one example come up as it says?

In: a scene, a display, an example. Out: how many checks were made, and which of them did not hold.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

from lws_api.leaderworkerset.v1 import NAME_LABEL
from tools.demo.check import Check, none_of, same_members
from tools.demo.example import Example
from tools.demo.facts import Object
from tools.demo.features import Scenery, verify_features
from tools.demo.mirror import NAMESPACE, NotInTime
from tools.demo.picture import picture_of, summary
from tools.demo.record import Kind, View
from tools.demo.roles import children_of, is_whole, verify_roles
from tools.demo.scene import Scene
from tools.demo.settled import is_at_rest
from tools.demo.show import Show
from tools.demo.structure import verify_pods, verify_revision, verify_status
from tools.demo.tour import Result
from tools.localcluster import ApiError, CommandError

_SECONDS = 180.0
_LAST_WORDS = 12
_CLAIMS, _NODES = f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims", "/api/v1/nodes"


def run_example(scene: Scene, show: Show, example: Example) -> Result:
    """Apply it, wait until all of its sets are at rest, and look at what came of it."""
    show.begin(f"Example {example.name}")
    show.tell(["", *example.comment, ""])
    checks = _perform(scene, show, example)
    show.verified(checks)
    failed = tuple(check.claim for check in checks if not check.held)
    show.say(f"{len(checks) - len(failed)} of {len(checks)} facts hold")
    if failed:
        show.fail(f"the manager's last words:\n{scene.manager.last_words(_LAST_WORDS)}")
    return Result(len(checks), failed)


def _perform(scene: Scene, show: Show, example: Example) -> list[Check]:
    try:
        for definition in example.needs:
            show.say(f"$ kubectl apply --server-side -f {os.path.relpath(definition)}")
            scene.cluster.kubectl("apply", "--server-side", "-f", str(definition))
            scene.cluster.kubectl("wait", "--for=condition=Established", "-f", str(definition))
        show.say(f"$ kubectl apply -f {os.path.relpath(example.path)}")
        scene.cluster.kubectl("--namespace", NAMESPACE, "apply", "-f", str(example.path))
        for name in example.sets:
            wanted = f"LeaderWorkerSet {name} to be at rest"
            show.wait_for(wanted)
            rests = partial(is_at_rest, name=name, least=example.least.get(name, 0))
            scene.mirror.until(rests, _SECONDS, wanted)
        for name, written in example.disaggregated.items():
            wanted = f"DisaggregatedSet {name} to be at rest"
            show.wait_for(wanted)
            scene.mirror.until(partial(_is_there, written=written, least=example.least), _SECONDS, wanted)
        return list(_verify_all(scene, scene.mirror.fresh(), example))
    except NotInTime as late:
        found = summary(picture_of(late.view, datetime.now(UTC)))
        return [Check(late.wanted, False, f"within {late.seconds:.0f} s", found)]
    except (ApiError, CommandError) as error:
        return [Check("the example can be applied", False, "no error", str(error))]
    finally:
        show.wait_for("")


def _is_there(view: View, written: Mapping[str, Any], least: Mapping[str, int]) -> bool:
    """Services come last: each once all roles have a ready group."""
    return is_whole(view, written, least) and all(check.held for check in verify_roles(view, written))


def _verify_all(scene: Scene, view: View, example: Example) -> Iterator[Check]:
    for written in example.disaggregated.values():
        yield from verify_roles(view, written)
    children = (name for each in example.disaggregated for name in children_of(view, each))
    for name in (*example.sets, *children):
        yield from _verify(scene, view, name)


def _verify(scene: Scene, view: View, name: str) -> Iterator[Check]:
    facts = view.set(name)
    if facts is None:
        yield Check(f"LeaderWorkerSet {name} exists", False, "it does", "it does not")
        return
    yield from verify_pods(view, facts)
    yield _verify_statefulsets(view, name, facts.size)
    yield verify_revision(view, facts, view.pods(name))
    yield from verify_status(facts)
    yield from verify_features(_scenery(scene, view, name))
    warnings = [
        str(each.get("note"))
        for each in view.objects[Kind.EVENT]
        if each.get("type") == "Warning" and (each.get("regarding") or {}).get("uid") == facts.uid
    ]
    yield none_of(f"no Warning was sent about {name}", warnings, 1)


def _verify_statefulsets(view: View, name: str, size: int) -> Check:
    leaders = [pod.name for pod in view.pods(name) if pod.is_leader] if size > 1 else []
    found = [_name(each) for each in view.objects[Kind.STATEFULSET] if _is_of(each, name)]
    claim = f"1 StatefulSet of leaders, {len(leaders)} of workers"
    return same_members(claim, [name, *leaders], found)


def _scenery(scene: Scene, view: View, name: str) -> Scenery:
    api = scene.cluster.api
    return Scenery(
        lws=next(each for each in view.objects[Kind.SET] if _name(each) == name),
        pods=[each for each in view.objects[Kind.POD] if _is_of(each, name)],
        services=view.objects[Kind.SERVICE],
        claims=api.get(_CLAIMS)["items"],
        nodes={_name(each): each["metadata"]["labels"] for each in api.get(_NODES)["items"]},
    )


def _is_of(found: Object, name: str) -> bool:
    return (found["metadata"].get("labels") or {}).get(NAME_LABEL) == name


def _name(found: Object) -> str:
    return str(found["metadata"]["name"])

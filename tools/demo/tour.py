"""Play the acts of the tour, and check the result of each."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial

from tools.demo.check import Check, equal, none_of, same_members
from tools.demo.facts import Kind, Moment, Pod, View, groups_of
from tools.demo.mirror import NAMESPACE, NotInTime
from tools.demo.picture import picture_of, summary
from tools.demo.play import Play, image_patch, read_manifest, slowly_starting, with_tag
from tools.demo.scene import Scene, holder
from tools.demo.show import Result, Show, play_steps
from tools.demo.structure import Goal, verify_environment, verify_objects, verify_pods, verify_status
from tools.deployment import REPOSITORY, DeploymentError
from tools.localcluster import ApiError, CommandError

START_TIME = "2s"
NEW_TAG = "3.9"
VICTIM_GROUP, VICTIM_INDEX = 2, 1
MORE_GROUPS = 6
_OUT_OF_MEMORY = 137
_SIGKILLED = -9
CHILDREN = (Kind.STATEFULSET, Kind.SERVICE, Kind.REVISION)
MANIFEST = REPOSITORY / "examples" / "quickstart.yaml"
_LAST_WORDS = 12


def create(play: Play) -> list[Check]:
    """Apply the set as a user would, and check it."""
    manifest = play.manifest
    file = os.path.relpath(play.file)
    play.show.say(f"$ kubectl apply -f {file}  # its pods take {START_TIME} to start here")
    text = slowly_starting(play.file.read_text("utf-8"), START_TIME)
    play.scene.cluster.kubectl("--namespace", NAMESPACE, "apply", "-f", "-", input=text)
    condition = f"{manifest.replicas} groups of {manifest.size} to be ready"
    view = play.until(Goal(manifest.name, manifest.replicas, manifest.image), condition)
    facts = play.facts(view)
    return [
        *verify_pods(view, facts),
        *verify_environment(view, facts, NAMESPACE),
        *verify_objects(view, facts),
        *verify_status(facts),
    ]


def update(play: Play) -> list[Check]:
    """Change the image, and check that it rolls over the groups from the highest index down."""
    manifest, mirror = play.manifest, play.scene.mirror
    image = with_tag(manifest.image, NEW_TAG)
    before, mark = mirror.fresh().pods(manifest.name), mirror.mark()
    play.kubectl("patch", "lws", manifest.name, "--type=json", "-p", image_patch(image))
    goal = Goal(manifest.name, manifest.replicas, image, _uids(before))
    view = play.until(goal, f"{manifest.replicas} groups to move to the new revision, one at a time")
    pods, moments, leaders = view.pods(manifest.name), mirror.since(mark), mirror.view().leaders
    revision = pods[0].revision
    facts = play.facts(view)
    return [
        *verify_pods(view, facts),
        verify_new(f"all {len(pods)} pods are new: none kept its UID", before, pods),
        equal(f"all {len(pods)} pods run {image}", {image}, {pod.image for pod in pods}),
        verify_least_ready(moments, leaders, manifest.replicas - 1),
        verify_order(moments, revision, range(manifest.replicas - 1, -1, -1)),
        equal(f"the revision key changed from {before[0].revision}", True, revision != before[0].revision),
        *verify_objects(view, facts),
        *verify_status(facts),
    ]


def lose_worker(play: Play) -> list[Check]:
    """Make a worker's container die and restart in place, and check that its group is recreated."""
    manifest, mirror = play.manifest, play.scene.mirror
    victim = f"{manifest.name}-{VICTIM_GROUP}-{VICTIM_INDEX}"
    before, mark = mirror.fresh().pods(manifest.name), mirror.mark()
    lost = [pod for pod in before if pod.group == VICTIM_GROUP]
    others = [pod for pod in before if pod.group != VICTIM_GROUP]
    play.show.say(f"container {manifest.container} of pod {victim} exits with {_OUT_OF_MEMORY} (OOMKilled)")
    play.scene.cluster.pods.restart_container(NAMESPACE, victim, manifest.container, _OUT_OF_MEMORY)
    goal = Goal(manifest.name, manifest.replicas, before[0].image, _uids(lost))
    view = play.until(goal, f"group {VICTIM_GROUP} to be recreated")
    now, moments, leaders = view.pods(manifest.name), mirror.since(mark), mirror.view().leaders
    fresh = [pod for pod in now if pod.group == VICTIM_GROUP]
    indices = sorted({pod.group for pod in others})
    facts = play.facts(view)
    return [
        *verify_pods(view, facts),
        verify_new(f"group {VICTIM_GROUP} was recreated: its {len(fresh)} pods are new", before, fresh),
        verify_kept(f"the other {len(others)} pods kept their UIDs", others, now),
        verify_always_ready(moments, leaders, indices),
        verify_event(view, "RecreateGroup", victim),
        *verify_status(facts),
    ]


def scale(play: Play) -> list[Check]:
    """Add groups through the scale subresource, as an autoscaler would, and check them."""
    manifest, mirror = play.manifest, play.scene.mirror
    before, mark = mirror.fresh().pods(manifest.name), mirror.mark()
    play.kubectl("scale", "lws", manifest.name, f"--replicas={MORE_GROUPS}")
    view = play.until(Goal(manifest.name, MORE_GROUPS, before[0].image), f"{MORE_GROUPS} groups to be ready")
    facts, moments = play.facts(view), mirror.since(mark)
    return [
        *verify_pods(view, facts),
        verify_kept(f"the {len(before)} pods from before kept their UIDs", before, view.pods(manifest.name)),
        verify_always_ready(moments, mirror.view().leaders, range(manifest.replicas)),
        *verify_objects(view, facts),
        *verify_status(facts),
    ]


def restart_manager(play: Play) -> list[Check]:
    """Kill the manager with SIGKILL, which keeps the Lease, restart it, and check that nothing changed."""
    manifest, mirror, manager = play.manifest, play.scene.mirror, play.scene.manager
    former, pid = holder(mirror.view()), manager.pid
    pods, mark = mirror.fresh().pods(manifest.name), mirror.mark()
    code = manager.kill()
    play.show.say(f"$ kill -KILL {pid}")
    # Changes that the dead manager has caused may still continue elsewhere, such as a status of a
    # StatefulSet.
    before = play.until(Goal(manifest.name, MORE_GROUPS, pods[0].image), "everything to be at rest")
    play.show.say("$ lws manager")
    play.show.wait_for("the new manager to be ready")
    manager.start().wait_ready()
    play.until_taken_over(former)
    passes = play.until_passes({"leaderworkerset": 1, "pod": MORE_GROUPS})
    play.show.wait_for("")
    after = mirror.fresh()
    sets, groups = passes["leaderworkerset"], passes["pod"]
    return [
        equal(f"manager {pid} died of SIGKILL; {manager.pid} took over its Lease", _SIGKILLED, code),
        equal(f"it has looked again: set {sets} ×, groups {groups} ×", True, sets > 0 < groups),
        verify_kept(f"{len(pods)} pods kept their UIDs", pods, after.pods(manifest.name)),
        verify_always_ready(mirror.since(mark), mirror.view().leaders, range(MORE_GROUPS)),
        *verify_untouched(before, after),
        *verify_status(play.facts(after)),
    ]


def delete(play: Play) -> list[Check]:
    """Delete the set, and check that all of its objects are deleted too."""
    mirror = play.scene.mirror
    mark = mirror.mark()
    play.kubectl("delete", "lws", play.manifest.name)
    view = play.until_empty()
    return [*verify_gone(view, play.older), verify_only_went(mirror.since(mark))]


ACTS: tuple[tuple[str, Callable[[Play], list[Check]]], ...] = (
    ("Create {groups} groups of {size} pods", create),
    ("A new image: rolling update, one group at a time", update),
    (f"A worker of group {VICTIM_GROUP} dies: its group is recreated as a whole, and no other", lose_worker),
    (f"Scale to {MORE_GROUPS} groups", scale),
    ("The manager is killed and restarted: nothing changes", restart_manager),
    ("Delete the set: nothing is left", delete),
)
"""Title and act of every step, in order. Titles may contain {groups} and {size} of the manifest."""


def _uids(pods: tuple[Pod, ...] | list[Pod]) -> frozenset[str]:
    return frozenset(pod.uid for pod in pods)


def verify_new(claim: str, before: Iterable[Pod], after: Collection[Pod]) -> Check:
    """Verify that none of the pods existed before."""
    uids = {pod.uid for pod in before}
    return none_of(claim, [pod.name for pod in after if pod.uid in uids], len(after))


def verify_kept(claim: str, before: Collection[Pod], after: Iterable[Pod]) -> Check:
    """Verify that all pods still exist as the same objects."""
    uids = {pod.uid for pod in after}
    return none_of(claim, [pod.name for pod in before if pod.uid not in uids], len(before))


def verify_untouched(before: View, after: View) -> list[Check]:
    """Verify that no object of the set was recreated, changed or even written."""
    checks = []
    for kind in CHILDREN:
        old, new = versions(before, kind), versions(after, kind)
        claim = f"{len(old)} {kind}s have the UID, generation and resourceVersion they had"
        if len(old) == 1:
            claim = f"1 {kind} has the UID, generation and resourceVersion it had"
        checks.append(same_members(claim, old, new))
    return checks


def verify_gone(view: View, older: Collection[str]) -> list[Check]:
    """Verify that of every followed kind only older objects are left, apart from Events, which stay."""
    checks = []
    for kind in (Kind.SET, Kind.POD, *CHILDREN):
        remaining = {obj["metadata"]["uid"]: obj["metadata"]["name"] for obj in view.objects[kind]}
        names = sorted(name for uid, name in remaining.items() if uid not in older)
        checks.append(equal(f"0 {kind}s are left", "none", ", ".join(names) or "none"))
    return checks


def versions(view: View, kind: Kind) -> list[str]:
    """Describe every object of a kind by what changes when it is replaced, edited or written."""
    return [
        f"{metadata['name']} {metadata['uid']} generation {metadata.get('generation', 0)}"
        f" version {metadata['resourceVersion']}"
        for metadata in (obj["metadata"] for obj in view.objects[kind])
    ]


def verify_least_ready(moments: Sequence[Moment], leaders: Mapping[str, str], least: int) -> Check:
    """Verify that at least `least` groups were ready at every moment."""
    counts = [sum(group.is_ready for group in groups_of(moment, leaders)) for moment in moments]
    lowest = min(counts)
    claim = f"at no time were fewer than {least} groups ready {_watched_states(moments)}"
    where = f"{lowest}, in state {counts.index(lowest) + 1} of {len(counts)}"
    return Check(claim, lowest >= least, f"at least {least}", where)


def verify_always_ready(
    moments: Sequence[Moment], leaders: Mapping[str, str], indices: Collection[int]
) -> Check:
    """Verify that these groups were ready at every moment."""
    missed = set[str]()
    for moment in moments:
        ready = {group.index for group in groups_of(moment, leaders) if group.is_ready}
        missed |= {f"group {index}" for index in indices if index not in ready}
    named = ", ".join(map(str, sorted(indices)))
    claim = f"groups {named} were ready all the time {_watched_states(moments)}"
    return none_of(claim, missed, len(indices))


def verify_only_went(moments: Sequence[Moment]) -> Check:
    """Verify that pods were deleted and none was created meanwhile."""
    uids = {pod.uid for pod in moments[0]}
    created = {pod.name for moment in moments for pod in moment if pod.uid not in uids}
    claim = f"{len(uids)} pods went, and not one was made meanwhile {_watched_states(moments)}"
    return none_of(claim, created, len(uids))


def verify_order(moments: Sequence[Moment], revision: str, expected: Sequence[int]) -> Check:
    """Verify that leaders of a revision appeared group by group, in this order."""
    order: list[int] = []
    for moment in moments:
        fresh = [pod.group for pod in moment if pod.is_leader and pod.revision == revision]
        order += sorted((index for index in fresh if index not in order), reverse=True)
    named = ", ".join(map(str, expected))
    return equal(f"groups moved to the new revision in the order {named}", list(expected), order)


def _watched_states(moments: Sequence[Moment]) -> str:
    return f"({len(moments)} state{'' if len(moments) == 1 else 's'} of the watch on pods)"


def verify_event(view: View, reason: str, about: str) -> Check:
    """Verify that an Event about the set has this reason and names its subject."""
    events = [
        event for event in view.objects[Kind.EVENT] if (event.get("regarding") or {}).get("kind") == Kind.SET
    ]
    notes = [str(event.get("note", "")) for event in events if event.get("reason") == reason]
    telling = next((note for note in notes if about in note), "")
    reasons = ", ".join(sorted({str(event.get("reason")) for event in events}))
    claim = f"an Event says why, {reason}: {telling}" if telling else f"an Event {reason} names {about}"
    return Check(claim, bool(telling), f"{reason} with {about}", f"{notes or f'only {reasons}'}")


def run_tour(scene: Scene, show: Show) -> Result:
    """Play every act, and stop after the first one with a failed check."""
    manifest = read_manifest(MANIFEST.read_text("utf-8"))
    objects = scene.mirror.fresh().objects
    older = frozenset(obj["metadata"]["uid"] for kind in Kind for obj in objects[kind])
    play = Play(scene, show, manifest, MANIFEST, older)
    steps = [
        (title.format(groups=manifest.replicas, size=manifest.size), partial(act, play))
        for title, act in ACTS
    ]
    return play_in(scene, show, steps, "the step can be played")


def play_in(
    scene: Scene, show: Show, steps: Iterable[tuple[str, Callable[[], list[Check]]]], claim: str
) -> Result:
    """Play steps. A step that cannot be completed counts as a failed check with this claim."""

    def attempt(act: Callable[[], list[Check]]) -> list[Check]:
        try:
            return act()
        except NotInTime as late:
            actual = summary(picture_of(late.view, datetime.now(UTC)))
            return [Check(late.condition, False, f"within {late.seconds:.0f} s", actual)]
        except (ApiError, CommandError, DeploymentError, LookupError) as error:
            return [Check(claim, False, "no error", str(error))]
        finally:
            show.wait_for("")

    result = play_steps(show, ((title, partial(attempt, act)) for title, act in steps))
    if result.failed:
        show.fail(f"the manager's last words:\n{scene.manager.last_words(_LAST_WORDS)}")
    return result

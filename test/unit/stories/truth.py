"""Count the groups that really serve, independently of caches, and check them against the floor.

An AssertionError is raised if a rollout takes more groups than it may. With late caches the manager may plan
on groups that are gone. It knows at once of its own deletions; deletions by the StatefulSet controller count
from the write that allows them. So the floor holds at every moment, in any order of news, as long as a
rollout is all that happens.

Nothing is claimed any more once something else takes groups (faults, scaling, another budget, lost
StatefulSets) or advances the clock: after a while the manager no longer waits for a silent StatefulSet
controller, or for a group that does not become ready.
"""

from __future__ import annotations

from lws.kube.metadata import controller_of, is_terminating
from lws.runtime.actions import Object
from lws_api.leaderworkerset.v1 import KIND
from test.unit.stories import promises
from test.unit.stories.fake_cluster import NAME, FakeCluster


class Floor:
    """The floor of one set. It claims nothing before all groups of the set have been ready."""

    def __init__(self, cluster: FakeCluster) -> None:
        self._cluster = cluster
        self._began = cluster.now
        self._is_claimed = False
        self._overdrawn = 0

    def claim(self) -> None:
        """Claim that nothing but rollouts takes groups from now on."""
        self._is_claimed = True

    def give_up(self) -> None:
        """Stop the claim: something else takes groups from now on."""
        self._is_claimed = False

    def change_mind(self) -> None:
        """Account for a change of template, in any state of the groups.

        One more group may go if a group below others that serve is missing, starting on the former template,
        or about to be replaced by it.
        """
        if not self._is_claimed:
            return
        spec = self._cluster.objects["StatefulSet", NAME]["spec"]
        partition = spec["updateStrategy"]["rollingUpdate"]["partition"]
        image = promises.revision_of(spec["template"])
        outdated = [
            leader
            for leader in _leaders(self._cluster)
            if _index(leader) >= partition and self._cluster.images[leader["metadata"]["uid"]] != image
        ]
        if outdated or len(ready_groups(self._cluster)) < spec["replicas"]:
            self._overdrawn += 1

    def check(self) -> None:
        """Check the floor and the ceiling, which hold at every instant."""
        if not self._is_claimed or self._cluster.now != self._began:
            return
        spec = self._lws["spec"]
        unavailable, surge = promises.limits(spec)
        ready, must_stay = ready_groups(self._cluster), spec["replicas"] - unavailable - self._overdrawn
        assert len(ready) >= must_stay, f"in truth {sorted(ready)} are ready, {must_stay} must be"
        groups, most = len(_leaders(self._cluster)), spec["replicas"] + surge
        assert groups <= most, f"in truth there are {groups} groups, {most} may be"

    @property
    def _lws(self) -> Object:
        return self._cluster.objects[KIND, NAME]


def ready_groups(cluster: FakeCluster) -> set[int]:
    """Return the indices of groups whose pods all exist, have one revision, are ready and are not
    terminating.
    """
    return {_index(leader) for leader in _leaders(cluster) if _serves(cluster, leader)}


def _leaders(cluster: FakeCluster) -> list[Object]:
    return [pod for pod in cluster.of_kind("Pod") if (controller_of(pod) or {}).get("name") == NAME]


def _index(leader: Object) -> int:
    return int(leader["metadata"]["name"].rpartition("-")[2])


def _serves(cluster: FakeCluster, leader: Object) -> bool:
    revision, name = cluster.images[leader["metadata"]["uid"]], leader["metadata"]["name"]
    names = [name, *(f"{name}-{worker}" for worker in range(1, promises.SIZES[revision]))]
    return all(_is_serving(cluster, cluster.find("Pod", name), revision) for name in names)


def _is_serving(cluster: FakeCluster, pod: Object | None, revision: str) -> bool:
    if pod is None or is_terminating(pod) or cluster.images[pod["metadata"]["uid"]] != revision:
        return False
    conditions = pod["status"].get("conditions", ())
    return pod["status"]["phase"] == "Running" and {"type": "Ready", "status": "True"} in conditions

"""Parts of the status of a LeaderWorkerSet: the state of its groups, records of rollout and prewarm."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from lws_api.meta import Int32, KubeModel


class RolloutPosition(KubeModel):
    """Position of a rollout after its last step."""

    revision: str = Field(default_factory=str)
    """ControllerRevision of groups at or above `partition`."""
    partition: Int32 = Field(default_factory=int)
    """Groups with an index below this number have not moved yet."""


class PrewarmProgress(KubeModel):
    """Progress of the prewarm Jobs of a rollout."""

    revision: str = Field(default_factory=str)
    """ControllerRevision that needs the images."""
    partition: Int32 = Field(default_factory=int)
    """Groups below this index are not prewarmed."""
    start_time: datetime | None = None
    """`deadlineSeconds` counts from here."""
    completion_time: datetime | None = None
    """When the rollout continued."""
    nodes: Int32 = Field(default_factory=int)
    """Nodes that need a Job."""
    ended: Int32 = Field(default_factory=int)
    """Nodes whose Job has ended."""
    results: dict[str, str] = Field(default_factory=dict)
    """How the Jobs ended, by the hash in their names: `Complete`, or why they failed. Their nodes get no
    further Job, even if other software deletes these.
    """


class UnsettledGroup(KubeModel):
    """A group that is not ready on the revision it should be on."""

    name: str = Field(default_factory=str)
    """Name of the group and of its leader pod."""
    state: str = Field(default_factory=str)
    """One of the keys of `counts`."""
    reason: str = Field(default_factory=str)
    """What the group waits for, or what is wrong with it."""


class GroupSummary(KubeModel):
    """State of the groups of a set."""

    counts: dict[str, Int32] = Field(default_factory=dict)
    """Groups in each state: Ready, Outdated (ready on another revision), NotReady, Broken (outdated and not
    ready), Terminating, Missing. States without groups are omitted.
    """
    unsettled: tuple[UnsettledGroup, ...] = Field(default_factory=tuple)
    """At most 10 groups that are not ready on the target revision, those with problems first."""

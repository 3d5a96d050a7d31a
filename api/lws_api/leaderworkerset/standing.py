"""How the groups of a set stand, as its status says it in parts of its own.

In: what the controller observed. Out: models of these parts.
"""

from __future__ import annotations

from pydantic import Field

from lws_api.meta import Int32, KubeModel


class RolloutPosition(KubeModel):
    """How far a rollout had come when it was last moved."""

    revision: str = Field(default_factory=str)
    """The name of the ControllerRevision that groups at or above `partition` move to."""
    partition: Int32 = Field(default_factory=int)
    """Groups with an index below this number have not been moved yet."""


class UnsettledGroup(KubeModel):
    """A group that is not ready on the revision it should be on."""

    name: str = Field(default_factory=str)
    """The name of the group, which is that of its leader pod."""
    state: str = Field(default_factory=str)
    """How it stands, as one of the words of `counts`."""
    reason: str = Field(default_factory=str)
    """What it waits for or what is wrong with it, in a few words."""


class GroupSummary(KubeModel):
    """How the groups of a set stand."""

    counts: dict[str, Int32] = Field(default_factory=dict)
    """How many groups are in each state: Ready, Outdated (ready on another revision), NotReady, Broken
    (outdated and not ready), Terminating, Missing. States that no group is in are left out.
    """
    unsettled: tuple[UnsettledGroup, ...] = Field(default_factory=tuple)
    """At most 10 of the groups that are not ready on the target revision, those in trouble first."""

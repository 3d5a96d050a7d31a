"""A world in which the set is a role of a DisaggregatedSet, and its user edits the latter."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from lws import timing
from lws.disaggregatedset.admission.validation import errors_in
from lws.kube.conditions import is_true
from lws.kube.metadata import labels_of
from lws_api.disaggregatedset.v1 import KIND, ROLE_LABEL
from lws_api.leaderworkerset.v1 import KIND as CHILD
from lws_api.leaderworkerset.v1 import NAME_LABEL, WORKER_INDEX_LABEL
from test.unit.disaggregated import make_disaggregated, make_role
from test.unit.stories.promises import revision_of
from test.unit.stories.standing import Standing
from test.unit.stories.world import World

_OWNER, _ROLE, _OTHER = "owner", "main", "other"


class RoleWorld(World):
    """A DisaggregatedSet with a role like the set of a `World`, and another role of one group."""

    # A group that may still become ready holds up the steps of a rollout.
    _patience = 2 * timing.GROUP_STARTS_WITHIN.total_seconds()

    @classmethod
    def _wrapped(cls, lws: dict[str, Any]) -> dict[str, Any]:
        roles = [{"name": _ROLE, "spec": lws["spec"]}, make_role(_OTHER, 1, image=_OTHER)]
        obj = make_disaggregated(_OWNER, roles)
        del obj["metadata"]["uid"]
        return obj

    @property
    def owner(self) -> dict[str, Any]:
        """The DisaggregatedSet as it is stored."""
        return self.cluster.objects[KIND, _OWNER]

    @property
    def lws(self) -> dict[str, Any]:
        children = [
            child
            for child in self.cluster.of_kind(CHILD)
            if labels_of(child).get(ROLE_LABEL) == _ROLE
            and revision_of(child["spec"]["leaderWorkerTemplate"]["workerTemplate"]) == self.revision
        ]
        return children[-1] if children else {"metadata": {"name": ""}, "spec": self.spec}

    @property
    def spec(self) -> dict[str, Any]:
        spec: dict[str, Any] = self._role["spec"]
        return spec

    @property
    def annotations(self) -> Mapping[str, str]:
        annotations: Mapping[str, str] = (self._role.get("metadata") or {}).get("annotations") or {}
        return annotations

    @property
    def _role(self) -> dict[str, Any]:
        role: dict[str, Any] = self.owner["spec"]["roles"][0]
        return role

    @property
    def is_paused(self) -> bool:
        return bool((self.owner["spec"].get("rolloutStrategy") or {}).get("paused"))

    def pause(self, is_paused: bool) -> None:
        self._store({**self.owner["spec"], "rolloutStrategy": {"paused": is_paused}})

    def lose_set(self, number: int) -> None:
        """Delete a child of the role, as a cleaner of old objects does."""
        children = [child for child in self.cluster.of_kind(CHILD) if labels_of(child)[ROLE_LABEL] == _ROLE]
        if children:
            self.cluster.request_deletion(children[number % len(children)])

    def _edit(self, **spec: Any) -> None:
        changed = {name: value for name, value in {**self.spec, **spec}.items() if value is not None}
        self._change_role({**self._role, "spec": changed})

    def _annotate(self, name: str, value: str) -> None:
        annotations = {**self.annotations, name: value}
        self._change_role({**self._role, "metadata": {"annotations": annotations}})

    def _change_role(self, role: dict[str, Any]) -> None:
        self._store({**self.owner["spec"], "roles": [role, *self.owner["spec"]["roles"][1:]]})

    def _store(self, spec: dict[str, Any]) -> None:
        new = copy.deepcopy({**self.owner, "spec": spec})
        if errors := errors_in(new, self.owner):
            self.refused += map(str, errors)
        else:
            self.cluster.change(self.owner, spec=new["spec"])
        self._edited()

    @property
    def _surge(self) -> int:
        # The default of a role.
        return max(super()._surge, 1)

    def _members(self) -> list[dict[str, Any]]:
        """Return the leaders of the role, and all pods of its children that are gone."""
        members = []
        for pod in self.cluster.of_kind("Pod"):
            child, is_first = labels_of(pod)[NAME_LABEL], labels_of(pod)[WORKER_INDEX_LABEL] == "0"
            if child.endswith(f"-{_ROLE}") and (is_first or self.cluster.find(CHILD, child) is None):
                members.append(pod)
        return members

    def _is_wanted(self, pod: Any) -> bool:
        return self.cluster.images[pod["metadata"]["uid"]] in (self.revision, _OTHER)

    def _check_end(self) -> None:
        conditions = (self.owner.get("status") or {}).get("conditions")
        assert is_true(conditions, "Available") and not is_true(conditions, "Progressing"), self.picture
        standings = list(self.reader.standings())
        assert len(standings) == 2, self.picture
        assert all(standing.is_available for standing in standings), self.picture
        assert Standing(self.cluster, self.lws["metadata"]["name"]).replicas == self.spec["replicas"]
        # Records of a DisaggregatedSet on its children wake no pass: the next one copies them.
        self.manager.resync()
        self._catch_up()
        self._check_rest()

"""Do the roles of two target states mean the same?

In: roles by name, each with the spec of its LeaderWorkerSets as anyone spelled it. Out: forms that are equal
where no pod would differ. The order of roles is of no account, and neither is what rolls no pod.
"""

from __future__ import annotations

from collections.abc import Mapping

from lws.actions import Object
from lws.leaderworkerset.revisions.encoding import equality_form


def roles_form(roles: Mapping[str, Object]) -> dict[str, str]:
    """The form of each role."""
    return {name: role_form(spec) for name, spec in roles.items()}


def role_form(spec: Object) -> str:
    """Equal for two specs if and only if the API server would store equal templates for both."""
    return equality_form({"leaderWorkerTemplate": spec.get("leaderWorkerTemplate")})

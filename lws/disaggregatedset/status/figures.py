"""Numbers of a DisaggregatedSet for metrics, and the names that passes and series use for them."""

from __future__ import annotations

from collections.abc import Mapping

from lws.disaggregatedset.status.status import DisaggregatedStatus
from lws.runtime.figures import ROLLING, Figures
from lws_api.disaggregatedset.v1 import KIND

DESIRED, EXISTING, READY, UPDATED, STUCK = "desired", "existing", "ready", "updated", "stalled"


def figures_of(
    name: str, revision: str, desired: Mapping[str, int | None], status: DisaggregatedStatus, is_rolling: bool
) -> Figures:
    """How a set stands. revision: the name of the wanted one. desired: by role, None where nobody says."""
    numbers: dict[tuple[str, str], float] = {(ROLLING, ""): is_rolling, (STUCK, ""): status.is_stalled}
    for role in status.roles:
        numbers[DESIRED, role.name] = desired.get(role.name) or 0
        numbers[EXISTING, role.name] = role.existing
        numbers[READY, role.name] = role.ready
        numbers[UPDATED, role.name] = role.updated
    return Figures(KIND, name, numbers, revision)

"""Which schedulers can place groups as a whole?

In: the name that the configuration has for one. Out: its provider.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from lws.group.gang.coscheduling import Coscheduling
from lws.group.gang.kubernetes import Kubernetes
from lws.group.gang.provider import GangProvider
from lws.group.gang.volcano import Volcano

PROVIDERS: Mapping[str, GangProvider] = MappingProxyType(
    {"volcano": Volcano(), "scheduler-plugins": Coscheduling(), "kubernetes": Kubernetes()}
)
"""By `gangSchedulingManagement.schedulerProvider`."""

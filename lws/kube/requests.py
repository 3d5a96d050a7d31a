"""Sum the resources that a pod requests, as schedulers count them.

In: pod specs as plain JSON data, without the defaults of the API server. Out: quantities by resource.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lws.kube.quantities import Quantity, parse

Requests = Mapping[str, Quantity]
"""Resource → how much of it."""

_OF_PODS = ("cpu", "memory")
_HUGE_PAGES = "hugepages-"


def of_pod(pod: Mapping[str, Any]) -> Requests:
    """What a pod with this spec needs at its neediest moment, overhead included (Kubernetes scheduler).

    Limits stand in for requests that are missing, as the API server would have it. Sidecars run beside
    everything that starts after them; other init containers run before the containers.
    """
    running: Requests = {}
    neediest: Requests = {}
    for container in pod.get("initContainers") or ():
        asked = _of(container.get("resources"))
        if container.get("restartPolicy") == "Always":
            running = total([running, asked])
            neediest = _highest(neediest, running)
        else:
            neediest = _highest(neediest, total([running, asked]))
    everything = total([running, *(_of(each.get("resources")) for each in pod.get("containers") or ())])
    needed = _highest(everything, neediest)
    whole = _of(pod.get("resources"))
    overriding = {name: amount for name, amount in whole.items() if _is_of_pods(name)}
    return total([{**needed, **overriding}, _quantities(pod.get("overhead"))])


def total(each: Iterable[Requests]) -> Requests:
    """The sum by resource, in the notation of the first that has one."""
    sums: dict[str, Quantity] = {}
    for requests in each:
        for name, amount in requests.items():
            sums[name] = sums[name].plus(amount) if name in sums else amount
    return sums


def of_many(each: Requests, count: int) -> Requests:
    """What `count` pods need that each need the same. A set may ask for two billion of them."""
    return {name: amount.times(count) for name, amount in each.items()} if count > 0 else {}


def _of(resources: Mapping[str, Any] | None) -> Requests:
    resources = resources or {}
    return {**_quantities(resources.get("limits")), **_quantities(resources.get("requests"))}


def _quantities(amounts: Mapping[str, Any] | None) -> dict[str, Quantity]:
    return {name: parse(amount) for name, amount in (amounts or {}).items()}


def _highest(one: Requests, two: Requests) -> Requests:
    return {
        name: max(amounts)
        for name in {**one, **two}
        if (amounts := [each[name] for each in (one, two) if name in each])
    }


def _is_of_pods(resource: str) -> bool:
    return resource in _OF_PODS or resource.startswith(_HUGE_PAGES)

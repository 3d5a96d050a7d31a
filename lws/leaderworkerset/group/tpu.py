"""Compute the environment of containers that use TPUs, by which libtpu finds the other hosts of its slice.

In: pod specs as plain JSON data, the pods of one slice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lws.kube.quantities import parse

RESOURCE = "google.com/tpu"
HOSTNAMES_ENV = "TPU_WORKER_HOSTNAMES"
WORKER_ID_ENV = "TPU_WORKER_ID"
NAME_ENV = "TPU_NAME"
ADDRESSES_ENV = "TPU_PROCESS_ADDRESSES"
PORT_ENV = "TPU_PROCESS_PORT"

MOST_PODS = 10_000
"""Every pod of a group with TPUs names all others: what is longer does not fit into a pod."""

_MOST_ADDRESSES = 4 * MOST_PODS
# No pod with more of them could be stored.
_FIRST_PORT = 8476


@dataclass(frozen=True, slots=True)
class Slice:
    """Pods whose TPUs work together, each with the same number of TPU containers.

    leader: name of the leader pod, which gives the slice its name. subdomain: of all pods. pods: their places
    in the group in order, 0 for the leader.
    """

    leader: str
    subdomain: str
    pods: Sequence[int]

    @property
    def hosts(self) -> list[str]:
        """Host names, in order."""
        names = (self.leader if place == 0 else f"{self.leader}-{place}" for place in self.pods)
        return [f"{name}.{self.subdomain}" for name in names]


def tpu_containers(pod: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The containers of a pod spec that use TPUs: containers first, then init containers.

    Init containers that end before the others start take part only where nothing else uses TPUs.
    """
    starting = [container for container in _objects(pod.get("initContainers")) if _requests_tpus(container)]
    lasting = [each for each in starting if each.get("restartPolicy") == "Always"]
    running = [obj for obj in _objects(pod.get("containers")) if _requests_tpus(obj)]
    return [*running, *lasting] or starting


def is_configured(containers: Sequence[Mapping[str, Any]]) -> bool:
    """Report whether the user has set the TPU variables: then they are not added."""
    return any(entry.get("name") in (HOSTNAMES_ENV, WORKER_ID_ENV) for entry in _environment(containers[0]))


def ports_of(containers: Sequence[Mapping[str, Any]]) -> list[str]:
    """The port of each TPU container, as text for its environment; empty where a port is known only inside of
    one container, and others would need it, as in the original.
    """
    ports = []
    for place, container in enumerate(containers):
        own = next((each for each in _environment(container) if each.get("name") == PORT_ENV), None)
        if own is None:
            ports.append(str(_FIRST_PORT + place))
        elif own.get("valueFrom") is None:
            ports.append(str(own.get("value") or ""))
        else:
            # Alone, the kubelet puts the value in: the variable comes before those that refer to it.
            ports.append(f"$({PORT_ENV})" if len(containers) == 1 else "")
    return ports


def variables(slice: Slice, pod: int, containers: Sequence[Mapping[str, Any]]) -> list[list[dict[str, Any]]]:
    """The variables of each TPU container of a pod, in order, after its own environment.

    pod: its place in the group. Raises ValueError where it is not in the slice.
    """
    if pod not in slice.pods:
        raise ValueError(f"pod {pod} of the group is none of the pods of its TPU slice")
    count, ports = len(containers), ports_of(containers)
    if count * count * len(slice.pods) > _MOST_ADDRESSES:
        raise ValueError(f"{count} containers with TPUs are told of {count * len(slice.pods)} each: too many")
    hosts = [host for host in slice.hosts for _ in containers]
    addresses = [f"{host}:{ports[place % count]}" for place, host in enumerate(hosts)]
    first = slice.pods.index(pod) * count
    all_hosts, all_addresses = ",".join(hosts), ",".join(addresses)
    found = []
    for place, container in enumerate(containers):
        values = {
            HOSTNAMES_ENV: all_hosts,
            WORKER_ID_ENV: str(first + place),
            NAME_ENV: slice.leader,
            ADDRESSES_ENV: all_addresses,
        }
        if not any(entry.get("name") == PORT_ENV for entry in _environment(container)):
            values[PORT_ENV] = ports[place]
        found.append([{"name": name, "value": value} for name, value in values.items()])
    return found


def _requests_tpus(container: Mapping[str, Any]) -> bool:
    resources = container.get("resources")
    if not isinstance(resources, Mapping):
        return False
    return any(_is_some(resources.get(kind)) for kind in ("limits", "requests"))


def _is_some(amounts: Any) -> bool:
    amount = amounts.get(RESOURCE) if isinstance(amounts, Mapping) else None
    if not isinstance(amount, str | int | float):
        return False
    try:
        return parse(amount).mantissa != 0
    except ValueError:
        return False


def _environment(container: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    return _objects(container.get("env"))


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    return (each for each in value or () if isinstance(each, dict)) if isinstance(value, list) else iter(())

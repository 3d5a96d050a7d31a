"""Compute the environment by which libtpu finds the other hosts of its TPU slice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lws.kube.metadata import mappings_in
from lws.kube.quantities import parse

RESOURCE = "google.com/tpu"
HOSTNAMES_ENV = "TPU_WORKER_HOSTNAMES"
WORKER_ID_ENV = "TPU_WORKER_ID"
NAME_ENV = "TPU_NAME"
ADDRESSES_ENV = "TPU_PROCESS_ADDRESSES"
PORT_ENV = "TPU_PROCESS_PORT"

MOST_PODS = 10_000
"""The maximum number of pods of a group with TPUs.

Every pod of such a group names all others, and more names do not fit into a pod.
"""

# A pod with more or longer addresses would be too large to store.
_MOST_ADDRESSES, _MOST_BYTES = 4 * MOST_PODS, 1536 * 1024
_FIRST_PORT = 8476


def tpu_containers(pod: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the containers of a pod spec that use TPUs: containers first, then init containers. Init
    containers that end before the others start are included only if no other container uses TPUs.
    """
    init = [container for container in mappings_in(pod.get("initContainers")) if _requests_tpus(container)]
    sidecars = [container for container in init if container.get("restartPolicy") == "Always"]
    running = [container for container in mappings_in(pod.get("containers")) if _requests_tpus(container)]
    return [*running, *sidecars] or init


def is_configured(containers: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether the user has set the TPU variables; if so, they are not added."""
    environment = mappings_in(containers[0].get("env"))
    return any(entry.get("name") in (HOSTNAMES_ENV, WORKER_ID_ENV) for entry in environment)


def ports_of(containers: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the port of each TPU container, as text for its environment. As in upstream, a port is empty if
    only the container itself knows it and other containers need it.
    """
    ports = []
    for index, container in enumerate(containers):
        environment = mappings_in(container.get("env"))
        variable = next((env for env in environment if env.get("name") == PORT_ENV), None)
        if variable is None:
            ports.append(str(_FIRST_PORT + index))
        elif variable.get("valueFrom") is None:
            ports.append(str(variable.get("value") or ""))
        else:
            # The kubelet expands the variable within the container's own environment, where it precedes the
            # variables that refer to it.
            ports.append(f"$({PORT_ENV})" if len(containers) == 1 else "")
    return ports


def variables(
    leader: str, subdomain: str, pods: Sequence[int], pod: int, containers: Sequence[Mapping[str, Any]]
) -> list[list[dict[str, Any]]]:
    """Return the variables of each TPU container of a pod, in order, to append to its environment. Raises
    ValueError if the pod is not in its slice, or if a pod would need too many addresses.
    leader: the name of the leader pod and of the slice. subdomain: the subdomain of all pods. pods: the
    indices in the group of the pods whose TPUs work together, in order; 0 is the leader. pod: the index of
    the pod. containers: its TPU containers; all pods of a slice have the same number.
    """
    if pod not in pods:
        raise ValueError(f"pod {pod} of the group is not in its TPU slice")
    count, ports = len(containers), ports_of(containers)
    if count * count * len(pods) > _MOST_ADDRESSES:
        raise ValueError(f"{count} containers with TPUs need {count * len(pods)} addresses each: too many")
    longest = len(f"{leader}-{MOST_PODS}.{subdomain}:{max(ports, key=len)}")
    if count * count * len(pods) * longest > _MOST_BYTES:
        raise ValueError(f"{count * len(pods)} addresses of {longest} characters are too long")
    names = (leader if index == 0 else f"{leader}-{index}" for index in pods)
    hosts = [f"{name}.{subdomain}" for name in names for _ in containers]
    addresses = [f"{host}:{ports[index % count]}" for index, host in enumerate(hosts)]
    first = pods.index(pod) * count
    all_hosts, all_addresses = ",".join(hosts), ",".join(addresses)
    environments = []
    for index, container in enumerate(containers):
        values = {
            HOSTNAMES_ENV: all_hosts,
            WORKER_ID_ENV: str(first + index),
            NAME_ENV: leader,
            ADDRESSES_ENV: all_addresses,
        }
        if not any(entry.get("name") == PORT_ENV for entry in mappings_in(container.get("env"))):
            values[PORT_ENV] = ports[index]
        environments.append([{"name": name, "value": value} for name, value in values.items()])
    return environments


def _requests_tpus(container: Mapping[str, Any]) -> bool:
    resources = container.get("resources")
    if not isinstance(resources, Mapping):
        return False
    return any(_is_nonzero(resources.get(kind)) for kind in ("limits", "requests"))


def _is_nonzero(amounts: Any) -> bool:
    amount = amounts.get(RESOURCE) if isinstance(amounts, Mapping) else None
    if not isinstance(amount, str | int | float):
        return False
    try:
        return parse(amount).mantissa != 0
    except ValueError:
        return False

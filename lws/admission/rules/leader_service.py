"""Can a set have the Service of its leaders that it asks for?

In: a set with values of the right types. Out: errors; of the Service itself they would be told too late.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from lws.admission.errors import FieldError, invalid, required
from lws.kube.names import dns1123_label_errors
from lws.leaderworkerset import fields

_PORTS = str(fields.LEADER_SERVICE.field("ports"))
_PORT_NAME = re.compile(r"(?=.*[a-z])[a-z0-9]+(-[a-z0-9]+)*")


def leader_service_errors(raw: Mapping[str, Any]) -> list[FieldError]:
    """Ports that no Service can have, or none at all."""
    service = fields.LEADER_SERVICE.of(raw)
    if not isinstance(service, Mapping):
        return []
    asked = service.get("ports")
    ports = [each for each in asked if isinstance(each, Mapping)] if isinstance(asked, list) else []
    if not ports and not _declares_ports(raw):
        why = "no container of the leader template declares a port: say which ones clients reach leaders by"
        return [required(_PORTS, why)]
    errors: list[FieldError] = []
    names: set[str] = set()
    # As text: what is stored may be anything.
    numbers: set[tuple[str, str]] = set()
    for place, port in enumerate(ports):
        path, number = f"{_PORTS}[{place}]", port.get("port")
        errors += _name_errors(f"{path}.name", port.get("name"), names, len(ports))
        errors += _target_errors(f"{path}.targetPort", port.get("targetPort"))
        identity = (str(number), str(port.get("protocol") or "TCP"))
        if identity in numbers:
            errors.append(invalid(f"{path}.port", number, "is there already: list each port once"))
        numbers.add(identity)
    return errors


def _declares_ports(raw: Mapping[str, Any]) -> bool:
    template = fields.LEADER_TEMPLATE.of(raw) or fields.WORKER_TEMPLATE.of(raw)
    containers = fields.value_at(template, ("spec", "containers")) if isinstance(template, Mapping) else None
    listed = containers if isinstance(containers, list) else ()
    return any(isinstance(each, Mapping) and each.get("ports") for each in listed)


def _name_errors(path: str, name: Any, seen: set[str], count: int) -> list[FieldError]:
    if not name:
        return [required(path, "several ports are told apart by their names")] if count > 1 else []
    if str(name) in seen:
        return [invalid(path, name, "is the name of another port: choose one for each")]
    seen.add(str(name))
    return [invalid(path, name, why) for why in dns1123_label_errors(str(name))]


def _target_errors(path: str, target: Any) -> list[FieldError]:
    if target is None or (isinstance(target, int) and 1 <= target <= 65535):
        return []
    if isinstance(target, str) and len(target) <= 15 and _PORT_NAME.fullmatch(target):
        return []
    why = "must be a number from 1 to 65535, or the name of a port of a container"
    return [invalid(path, target, why)]

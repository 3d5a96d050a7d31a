"""Answers: is the product installed, and does the cluster use it?

In: objects of the chart as the API server has them. Out: checks. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from lws_api.leaderworkerset.v1 import API_VERSION
from tools.demo.check import Check, equal, none_of
from tools.demo.facts import Object
from tools.demo.record import Kind, View


def holder(view: View) -> str:
    """Which manager holds the Lease; empty for none."""
    holders = (str(each["spec"].get("holderIdentity") or "") for each in view.objects[Kind.LEASE])
    return next((each for each in holders if each), "")


def verify_definition(definition: Object) -> Check:
    """The CustomResourceDefinition is served in the version that the demo uses."""
    conditions = definition.get("status", {}).get("conditions") or ()
    spec = definition["spec"]
    served = {f"{spec['group']}/{each['name']}" for each in spec["versions"] if each["served"]}
    established = any(each["type"] == "Established" and each["status"] == "True" for each in conditions)
    claim = f"the API server serves {API_VERSION} LeaderWorkerSet"
    return equal(claim, (True, True), (established, API_VERSION in served))


def verify_webhooks(configurations: Sequence[Object], port: int) -> Check:
    """Every webhook calls the manager and trusts the certificate that the manager has made."""
    entries = [each for configuration in configurations for each in configuration["webhooks"]]
    astray = [
        str(each["name"])
        for each in entries
        if f":{port}/" not in each["clientConfig"].get("url", "") or "caBundle" not in each["clientConfig"]
    ]
    claim = f"{len(entries)} webhooks call the manager and trust the certificate that it has made"
    return none_of(claim, astray, len(entries))

"""Answers: how often has a manager looked at sets and groups since it was started?

In: its metrics endpoint and a token that may read it. Out: passes by controller.
"""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Mapping

from prometheus_client.parser import text_string_to_metric_families

_SERIES = "controller_runtime_reconcile_total"


def passes_in(text: str) -> Mapping[str, int]:
    """Passes that succeeded, by controller, in metrics in the Prometheus text format. Pure."""
    counted: Counter[str] = Counter()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == _SERIES and sample.labels.get("result") != "error":
                counted[sample.labels["controller"]] += int(sample.value)
    return counted


def read_passes(port: int, token: str) -> Mapping[str, int]:
    """The passes of the manager whose metrics are at this port of the host; none while it does not answer."""
    request = urllib.request.Request(
        f"https://127.0.0.1:{port}/metrics", headers={"Authorization": f"Bearer {token}"}
    )
    # The certificate is one that the manager made for itself, for scrapers inside a cluster.
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    try:
        with urllib.request.urlopen(request, timeout=2, context=trusting) as answer:
            return passes_in(answer.read().decode())
    except urllib.error.HTTPError as refusal:
        refusal.close()
        return {}
    except OSError:
        return {}

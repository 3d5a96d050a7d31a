"""Measure the CPU time that the review of one pod costs the manager, as a whole and by parts.

The pod is a worker as the API server sends it for review. The figures are medians of thousands of reviews, in
microseconds: whole reviews by HTTPS from another process, through our dispatcher and through kopf's own; and
the parts of a review.

    python -m test.bench.review_cost
"""

from __future__ import annotations

import asyncio
import base64
import functools
import logging
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import kopf
import orjson
import uvloop
from kopf._cogs.structs.references import Insights
from kopf._core.engines.admission import serve_admission_request
from kopf._core.reactor.inventory import ResourceMemories

from lws.config import TlsSettings, load
from lws.leaderworkerset.admission import pod
from lws.leaderworkerset.registration import ENDPOINTS, MUTATE_POD, handlers
from lws.leaderworkerset.tables import TABLES
from lws.runtime.actions import Object
from lws.runtime.certificates.serving_certificate import Certificates, renewed
from lws.runtime.client.connection import Cluster
from lws.runtime.client.resources import PODS
from lws.runtime.endpoints.metrics import Metrics
from lws.runtime.endpoints.server_tls import ServerTls
from lws.runtime.store import Store
from lws.runtime.webhooks.handlers import patch_of, register
from lws.runtime.webhooks.server import AdmissionServer, Dispatcher, review_in, reviewed
from test.unit.builders import make_worker_pod

_ROUNDS, _REVIEWS, _WARM = 7, 2000, 300
_CALLER = """
import http.client, ssl, sys
caller = http.client.HTTPSConnection("127.0.0.1", int(sys.argv[1]), context=ssl._create_unverified_context())
body, headers = sys.stdin.buffer.read(), {"Content-Type": "application/json", "Accept": "*/*"}
for _ in range(int(sys.argv[2])):
    caller.request("POST", sys.argv[3], body, headers)
    answer = caller.getresponse()
    assert b'"allowed":true' in answer.read()
"""


def a_review() -> bytes:
    """Return the review of a worker, with the fields that the API server adds before it calls webhooks."""
    pod = make_worker_pod()
    fields = {"manager": "kube-controller-manager", "operation": "Update", "fieldsV1": _fields(pod)}
    pod["metadata"]["managedFields"] = [fields]
    token = {
        "name": "kube-api-access",
        "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]},
    }
    mount = {"name": "kube-api-access", "readOnly": True, "mountPath": "/var/run/secrets/kubernetes.io"}
    container = {
        "name": "server",
        "image": "server:1",
        "resources": {},
        "volumeMounts": [mount],
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }
    taints = ("not-ready", "unreachable")
    pod["spec"] = {
        "volumes": [token],
        "containers": [container],
        "restartPolicy": "Always",
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "default",
        "securityContext": {},
        "hostname": pod["metadata"]["name"],
        "subdomain": "demo",
        "schedulerName": "default-scheduler",
        "tolerations": [
            {"key": f"node.kubernetes.io/{taint}", "operator": "Exists", "tolerationSeconds": 300}
            for taint in taints
        ],
        "priority": 0,
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
    }
    pod["status"] = {}
    request = {
        "uid": "b2f2bf0c-87e7-4d4c-a5d6-0d3a2aa7f3f5",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "name": pod["metadata"]["name"],
        "namespace": pod["metadata"]["namespace"],
        "operation": "CREATE",
        "userInfo": {"username": "system:serviceaccount:kube-system:statefulset-controller"},
        "object": pod,
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    }
    review = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}
    return orjson.dumps(review)


def _fields(obj: Any) -> Any:
    return {f"f:{key}": _fields(value) for key, value in obj.items()} if isinstance(obj, dict) else {}


class _Cost:
    """Our dispatcher and kopf's function over one registry, and the review for both."""

    def __init__(self) -> None:
        registry = kopf.OperatorRegistry()
        settings = load(None, {}, {}, namespace_file=Path("there-is-none"))
        store = Store(lambda before, after: None, TABLES)
        register(registry, ENDPOINTS, handlers(settings, store, cast(Cluster, None)))
        insights = Insights()
        insights.webhook_resources.add(kopf.Resource("", "v1", "pods", kind="Pod"))
        own: Any = functools.partial(
            serve_admission_request,
            settings=kopf.OperatorSettings(),
            memories=ResourceMemories(),
            memobase=kopf.Memo(),
            registry=registry,
            insights=insights,
            indices={},
        )
        self.ways: dict[str, Any] = {"our dispatcher": Dispatcher(registry), "kopf's own function": own}
        self.body = a_review()

    def parts(self, run: Callable[[Awaitable[float]], float]) -> dict[str, float]:
        """Measure the parts, without the network."""
        review = review_in(self.body, PODS)
        obj = review["request"]["object"]
        patch = patch_of(obj, [_admitted])
        assert patch, "a pod that gets nothing costs nothing"
        costs = {
            "JSON of the request, checked": _median(lambda: review_in(self.body, PODS)),
            "decision and its patch": _median(lambda: patch_of(obj, [_admitted])),
            "JSON of the patch": _median(lambda: base64.b64encode(orjson.dumps(patch))),
        }
        for name, handler in self.ways.items():
            answered = functools.partial(reviewed, handler, MUTATE_POD, PODS, self.body)
            costs[f"all of that, by {name}"] = run(_awaited(answered))
        return costs

    async def complete_review(self) -> dict[str, float]:
        """Measure with HTTP, TLS and metrics.

        The two take turns, so that other work on the machine affects both equally.
        """
        renewal = renewed(Certificates(), ("127.0.0.1",), datetime.now(UTC))
        assert renewal is not None
        seconds_by_name: dict[str, list[float]] = {name: [] for name in self.ways}
        for round_ in range(_ROUNDS):
            for name, handler in self.ways.items():
                spent = await self._served(renewal[0], handler)
                if round_:
                    seconds_by_name[name].append(spent)
        return {name: statistics.median(samples) for name, samples in seconds_by_name.items()}

    async def _served(self, certificates: Certificates, handler: Any) -> float:
        tls, metrics = ServerTls(TlsSettings()), Metrics()
        tls.install(certificates.server.certificate, certificates.server.key)
        server = AdmissionServer("127.0.0.1", 0, ENDPOINTS, tls, metrics.reviews)
        metrics.reviews.serve(ENDPOINTS, server.in_flight)
        serving = asyncio.create_task(server.run())
        async with aclosing(server(handler)) as opened:
            await anext(opened)
            await self._call(server.port or 0, _WARM)
            began = time.thread_time()
            await self._call(server.port or 0, _REVIEWS)
            spent = time.thread_time() - began
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        return 1e6 * spent / _REVIEWS

    async def _call(self, port: int, times: int) -> None:
        command = [sys.executable, "-c", _CALLER, str(port), str(times), f"/{MUTATE_POD}"]
        caller = await asyncio.create_subprocess_exec(*command, stdin=asyncio.subprocess.PIPE)
        await caller.communicate(self.body)
        assert caller.returncode == 0


def _admitted(raw: Object) -> Object:
    copy = pod.copy_to_admit(raw)
    pod.admit(copy, "default")
    return copy


def _median(act: Callable[[], object]) -> float:
    return statistics.median(_timed(act) for _ in range(_REVIEWS))


def _timed(act: Callable[[], object]) -> float:
    began = time.thread_time_ns()
    act()
    return (time.thread_time_ns() - began) / 1000


async def _awaited(act: Callable[[], Awaitable[object]]) -> float:
    microseconds = []
    for _ in range(_REVIEWS):
        began = time.thread_time_ns()
        await act()
        microseconds.append((time.thread_time_ns() - began) / 1000)
    return statistics.median(microseconds)


def main() -> int:
    """Measure and print the figures."""
    # The same level as in a manager.
    logging.getLogger("kopf").setLevel(logging.WARNING)
    cost = _Cost()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        parts = cost.parts(runner.run)  # type: ignore[arg-type]
        reviews = runner.run(cost.complete_review())
    for name, spent in parts.items():
        print(f"{spent:5.0f} µs  {name}")
    for name, spent in reviews.items():
        print(f"{spent:5.0f} µs  a whole review by HTTPS, by {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

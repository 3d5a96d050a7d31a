"""Run beside the head of a Ray cluster: answer HTTP requests with a task on every node of the cluster."""

from __future__ import annotations

import json
import os
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

POLL_SECONDS = 0.2


@ray.remote(num_cpus=0)
def hostname() -> str:
    """Return the host name of the node that runs this task."""
    return os.uname().nodename


def nodes() -> list[str]:
    """Return the ids of the live nodes."""
    return [node["NodeID"] for node in ray.nodes() if node["Alive"]]


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        strategies = [NodeAffinitySchedulingStrategy(node, soft=False) for node in nodes()]
        hosts = ray.get([hostname.options(scheduling_strategy=strategy).remote() for strategy in strategies])
        answer = json.dumps({"hosts": hosts, "revision": os.environ["REVISION"]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *arguments: object) -> None:
        pass


ray.init(address="auto")
while len(nodes()) < int(os.environ["LWS_GROUP_SIZE"]):
    time.sleep(POLL_SECONDS)
HTTPServer(("", 8080), Handler).serve_forever()

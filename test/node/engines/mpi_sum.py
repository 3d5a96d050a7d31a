"""Run in every pod of a group, started by mpirun: answer HTTP requests with an all-reduce over all ranks."""

from __future__ import annotations

import json
import os
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

from mpi4py import MPI

WORLD = MPI.COMM_WORLD
PAUSE_SECONDS = 0.002


def reduced() -> dict[str, object]:
    """Return the result of all ranks; every rank has to call this at the same time."""
    total = WORLD.allreduce(WORLD.rank + 1)
    return {"total": total, "hosts": WORLD.allgather(MPI.Get_processor_name())}


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        for rank in range(1, WORLD.size):
            WORLD.send(None, rank)
        answer = json.dumps({**reduced(), "revision": os.environ["REVISION"]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *arguments: object) -> None:
        pass


if WORLD.rank == 0:
    HTTPServer(("", 8080), Handler).serve_forever()
while True:
    # A blocking call of Open MPI uses a whole CPU.
    while not WORLD.iprobe(source=0):
        time.sleep(PAUSE_SECONDS)
    WORLD.recv(source=0)
    reduced()

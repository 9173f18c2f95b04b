"""The simulator with one block: memory, a full node list, the way of a change to a watcher.

Prints one JSON line. Ratios compare two things of the same run: the list with a parse of the same bytes, the
watch with a plain request.
"""

from __future__ import annotations

import http.client
import json
import resource
import ssl
import statistics
import threading
import time
from pathlib import Path

import orjson

from tpuctl.sim import simulator

ROUNDS = 7


def connection(running: simulator.Simulator) -> http.client.HTTPConnection:
    host = running.url.partition("://")[2]
    if running.url.startswith("https"):
        return http.client.HTTPSConnection(host, context=ssl._create_unverified_context())
    return http.client.HTTPConnection(host)


def main() -> None:
    before_kib = resident_kib()
    settings = simulator.Settings(cubes=144, ready_cubes=144, slice_controller=True)
    started_s = time.perf_counter()
    with simulator.Simulator(settings) as running:
        start_s = time.perf_counter() - started_s
        headers = {"Authorization": f"Bearer {running.token}"}
        memory_mib = (resident_kib() - before_kib) / 1024
        list_s, body = timed_list(running, headers)
        parse_s = min(timed(lambda: orjson.loads(body)) for _ in range(ROUNDS))
        small_s = min(timed_request(running, headers) for _ in range(ROUNDS))
        latency_s = statistics.median(watch_latency(running, headers, turn) for turn in range(ROUNDS))
    print(
        json.dumps(
            {
                "nodes": len(orjson.loads(body)["items"]),
                "start_s": round(start_s, 2),
                "memory_mib": round(memory_mib, 1),
                "list_mb": round(len(body) / 1e6, 1),
                "list_s": round(list_s, 4),
                "list_to_parse_ratio": round(list_s / parse_s, 2),
                "watch_latency_s": round(latency_s, 4),
                "watch_to_request_ratio": round(latency_s / small_s, 2),
            }
        )
    )


def resident_kib() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def timed(call: object) -> float:
    started_s = time.perf_counter()
    call()
    return time.perf_counter() - started_s


def timed_list(running: simulator.Simulator, headers: dict[str, str]) -> tuple[float, bytes]:
    times, body = [], b""
    for _ in range(ROUNDS):
        link = connection(running)
        started_s = time.perf_counter()
        link.request("GET", "/api/v1/nodes", headers=headers)
        body = link.getresponse().read()
        times.append(time.perf_counter() - started_s)
        link.close()
    return min(times), body


def timed_request(running: simulator.Simulator, headers: dict[str, str]) -> float:
    link = connection(running)
    link.connect()

    def ask() -> None:
        link.request("GET", "/api/v1/namespaces/default", headers=headers)
        link.getresponse().read()

    ask()
    taken_s = timed(ask)
    link.close()
    return taken_s


def watch_latency(running: simulator.Simulator, headers: dict[str, str], turn: int) -> float:
    """Seconds from a change of a node to its event in the hands of a watcher."""
    link = connection(running)
    store = running.world.store
    revision = running.call(lambda: store.revision)
    link.request(
        "GET", f"/api/v1/nodes?watch=1&resourceVersion={revision}&timeoutSeconds=20", headers=headers
    )
    answer = link.getresponse()
    name = running.call(lambda: store.list("nodes")[turn]["metadata"]["name"])

    def change(node: dict) -> None:
        node["metadata"]["labels"]["bench"] = str(turn)

    arrived: list[float] = []

    def read() -> None:
        answer.readline()
        arrived.append(time.perf_counter())

    reader = threading.Thread(target=read)
    reader.start()
    started_s = time.perf_counter()
    running.call(lambda: store.mutate("nodes", None, name, change))
    reader.join(20)
    link.close()
    return arrived[0] - started_s


if __name__ == "__main__":
    main()

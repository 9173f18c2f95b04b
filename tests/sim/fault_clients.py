"""Clients for tests of faults: plain HTTP that tells what happened on the wire, watches line by line."""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
import urllib.parse
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tpuctl.sim import simulator

NODES = "/api/v1/nodes"
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
CLUSTER = "/v1/projects/sim-project/locations/us-central1/clusters/sim"
POLICIES = "/compute/v1/projects/sim-project/regions/us-central1/resourcePolicies"
PATIENCE_S = 10


class Answer(NamedTuple):
    status: int
    body: bytes
    headers: Any

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def connect(sim: simulator.Simulator, *, tls: bool = False, timeout_s: float = PATIENCE_S):
    """A connection of its own, so that nothing repeats a request by itself."""
    place = urllib.parse.urlsplit(sim.tls_url if tls else sim.url)
    if not tls:
        return http.client.HTTPConnection(place.hostname, place.port, timeout=timeout_s)
    trusted = ssl.create_default_context(cadata=sim.call(lambda: sim._running().authority_pem).decode())
    return http.client.HTTPSConnection(place.hostname, place.port, timeout=timeout_s, context=trusted)


def ask(
    sim: simulator.Simulator,
    method: str,
    path: str,
    body: Any = None,
    *,
    tls: bool = False,
    timeout_s: float = PATIENCE_S,
) -> Answer:
    """One request. Raises what the client library raises when the connection breaks."""
    connection = connect(sim, tls=tls, timeout_s=timeout_s)
    headers = {"Authorization": f"Bearer {sim.token}", "Content-Type": "application/json"}
    with contextlib.closing(connection):
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        return Answer(response.status, response.read(), response.headers)


def config_map(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


def names(sim: simulator.Simulator) -> list[str]:
    """Config maps in the store, whatever a client was told."""
    found = sim.call(lambda: sim.world.store.list("configmaps", "default"))
    return [obj["metadata"]["name"] for obj in found if not obj["metadata"]["name"].startswith("kube-")]


class Watch:
    """An open watch."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self._response = response
        self.status = response.status

    def line(self) -> bytes:
        """The next line. TimeoutError if none comes."""
        return self._response.readline()

    def event(self) -> tuple[str, str]:
        """(type, name) of the next event."""
        event = json.loads(self.line())
        return event["type"], event["object"]["metadata"].get("name", "")


@contextlib.contextmanager
def watching(
    sim: simulator.Simulator, path: str = CONFIGMAPS, *, timeout_s: float = PATIENCE_S, since: bool = True
) -> Iterator[Watch]:
    """A watch from the present on, or, without `since`, from the present state."""
    revision = sim.call(lambda: sim.world.store.revision)
    query = f"?watch=true&resourceVersion={revision}" if since else "?watch=true"
    connection = connect(sim, timeout_s=timeout_s)
    with contextlib.closing(connection):
        connection.request("GET", path + query, headers={"Authorization": f"Bearer {sim.token}"})
        yield Watch(connection.getresponse())

"""A small simulated fleet, and ports that reach it directly or through a relay that spoils answers."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest

from tests.cloud import scripted
from tpuctl.cloud import connect
from tpuctl.ops import context as contexts
from tpuctl.sim import simulator

if TYPE_CHECKING:
    import datetime

    from tpuctl.ops import ports as ports_module


class SimClock(scripted.FakeClock):
    """A clock whose sleeps move the simulator's time: nobody waits, and operations go on."""

    def __init__(self, running: simulator.Simulator) -> None:
        super().__init__()
        self._running = running

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self._running.advance(seconds)

    def now(self) -> datetime.datetime:
        raise AssertionError("the simulator tells its own time")


@dataclasses.dataclass
class World:
    sim: simulator.Simulator
    clock: SimClock
    relay: scripted.Relay
    relayed: scripted.Server
    directory: Any

    @property
    def ports(self) -> ports_module.Ports:
        return self.connect()

    def connect(self, url: str | None = None, **changes: Any) -> ports_module.Ports:
        return connect.connect(self.context(url, **changes), clock=self.clock)

    @property
    def through_relay(self) -> ports_module.Ports:
        return self.connect(self.relayed.url)

    def context(self, url: str | None = None, **changes: Any) -> contexts.Context:
        found = self.sim.context()
        url = url or self.sim.url
        values = {
            "name": "sim",
            "project": found["project"],
            "location": found["location"],
            "zone": found["zone"],
            "cluster": found["cluster"],
            "reservations": tuple(found["reservations"]),
            "kubeconfig": str(self.sim.kubeconfig(self.directory / "kubeconfig")),
            "kubeconfig_context": "sim",
            "token_file": str(self.sim.token_file(self.directory / "token")),
            "endpoint_kubernetes": url,
            "endpoint_container": url,
            "endpoint_compute": url,
        }
        return contexts.Context(**(values | changes))


@pytest.fixture
def make_world(tmp_path):
    """Makes a world with these simulator settings; everything is stopped after the test."""
    running = []

    def make(**settings: Any) -> World:
        sim = simulator.Simulator(simulator.Settings(**({"cubes": 4} | settings)))
        sim.start()
        relay = scripted.Relay(sim.url)
        server = scripted.Server(relay)
        server.__enter__()
        running.append((sim, relay, server))
        return World(sim, SimClock(sim), relay, server, tmp_path)

    yield make
    for sim, relay, server in running:
        server.__exit__()
        relay.close()
        sim.stop()


@pytest.fixture
def fresh(make_world):
    """A reservation of four sub-blocks and a cluster without node pools, the slice controller off."""
    return make_world()


@pytest.fixture
def ready(make_world):
    """Four complete cubes, the slice controller on."""
    return make_world(ready_cubes=4, slice_controller=True)

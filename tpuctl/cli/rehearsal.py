"""A simulator of one's own, in this process, whose time passes exactly while tpuctl waits.

Used by the demo and by tests: the commands are the real ones, their ports are the real ones, and only the
clock is special. What a command computes costs no simulated time, so a formation of 41 s shows as 41 s.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import pathlib
import tempfile
import urllib.request
from typing import TYPE_CHECKING, Any

from tpuctl.cli import wiring
from tpuctl.ops import context as contexts

if TYPE_CHECKING:
    import datetime
    from collections.abc import Iterator

    from tpuctl.ops import ports as ports_module
    from tpuctl.sim import simulator as simulators


class DrivenClock:
    """The context's clock: sleeping moves the simulator's time on, and nothing else does."""

    def __init__(self, simulator: simulators.Simulator) -> None:
        self._simulator = simulator

    @property
    def scale(self) -> float:
        return 1.0

    def monotonic_s(self) -> float:
        return self._simulator.call(lambda: self._simulator.world.clock.now_s)

    def sleep(self, seconds: float) -> None:
        if seconds > 0:
            self._simulator.advance(seconds)

    def now(self) -> datetime.datetime:
        return self._simulator.call(self._simulator.world.clock.now)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rehearsal:
    """A running simulator with ports on it."""

    simulator: simulators.Simulator
    context: contexts.Context
    ports: ports_module.Ports
    kubeconfig: pathlib.Path

    def submit(self, path: str, document: dict[str, Any]) -> None:
        """Create a Kubernetes object as a user's kubectl would; tpuctl itself submits no workloads."""
        request = urllib.request.Request(  # noqa: S310 - our own loopback server
            f"{self.simulator.url}{path}",
            data=json.dumps(document).encode(),
            method="POST",
            headers={
                "Authorization": f"Bearer {self.simulator.token}",
                "Content-Type": "application/json",
            },
        )
        # A proxy from the environment has no business with a loopback address.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request) as answer:
            answer.read()


@contextlib.contextmanager
def rehearse(settings: simulators.Settings, *, name: str = "demo") -> Iterator[Rehearsal]:
    """Start a simulator, let commands of this process work on it, and leave nothing behind."""
    from tpuctl.sim import simulator as simulators  # noqa: PLC0415 - the server costs a quarter of a second

    with tempfile.TemporaryDirectory(prefix="tpuctl-") as folder, simulators.Simulator(settings) as running:
        kubeconfig = running.kubeconfig(pathlib.Path(folder) / "kubeconfig")
        token = running.token_file(pathlib.Path(folder) / "token")
        context = contexts.Context(
            name=name,
            project=settings.project,
            location=settings.location,
            zone=settings.zone,
            cluster=settings.cluster,
            reservations=(settings.reservation,),
            kubeconfig=str(kubeconfig),
            kubeconfig_context=simulators.CONTEXT,
            endpoint_container=running.url,
            endpoint_compute=running.url,
            token_file=str(token),
        )
        ports = wiring.connect(context, DrivenClock(running))
        with wiring.using(ports, context):
            yield Rehearsal(simulator=running, context=context, ports=ports, kubeconfig=kubeconfig)

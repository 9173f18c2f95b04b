"""A small fleet behind the two Google APIs, and the real clients of these."""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import functools
import json
import socket
import threading
from typing import Any

import uvicorn
from google.cloud import compute_v1, container_v1
from google.cloud.compute_v1.services import (
    instance_group_managers,
    instances,
    region_operations,
    reservation_blocks,
    reservation_sub_blocks,
    reservations,
    resource_policies,
    zone_operations,
)
from google.cloud.container_v1.services.cluster_manager.transports.rest import ClusterManagerRestTransport
from google.oauth2 import credentials
from starlette import applications

from tpuctl.sim import behaviour as behaviours
from tpuctl.sim import clock as clocks
from tpuctl.sim import hardware
from tpuctl.sim.compute import api as compute_api
from tpuctl.sim.gke import api as gke_api
from tpuctl.sim.gke import requests as gke_requests
from tpuctl.sim.gke import views

PROJECT = "sim-project"
LOCATION = "sim-region1"
ZONE = "sim-region1-a"
PARENT = f"projects/{PROJECT}/locations/{LOCATION}/clusters/sim"
TOKEN = "secret"
POLICY = "cube-policy"
WORKLOAD = {
    "type": "HIGH_THROUGHPUT",
    "acceleratorTopology": "4x4x4",
    "acceleratorTopologyMode": "PROVISION_ONLY",
}


@dataclasses.dataclass
class World:
    clock: clocks.Clock
    machines: hardware.Hardware
    gke: gke_api.GkeApi
    compute: compute_api.ComputeApi
    joined: list[tuple[str, str]]
    left: list[tuple[str, str]]
    slices: dict[str, list[str]]
    """Pool name -> names of the Slices on it."""
    switched: list[bool]
    base: str = ""
    host: str = ""
    topologies: dict[str, list[dict[str, Any]]] = dataclasses.field(default_factory=dict)

    @property
    def cubes(self) -> list[hardware.SubBlock]:
        return list(self.machines.subblocks())

    def container(self, token: str = TOKEN) -> container_v1.ClusterManagerClient:
        transport = ClusterManagerRestTransport(
            host=self.host, url_scheme="http", credentials=credentials.Credentials(token=token)
        )
        return container_v1.ClusterManagerClient(transport=transport)

    def compute_client(self, package: Any, name: str) -> Any:
        transport = getattr(package.transports, f"{name}RestTransport")(
            host=self.host, url_scheme="http", credentials=credentials.Credentials(token=TOKEN)
        )
        return getattr(package, f"{name}Client")(transport=transport)

    def reservations(self) -> compute_v1.ReservationsClient:
        return self.compute_client(reservations, "Reservations")

    def blocks(self) -> compute_v1.ReservationBlocksClient:
        return self.compute_client(reservation_blocks, "ReservationBlocks")

    def subblocks(self) -> compute_v1.ReservationSubBlocksClient:
        return self.compute_client(reservation_sub_blocks, "ReservationSubBlocks")

    def policies(self) -> compute_v1.ResourcePoliciesClient:
        return self.compute_client(resource_policies, "ResourcePolicies")

    def instances(self) -> compute_v1.InstancesClient:
        return self.compute_client(instances, "Instances")

    def groups(self) -> compute_v1.InstanceGroupManagersClient:
        return self.compute_client(instance_group_managers, "InstanceGroupManagers")

    def zone_operations(self) -> compute_v1.ZoneOperationsClient:
        return self.compute_client(zone_operations, "ZoneOperations")

    def region_operations(self) -> compute_v1.RegionOperationsClient:
        return self.compute_client(region_operations, "RegionOperations")

    def make_policy(self, name: str = POLICY, **workload: str) -> None:
        policy = self.compute.policies.insert({"name": name, "workloadPolicy": {**WORKLOAD, **workload}})
        self.compute.policies.ready(policy)

    def pool_status(self, name: str) -> str:
        return str(self.gke.cluster.pools[name].status)


def build(behaviour: behaviours.Behaviour | None = None, *, cubes: int = 3, blocks: int = 1) -> World:
    """A world without a server."""
    behaviour = behaviour or behaviours.Behaviour()
    clock = clocks.Clock()
    machines = hardware.Hardware(clock, behaviour)
    machines.add_reservation("resv", project=PROJECT, zone=ZONE, blocks=blocks, cubes=cubes)
    joined: list[tuple[str, str]] = []
    left: list[tuple[str, str]] = []
    slices: dict[str, list[str]] = {}
    switched: list[bool] = []
    topologies: dict[str, list[dict[str, Any]]] = {}

    def authenticate(header: str | None) -> str | None:
        return "admin@example.com" if header == f"Bearer {TOKEN}" else None

    def slices_using(pool: str | None) -> list[str]:
        named = slices if pool is None else {pool}
        return [name for key in named for name in slices.get(key, [])]

    compute = compute_api.ComputeApi(
        machines=machines,
        behaviour=behaviour,
        project=PROJECT,
        region=LOCATION,
        authenticate=authenticate,
        pools=lambda: list(gke.cluster.pools.values()),
        topologies=lambda pool: topologies.get(pool, []),
    )
    gke = gke_api.GkeApi(
        machines=machines,
        behaviour=behaviour,
        project=PROJECT,
        location=LOCATION,
        zone=ZONE,
        cluster="sim",
        authenticate=authenticate,
        find_policy=compute.policies.find,
        on_join=lambda pool, host: joined.append((pool.name, host.vm.name)),
        on_leave=lambda pool, host: left.append((pool.name, host.vm.name)),
        slices_using=slices_using,
        on_slice_controller=switched.append,
    )
    return World(clock, machines, gke, compute, joined, left, slices, switched, topologies=topologies)


class _Switch:
    """An ASGI app that passes requests to the world of the moment: one server for all tests."""

    def __init__(self) -> None:
        self.app = None

    async def __call__(self, scope, receive, send):
        await self.app(scope, receive, send)


_switch = _Switch()


@functools.cache
def _server_url() -> str:
    server = uvicorn.Server(uvicorn.Config(_switch, log_level="error", lifespan="off", ws="none"))
    # asyncio sets TCP_NODELAY only on sockets that say they are TCP; without it each answer takes 40 ms.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()

    def stop():
        server.should_exit = True
        thread.join(10)
        listener.close()

    atexit.register(stop)
    return f"http://127.0.0.1:{listener.getsockname()[1]}"


@contextlib.contextmanager
def served(world: World):
    """Serve the world on loopback for the time of a `with` block."""
    world.host = _server_url()
    before = _switch.app
    _switch.app = applications.Starlette(routes=[*world.gke.routes(), *world.compute.routes()])
    try:
        yield world
    finally:
        _switch.app = before


def pool_request(name: str = "cube-1", *, path: str | None = None, nodes: int = 16) -> dict[str, Any]:
    """A node pool as JSON, as the service documents it."""
    path = path or f"projects/{PROJECT}/reservations/resv/reservationBlocks/resv-block-0001"
    return {
        "name": name,
        "initialNodeCount": nodes,
        "locations": [ZONE],
        "config": {
            "machineType": "tpu7x-standard-4t",
            "reservationAffinity": {
                "consumeReservationType": "SPECIFIC_RESERVATION",
                "key": "compute.googleapis.com/reservation-name",
                "values": [path],
            },
        },
        "placementPolicy": {"policyName": POLICY},
        "management": {"autoUpgrade": True, "autoRepair": True},
        "maxPodsConstraint": {"maxPodsPerNode": "15"},
    }


def cube_path(number: int, *, short: bool = False) -> str:
    """Reservation path of a sub-block of the first block."""
    block = "resv-block-0001"
    start = "resv" if short else f"projects/{PROJECT}/reservations/resv"
    return f"{start}/reservationBlocks/{block}/reservationSubBlocks/{block}-subblock-{number:04}"


def pool_message(request: dict[str, Any]) -> container_v1.NodePool:
    return container_v1.NodePool.from_json(json.dumps(request))


def make_pool(world: World, number: int) -> None:
    """Begin a pool on a cube of the first block, without HTTP."""
    wanted = pool_request(f"cube-{number}", path=cube_path(number))
    target = gke_requests.check_pool(
        wanted, cluster=world.gke.cluster, machines=world.machines, find_policy=world.compute.policies.find
    )
    world.gke.pools.create(views.with_defaults(wanted, world.gke.cluster.version), target)


def fill(world: World, *numbers: int) -> None:
    """Make pools on these cubes and wait until they are done."""
    for number in numbers:
        make_pool(world, number)
    world.clock.advance(300)

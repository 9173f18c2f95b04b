"""Everything that is simulated, wired together, without a server: hardware, cluster, controllers, APIs.

A test that needs no HTTP can use a `World` by itself and move its clock.
"""

from __future__ import annotations

import dataclasses
import hmac
import importlib.resources
from typing import TYPE_CHECKING, Any

import yaml
from starlette import applications

from tpuctl.sim import admin, api_faults, clock, faults, hardware, store
from tpuctl.sim import behaviour as behaviours
from tpuctl.sim.compute import api as compute_api
from tpuctl.sim.controllers import (
    events,
    evictions,
    garbage,
    jobs,
    kubelet,
    maintenance,
    nodes,
    pod_admission,
    scheduler,
    slices,
    webhook,
)
from tpuctl.sim.gke import api as gke_api
from tpuctl.sim.kube import app as kube_app
from tpuctl.sim.kube import auth

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from tpuctl.sim.gke import model

Object = dict[str, Any]

USER = "sim-admin"
"""Who the simulator's token stands for."""
CRD = "customresourcedefinitions.apiextensions.k8s.io"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """What is simulated. Everything but `speed` and `port` decides the run together with the calls made."""

    blocks: int = 1
    cubes: int = hardware.BLOCK_CUBES
    """Sub-blocks of hardware in each block."""
    seed: int = 0
    speed: float = 0.0
    """Simulated seconds for each real second; 0: time stands still until it is moved."""
    port: int = 0
    """0 takes a free port."""
    project: str = "sim-project"
    location: str = "us-central1"
    zone: str = "us-central1-a"
    cluster: str = "sim"
    reservation: str = "sim-reservation"
    slice_controller: bool = False
    """If true, the slice controller is on from the start; a fresh cluster has it off."""
    ready_cubes: int = 0
    """So many cubes have a node pool with all its nodes at the start. Time has passed meanwhile, as it
    would have."""
    behaviour: behaviours.Behaviour = dataclasses.field(default_factory=behaviours.Behaviour)


class World:
    """One simulated project: a reservation, a cluster and their APIs. Use it from one thread."""

    def __init__(
        self,
        settings: Settings,
        *,
        token: str = "token",  # noqa: S107 - a world without a server has nothing to protect
        shutdown: Callable[[], None] = lambda: None,
        about: Mapping[str, Any] | None = None,
    ) -> None:
        """`shutdown` is what the admin API's call does; `about` is added to what its status says."""
        self.settings = settings
        self._about = about or {}
        self.token = token
        behaviour = settings.behaviour
        self.clock = clock.Clock(speed=settings.speed)
        self.store = store.Store(self.clock, seed=settings.seed)
        self.hardware = hardware.Hardware(self.clock, behaviour, seed=settings.seed)
        self.hardware.add_reservation(
            settings.reservation,
            project=settings.project,
            zone=settings.zone,
            blocks=settings.blocks,
            cubes=settings.cubes,
        )
        self.identities = auth.Auth({token: auth.admin(USER)})
        """Who the Kubernetes API knows by a token of the simulator's own; service accounts have theirs."""
        self._start_controllers()
        self.compute = compute_api.ComputeApi(
            machines=self.hardware,
            behaviour=behaviour,
            project=settings.project,
            region=settings.location,
            authenticate=self._authenticate,
            pools=self._node_pools,
            topologies=self.slices.topologies,
        )
        self.gke = self._gke_api()
        self.kube = self._kube_api()
        self._prepare_faults()
        self.admin = admin.AdminApi(
            clock=self.clock,
            world_faults=self.faults,
            engine=self.api_faults,
            token=token,
            status=self.status,
            shutdown=shutdown,
        )
        if settings.slice_controller:
            self._switch_slice_controller(True)

    def app(self) -> applications.Starlette:
        """The three APIs and the simulator's own, by path."""
        routes = [*self.admin.routes(), *self.gke.routes(), *self.compute.routes(), *self.kube.routes()]
        return applications.Starlette(routes=routes)

    def status(self) -> Object:
        """What `GET /sim/v1/status` says."""
        cubes = sum(pool.complete for pool in self.gke.cluster.pools.values())
        return {
            **self._about,
            "time": store.timestamp(self.clock.now()),
            "elapsedSeconds": self.clock.now_s,
            "speed": self.clock.speed,
            "cubes": sum(1 for _ in self.hardware.subblocks()),
            "nodePools": len(self.gke.cluster.pools),
            "completeNodePools": cubes,
            "nodes": len(self.store.list(nodes.NODES)),
            "slices": len(self.store.list(slices.SLICES)),
            "pods": len(self.store.list(jobs.PODS)),
            "sliceController": self.gke.cluster.slice_controller,
        }

    # The parts

    def _start_controllers(self) -> None:
        behaviour = self.settings.behaviour
        self.ledger = events.Ledger(self.store)
        machines = self.store, self.clock, self.hardware, behaviour
        self.nodes = nodes.NodeController(*machines, self.ledger)
        self.maintenance = maintenance.MaintenanceMarks(self.store, self.clock, self.hardware, self.nodes)
        self.kubelets = kubelet.Kubelets(*machines, self.nodes, self.ledger)
        self.slices = slices.SliceController(*machines, self.nodes, self.ledger, on_cut=self._ici_cut)
        self.scheduler = scheduler.Scheduler(self.store, self.clock, behaviour, self.ledger)
        self.jobs = jobs.JobController(
            self.store, self.clock, behaviour, self.ledger, pod_admission.admit_created
        )
        self.evictions = evictions.Evictions(self.store, self.clock)
        self.garbage = garbage.GarbageCollector(self.store)

    def _prepare_faults(self) -> None:
        scene = faults.Scene(
            clock=self.clock, hardware=self.hardware, store=self.store, slices=self.slices.faults
        )
        self.faults = faults.Faults(scene, self.settings.behaviour)
        self.api_faults = api_faults.ApiFaults(self.clock)
        self.kube.intercept.append(self.api_faults.interceptor("kubernetes"))
        self.gke.intercept.append(self.api_faults.interceptor("container"))
        self.compute.intercept.append(self.api_faults.interceptor("compute"))

    def _ici_cut(self, node_names: Sequence[str]) -> None:
        if self.settings.behaviour.pods_fail_with_their_slice:
            self.kubelets.fail_pods(node_names, "The slice under the pod was taken apart.")

    def _gke_api(self) -> gke_api.GkeApi:
        settings = self.settings
        return gke_api.GkeApi(
            machines=self.hardware,
            behaviour=settings.behaviour,
            project=settings.project,
            location=settings.location,
            zone=settings.zone,
            cluster=settings.cluster,
            authenticate=self._authenticate,
            find_policy=self.compute.policies.find,
            on_join=self._node_joins,
            on_leave=lambda _pool, host: self.nodes.leave(host),
            slices_using=self._slices_using,
            on_slice_controller=self._switch_slice_controller,
            slice_controller=settings.slice_controller,
        )

    def _node_pools(self) -> Iterable[model.NodePool]:
        return self.gke.cluster.pools.values()

    def _node_joins(self, pool: model.NodePool, host: hardware.Host) -> None:
        self.nodes.join(pool.name, host, max_pods=pool.max_pods)

    def _slices_using(self, pool: str | None) -> list[str]:
        if pool is None:
            return [obj["metadata"]["name"] for obj in self.store.list(slices.SLICES)]
        return self.slices.using_pool(pool)

    def _kube_api(self) -> kube_app.KubeApi:
        behaviour = self.settings.behaviour
        rules = webhook.Rules(
            max_name_length=behaviour.slice_name_max_length,
            allow_spec_updates=behaviour.slice_spec_updates_allowed,
            allow_duplicates=behaviour.duplicate_partitions_allowed,
        )
        slice_webhook = webhook.SliceWebhook(rules, enabled=lambda: self.gke.cluster.slice_controller)
        return kube_app.KubeApi(
            self.store,
            self.identities,
            admit=[slice_webhook.review, jobs.review, pod_admission.review],
            version=f"v{behaviour.gke_version}",
        )

    def _authenticate(self, authorization: str | None) -> str | None:
        scheme, _, token = (authorization or "").partition(" ")
        known = scheme.lower() == "bearer" and hmac.compare_digest(token.encode(), self.token.encode())
        return USER if known else None

    def _switch_slice_controller(self, on: bool) -> None:
        """Turning it off leaves the CRD: published is that the admin deletes it afterwards."""
        if not on:
            self.slices.stop()
            return
        if self.store.get(CRD, None, slices.SLICES) is None:
            self.store.create(CRD, slice_crd())
        self.slices.start()


def slice_crd() -> Object:
    """The definition that GKE installs with the slice controller; the cluster establishes it."""
    text = importlib.resources.files("tpuctl.sim.kube").joinpath("slice_crd.yaml").read_text(encoding="utf-8")
    definition: Object = yaml.safe_load(text)
    return definition

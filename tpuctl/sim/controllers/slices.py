"""GKE's slice controller: the life of a Slice from its creation to the end of its finalizer.

    (new) -> SliceNotCreated -> ACTIVATING -> ACTIVE <-> ACTIVE_DEGRADED
                   |                |            |
          SliceCreationFailed     FAILED    (host failure) DEACTIVATING -> FAILED
    any, once deleted: DEACTIVATING -> INCOMPLETE -> gone

The state is the reason of the condition `Ready`. States, finalizer and labels are published; times, texts
and the events are not. The real controller works from the API alone; this one also moves the hardware, so
it keeps the hosts of a slice itself and goes on dismantling them when somebody takes the finalizer away by
force.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tpuctl.sim import rules
from tpuctl.sim import store as stores
from tpuctl.sim.controllers import events, partition_states, slice_checks, slice_faults, slice_labels
from tpuctl.sim.controllers import holds as hold_book
from tpuctl.sim.controllers import slice_status as status

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tpuctl.sim import behaviour as behaviours
    from tpuctl.sim import clock as clocks
    from tpuctl.sim import hardware as hardwares
    from tpuctl.sim.controllers import nodes as node_controller

SLICES = "slices.accelerator.gke.io"
FINALIZER = "accelerator.gke.io/slice-finalizer"
COMPONENT = "slice-controller"

_BLOCKS_POOLS = frozenset(
    {status.ACTIVATING, status.ACTIVE, status.ACTIVE_DEGRADED, status.DEACTIVATING, status.INCOMPLETE}
)
_GROUP_STATES = {
    status.ACTIVATING: "ACTIVATING",
    status.ACTIVE: "ACTIVE",
    status.ACTIVE_DEGRADED: "ACTIVE",
    status.DEACTIVATING: "DEACTIVATING",
    status.INCOMPLETE: "INCOMPLETE",
    status.FAILED: "FAILED",
}
"""The words of Compute Engine for the same states; it has none for degraded ones."""
_BAD = frozenset({status.CREATION_FAILED, status.FAILED, status.ACTIVE_DEGRADED})


@dataclasses.dataclass(eq=False)
class _Work:
    """What the controller knows of one Slice object."""

    holder: hold_book.Holder
    topology: str
    reason: str = ""
    hosts: tuple[hardwares.Host, ...] = ()
    """Hosts it holds; empty until its checks are passed."""
    since_s: float = 0.0
    """When it began ACTIVATING."""
    deleting: bool = False
    timer: clocks.Timer | None = None

    @property
    def cubes(self) -> int:
        return rules.partitions_needed(self.topology)


class SliceController:
    """Forms and dismantles slices while it is switched on."""

    def __init__(
        self,
        store: stores.Store,
        clock: clocks.Clock,
        hardware: hardwares.Hardware,
        behaviour: behaviours.Behaviour,
        nodes: node_controller.NodeController,
        ledger: events.Ledger,
        *,
        on_cut: Callable[[Sequence[str]], None] = lambda _nodes: None,
    ) -> None:
        """`on_cut` is told the nodes whose ICI was taken away under their pods."""
        self._store = store
        self._clock = clock
        self._behaviour = behaviour
        self._ledger = ledger
        self._on_cut = on_cut
        self._states = partition_states.PartitionStates(store, clock, hardware, behaviour, nodes)
        self._holds = hold_book.Holds(clock, settle_s=behaviour.settle_s)
        self._checks = slice_checks.Checks(hardware, nodes, self._states, self._holds)
        self._labels = slice_labels.SliceLabels(store, clock, behaviour, nodes)
        self.faults = slice_faults.SliceFaults(on_release=self._resume)
        self._works: dict[str, _Work] = {}
        self._on = False
        hardware.subscribe(self._hardware_changed)
        self._states.follow(self._states_changed)
        store.subscribe(SLICES, self._slice_changed)

    @property
    def states(self) -> partition_states.PartitionStates:
        return self._states

    def start(self) -> None:
        """Look after partition labels and Slices, those that exist already included."""
        self._on = True
        self._states.start()
        for obj in self._store.list(SLICES):
            self._adopt(obj)

    def stop(self) -> None:
        """Leave everything as it is: Slices keep their last state, finalizers hold for ever."""
        self._on = False
        self._states.stop()
        for work in self._works.values():
            self._cancel(work)
        self._works.clear()
        self._holds.clear()

    def using_pool(self, pool: str) -> list[str]:
        """Names of the slices that keep a node pool from being deleted, sorted."""
        return sorted(
            work.holder.name
            for work in self._works.values()
            if work.reason in _BLOCKS_POOLS
            and any(host.vm is not None and host.vm.pool == pool for host in work.hosts)
        )

    def topologies(self, pool: str) -> list[dict[str, str]]:
        """`appliedAcceleratorTopologies` of a node pool's instance group: one entry for each slice on it."""
        return [
            {"acceleratorTopology": work.topology, "state": _GROUP_STATES[work.reason]}
            for work in self._works.values()
            if work.reason in _GROUP_STATES
            and any(host.vm is not None and host.vm.pool == pool for host in work.hosts)
        ]

    def holder_of(self, host: hardwares.Host) -> str | None:
        """Name of the slice that holds a host, or None."""
        holder = self._holds.holder_of(host)
        return holder.name if holder else None

    # Objects come, change and go

    def _slice_changed(self, kind: str, old: stores.Json | None, new: stores.Json | None) -> None:
        if not self._on:
            return
        if kind == "ADDED" and new is not None:
            self._adopt(new)
        elif kind == "MODIFIED" and new is not None:
            self._modified(new)
        elif kind == "DELETED" and old is not None:
            self._vanished(old)

    def _adopt(self, obj: stores.Json) -> None:
        metadata = obj["metadata"]
        holder = hold_book.Holder(metadata["uid"], metadata["name"])
        work = self._works[holder.uid] = _Work(holder, obj["spec"]["topology"], status.reason_of(obj))
        if work.reason in status.READY:
            work.hosts = self._checks.hosts(obj["spec"]["partitionIds"])
            self._holds.take(holder, work.hosts)
        if "deletionTimestamp" in metadata:
            self._dismantle(work)
        elif work.reason not in status.READY:
            self._plan(work, self._behaviour.slice_accept_s, self._accept)

    def _modified(self, obj: stores.Json) -> None:
        work = self._works.get(obj["metadata"]["uid"])
        if work is None or work.deleting:
            return
        if "deletionTimestamp" in obj["metadata"]:
            self._dismantle(work)
        elif work.reason == status.CREATION_FAILED and work.timer is None and status.wants_retry(obj):
            self._plan(work, self._behaviour.retry_interval_s, self._check)

    def _vanished(self, obj: stores.Json) -> None:
        work = self._works.get(obj["metadata"]["uid"])
        if work is None:
            return
        if not work.hosts:
            self._finish(work)
        elif not work.deleting:
            # Somebody took the finalizer from a live Slice and deleted it: the hardware still needs its time.
            self._dismantle(work)

    # Forming

    def _accept(self, work: _Work) -> None:
        def add_finalizer(obj: stores.Json) -> None:
            finalizers = obj["metadata"].setdefault("finalizers", [])
            if FINALIZER not in finalizers:
                finalizers.append(FINALIZER)

        if self._object(work) is not None:
            self._store.mutate(SLICES, None, work.holder.name, add_finalizer)
        self._show(work, status.NOT_CREATED, "Checking the slice's partitions and nodes.")
        self._plan(work, self._behaviour.slice_check_s, self._check)

    def _check(self, work: _Work) -> None:
        obj = self._object(work)
        if obj is None:
            return
        problem = self._checks.problem(obj["spec"], work.holder)
        if problem:
            self._show(work, status.CREATION_FAILED, f"Prerequisites validation failed: {problem}.")
            if status.wants_retry(obj):
                self._plan(work, self._behaviour.retry_interval_s, self._check)
            return
        work.hosts = self._checks.hosts(obj["spec"]["partitionIds"])
        self._holds.take(work.holder, work.hosts)
        self._activate(work)

    def _activate(self, work: _Work) -> None:
        work.since_s = self._clock.now_s
        self._show(work, status.ACTIVATING, "Hardware connections are being formed.")
        problem = self._checks.place_problem(work.hosts)
        if problem:
            wait_s = self._behaviour.block_mismatch_s
            self._plan(work, wait_s, lambda work: self._fail(work, f"Slice formation failed: {problem}."))
        elif self.faults.activation_fails(work.holder.name, work.hosts):
            wait_s = self._behaviour.formation_s(work.cubes)
            self._plan(work, wait_s, lambda work: self._fail(work, "Slice formation failed: injected fault."))
        else:
            self._plan(work, self._behaviour.formation_s(work.cubes), self._try_to_finish)

    def _try_to_finish(self, work: _Work) -> None:
        """End ACTIVATING if every host takes part; otherwise wait for them until the timeout."""
        absent = sum(not self._takes_part(host) for host in work.hosts)
        left_s = work.since_s + self._behaviour.formation_timeout_s - self._clock.now_s
        if not absent:
            self._show(work, self._health(work), self._health_text(work))
            self._label_later(work)
        elif left_s > 0:
            self._plan(work, min(left_s, self._behaviour.slice_break_s), self._try_to_finish)
        else:
            self._fail(work, f"Slice formation timed out: {absent} of {len(work.hosts)} nodes do not work.")

    def _health(self, work: _Work) -> str:
        return status.ACTIVE_DEGRADED if self._degraded_cubes(work) else status.ACTIVE

    def _health_text(self, work: _Work) -> str:
        degraded = self._degraded_cubes(work)
        if degraded:
            return f"{degraded} of {work.cubes} sub-blocks are degraded."
        return "Slice is formed."

    def _degraded_cubes(self, work: _Work) -> int:
        if rules.partition_shape(work.topology) != rules.CUBE:
            return 0  # A part of a cube uses no optical link.
        cubes = {host.subblock.cube_id for host in work.hosts}
        return sum(self._states.published(cube) == partition_states.DEGRADED for cube in cubes)

    # Breaking

    def _hardware_changed(self, change: hardwares.Change) -> None:
        holder = self._holds.holder_of(change.host) if self._on and change.host is not None else None
        work = self._works.get(holder.uid) if holder else None
        if work is not None and work.reason in status.READY and work.timer is None:
            self._plan(work, self._behaviour.slice_break_s, self._break_if_hosts_fail)

    def _break_if_hosts_fail(self, work: _Work) -> None:
        failing = sum(not self._takes_part(host) for host in work.hosts)
        if not failing:
            return
        text = f"{failing} of {len(work.hosts)} nodes failed"
        if not self._behaviour.broken_slices_deactivate:
            self._unlabel_later(work)
            self._fail(work, f"Slice failed: {text}.")
            return
        self._show(work, status.DEACTIVATING, f"Dismantling slice resources: {text}.")
        self._unlabel_later(work)
        self._plan(
            work, self._behaviour.deformation_s, lambda work: self._fail(work, f"Slice failed: {text}.")
        )

    def _takes_part(self, host: hardwares.Host) -> bool:
        # A host that serves with a fault has a chip error.
        up = host.serving or (self._behaviour.hung_guest_is_unseen and host.hung)
        return up and (host.healthy or not self._behaviour.chip_error_breaks_slices)

    def _states_changed(self, cube: hardwares.SubBlock) -> None:
        holders = {holder.uid for host in cube.hosts if (holder := self._holds.holder_of(host))}
        for work in [self._works[uid] for uid in self._works if uid in holders]:
            if work.reason in status.READY and work.reason != self._health(work):
                self._show(work, self._health(work), self._health_text(work))

    def _fail(self, work: _Work, text: str) -> None:
        self._show(work, status.FAILED, text)
        if not self._behaviour.failed_slices_hold_partitions:
            self._release(work)

    # Dismantling

    def _dismantle(self, work: _Work) -> None:
        """The Slice was deleted: DEACTIVATING, INCOMPLETE, gone. A slice never formed has nothing to undo."""
        work.deleting = True
        self._show(work, status.DEACTIVATING, "Dismantling slice resources.")
        self._unlabel_later(work)
        self._plan(work, self._behaviour.deformation_s if work.hosts else 0.0, self._drain)

    def _drain(self, work: _Work) -> None:
        if self.faults.deactivation_fails(work.holder.name):
            self._show(work, status.FAILED, "Dismantling slice resources failed: injected fault.")
            self._plan(work, self._behaviour.dismantle_retry_s, self._dismantle)
            return
        if self.faults.is_stuck(work.holder.name):
            return  # `_resume` goes on from here.
        self._show(work, status.INCOMPLETE, "")
        self._plan(work, self._behaviour.incomplete_s, self._finish)

    def _resume(self, name: str) -> None:
        """Somebody released the finalizer of the slice `name`: go on where it got stuck."""
        for work in [work for work in self._works.values() if work.holder.name == name]:
            if work.deleting and work.timer is None:
                self._drain(work)

    def _finish(self, work: _Work) -> None:
        self._cancel(work)
        self._works.pop(work.holder.uid, None)
        self._release(work)
        if self._object(work) is not None:
            self._store.remove_finalizer(SLICES, None, work.holder.name, FINALIZER)

    def _release(self, work: _Work) -> None:
        self._holds.release(work.holder, work.hosts)
        work.hosts = ()

    def _label_later(self, work: _Work) -> None:
        self._labels.put_later(
            work.hosts, work.holder.name, work.topology, still=lambda: work.reason in status.READY
        )

    def _unlabel_later(self, work: _Work) -> None:
        if work.hosts:
            self._labels.take_later(work.hosts, work.holder.name, then=self._on_cut)

    # The object

    def _object(self, work: _Work) -> stores.Json | None:
        obj = self._store.get(SLICES, None, work.holder.name)
        return obj if obj is not None and obj["metadata"]["uid"] == work.holder.uid else None

    def _show(self, work: _Work, reason: str, message: str) -> None:
        """Write the Ready condition and say so in an event; a Slice that vanished is only remembered."""
        work.reason = reason
        if self._object(work) is None:
            return
        now = stores.timestamp(self._clock.now())
        obj = self._store.mutate(
            SLICES, None, work.holder.name, lambda obj: status.set_ready(obj, reason, message, now)
        )
        kind = events.WARNING if reason in _BAD else events.NORMAL
        self._ledger.record(COMPONENT, obj, kind, reason, message or f"Slice is {reason}.")

    # The calendar

    def _plan(self, work: _Work, wait_s: float, step: Callable[[_Work], None]) -> None:
        """Make `step` the work's next one, in place of any other."""
        self._cancel(work)

        def due() -> None:
            work.timer = None
            step(work)

        work.timer = self._clock.call_later(wait_s, due)

    @staticmethod
    def _cancel(work: _Work) -> None:
        if work.timer is not None:
            work.timer.cancel()
            work.timer = None

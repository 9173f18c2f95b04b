"""All reservations, with lookups, faults and change notices.

Call everything from the server's thread only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuctl.sim import behaviour as behaviours
from tpuctl.sim import partitions
from tpuctl.sim.hardware import parts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tpuctl.sim import clock as clocks

BLOCK_CUBES = 144
"""Sub-blocks in a full block. Published."""


class Hardware:
    """All reservations, with lookups, faults and change notices."""

    def __init__(
        self,
        clock: clocks.Clock,
        behaviour: behaviours.Behaviour | None = None,
        *,
        seed: int = 0,
    ) -> None:
        self.clock = clock
        self.behaviour = behaviour or behaviours.Behaviour()
        self.seed = seed
        self.reservations: dict[str, parts.Reservation] = {}
        self._blocks: dict[str, parts.Block] = {}
        self._subblocks: dict[str, parts.SubBlock] = {}
        self._by_partition: dict[str, parts.SubBlock] = {}
        self._by_host: dict[str, parts.Host] = {}
        self._by_instance: dict[str, parts.Host] = {}
        self._subscribers: list[Callable[[parts.Change], None]] = []

    # Building

    def add_reservation(
        self, name: str, *, project: str, zone: str, blocks: int = 1, cubes: int = BLOCK_CUBES
    ) -> parts.Reservation:
        """Add a reservation of `blocks` blocks with `cubes` cubes each, all healthy and empty."""
        if name in self.reservations:
            raise ValueError(f"reservation {name} exists")
        if not 1 <= cubes <= BLOCK_CUBES:
            raise ValueError(f"a block has 1 to {BLOCK_CUBES} cubes, not {cubes}")
        reservation = parts.Reservation(name, project, zone, partitions.opaque_id(self.seed, "cluster", name))
        self.reservations[name] = reservation
        for number in range(1, blocks + 1):
            self._add_block(reservation, f"{name}-block-{number:04}", cubes)
        return reservation

    def _add_block(self, reservation: parts.Reservation, name: str, cubes: int) -> None:
        block = parts.Block(name, partitions.opaque_id(self.seed, "block", name), reservation)
        reservation.blocks.append(block)
        self._blocks[name] = block
        for number in range(1, cubes + 1):
            block.subblocks.append(self._build_cube(block, f"{name}-subblock-{number:04}"))

    def _build_cube(self, block: parts.Block, name: str) -> parts.SubBlock:
        ids = partitions.partition_ids(self.seed, name)
        cube = parts.SubBlock(name, partitions.opaque_id(self.seed, "subblock", name), block, ids)
        cube.hosts = tuple(
            parts.Host(partitions.opaque_id(self.seed, "host", name, index), index, cube)
            for index in range(partitions.CUBE_HOSTS)
        )
        self._subblocks[name] = self._subblocks[cube.id] = cube
        self._by_partition.update((one, cube) for shape_ids in ids.values() for one in shape_ids)
        self._by_host.update((host.id, host) for host in cube.hosts)
        return cube

    # Looking things up

    def subblocks(self) -> Iterator[parts.SubBlock]:
        """Yield all cubes, in order of reservation, block and number."""
        for reservation in self.reservations.values():
            for block in reservation.blocks:
                yield from block.subblocks

    def find_block(self, name: str) -> parts.Block:
        """Return the block called `name`; KeyError if there is none."""
        return self._blocks[name]

    def find_subblock(self, name_or_id: str) -> parts.SubBlock:
        """Return the cube with this name, topology id or partition id (any shape); KeyError if none."""
        found = self._subblocks.get(name_or_id) or self._by_partition.get(name_or_id)
        if found is None:
            raise KeyError(name_or_id)
        return found

    def find_host(self, name: str) -> parts.Host:
        """Return the host by id, by its VM's (node's) name or as `<sub-block>/<index>`; else KeyError."""
        found = self._by_host.get(name) or self._by_instance.get(name)
        if found is not None:
            return found
        cube_name, _, index = name.rpartition("/")
        cube = self._subblocks.get(cube_name)
        if cube is None or not index.isdecimal() or int(index) >= len(cube.hosts):
            raise KeyError(name)
        return cube.hosts[int(index)]

    def partition_hosts(self, partition_id: str) -> tuple[parts.Host, ...]:
        """Return the hosts of a partition of any shape; KeyError if the id is unknown."""
        return self._by_partition[partition_id].members(partition_id)

    def shape_of(self, partition_id: str) -> partitions.Shape:
        """Return the shape of a partition; KeyError if the id is unknown."""
        ids_of = self._by_partition[partition_id].partition_ids
        return next(shape for shape, ids in ids_of.items() if partition_id in ids)

    # Notices

    def subscribe(self, callback: Callable[[parts.Change], None]) -> None:
        """Call `callback` after each change, in order of subscription."""
        self._subscribers.append(callback)

    def _tell(self, kind: parts.ChangeKind, subblock: parts.SubBlock, host: parts.Host | None = None) -> None:
        change = parts.Change(kind, subblock, host)
        for callback in self._subscribers:
            callback(change)

    # Faults

    def host_down(
        self,
        host: parts.Host,
        fault: parts.Fault = parts.Fault.CRASHED,
        *,
        repair_after_s: float | None = None,
    ) -> None:
        """Give the host a fault; with `repair_after_s` it is lifted, with all others, after that time."""
        self._set_faults(host, host.faults | {fault})
        if repair_after_s is not None:
            self._cancel_repair(host)
            host.repair = self.clock.call_later(repair_after_s, lambda: self.host_up(host))

    def host_up(self, host: parts.Host) -> None:
        """Lift all faults of the host. A VM on it boots again, one whose guest hangs included."""
        self._cancel_repair(host)
        self._set_faults(host, frozenset())
        if host.vm is not None and host.vm.hangs:
            self.reset_vm(host)

    def lift(self, host: parts.Host, fault: parts.Fault) -> None:
        """Lift one fault of the host; it works again if that was the last one."""
        if fault is parts.Fault.IN_REPAIR or host.faults <= {fault}:
            self._cancel_repair(host)
        self._set_faults(host, host.faults - {fault})

    def crash_guest(self, host: parts.Host) -> None:
        """Let the guest hang: the VM counts as RUNNING, its machine as healthy, and nothing in it answers.

        A reset helps, as `host_up` does. ValueError if no guest is up there.
        """
        if host.vm is None or not host.serving:
            raise ValueError(f"no VM is up on host {host.id}")
        host.vm.ready = False
        self._tell(parts.ChangeKind.VM, host.subblock, host)

    def cube_degraded(self, subblock: parts.SubBlock) -> None:
        """Take an optical link of the cube down."""
        self._set_fabric(subblock, degraded=True)

    def cube_restored(self, subblock: parts.SubBlock) -> None:
        """Bring the cube's optical links back."""
        self._set_fabric(subblock, degraded=False)

    def group_stuck(self, subblock: parts.SubBlock, *, stuck: bool) -> None:
        """Let the instance group over the cube hang in an update, or move on."""
        if subblock.group_stuck != stuck:
            subblock.group_stuck = stuck
            self._tell(parts.ChangeKind.GROUP, subblock)

    def partial(self, subblock: parts.SubBlock, *, hosts: int) -> None:
        """Leave the cube with its first `hosts` hosts; the rest is missing until `host_up`.

        ValueError if VMs run in the cube, because delivered hosts do not go missing under a VM.
        """
        if not 0 <= hosts <= partitions.CUBE_HOSTS:
            raise ValueError(f"a cube has 0 to {partitions.CUBE_HOSTS} hosts, not {hosts}")
        if subblock.used:
            raise ValueError(f"{subblock.name} already carries {subblock.used} VMs")
        for host in subblock.hosts:
            absent = {parts.Fault.MISSING} if host.index >= hosts else set()
            self._set_faults(host, (host.faults - {parts.Fault.MISSING}) | absent)

    def plan_maintenance(
        self, subblock: parts.SubBlock, *, start_in_s: float | None = None, duration_s: float | None = None
    ) -> None:
        """Plan a window in which every host of the cube is away, then comes back.

        Without `start_in_s` it begins as long ahead as the service announces it. A plan replaces an earlier
        one, which ends.
        """
        self.end_maintenance(subblock)
        start_in_s = self.behaviour.maintenance_notice_s if start_in_s is None else start_in_s
        duration_s = self.behaviour.maintenance_s if duration_s is None else duration_s
        start_s = self.clock.now_s + start_in_s
        plan = subblock.maintenance = parts.Maintenance(start_s, start_s + duration_s)
        self.clock.call_later(start_in_s, lambda: self._maintain(subblock, plan))
        self.clock.call_later(start_in_s + duration_s, lambda: self._end_maintenance(subblock, plan))
        self._tell(parts.ChangeKind.MAINTENANCE, subblock)

    def end_maintenance(self, subblock: parts.SubBlock) -> None:
        """Withdraw the plan of the cube, or end its maintenance early; nothing happens without a plan."""
        if subblock.maintenance is not None:
            self._end_maintenance(subblock, subblock.maintenance)

    def _maintain(self, subblock: parts.SubBlock, plan: parts.Maintenance) -> None:
        """Open the window: the VMs are warned now and stop a little later."""
        if subblock.maintenance is plan:
            plan.ongoing = True
            self._tell(parts.ChangeKind.MAINTENANCE, subblock)
            wait_s = self.behaviour.maintenance_drain_s
            self.clock.call_later(wait_s, lambda: self._stop_for_maintenance(subblock, plan))

    def _stop_for_maintenance(self, subblock: parts.SubBlock, plan: parts.Maintenance) -> None:
        if subblock.maintenance is plan:
            for host in subblock.hosts:
                self._set_faults(host, host.faults | {parts.Fault.MAINTENANCE})

    def _end_maintenance(self, subblock: parts.SubBlock, plan: parts.Maintenance) -> None:
        if subblock.maintenance is plan:
            subblock.maintenance = None
            self._tell(parts.ChangeKind.MAINTENANCE, subblock)
            for host in subblock.hosts:
                self._set_faults(host, host.faults - {parts.Fault.MAINTENANCE})

    def _set_faults(self, host: parts.Host, faults: Iterable[parts.Fault]) -> None:
        faults = frozenset(faults)
        if faults == host.faults:
            return
        was_powered, host.faults = host.powered, faults
        if was_powered and not host.powered:
            self._stop_vm(host)
        elif host.powered and not was_powered and host.vm is not None:
            self._boot(host, self.behaviour.vm_boot_s)
        self._tell(parts.ChangeKind.HOST, host.subblock, host)

    def _set_fabric(self, subblock: parts.SubBlock, *, degraded: bool) -> None:
        if subblock.ocs_degraded != degraded:
            subblock.ocs_degraded = degraded
            self._tell(parts.ChangeKind.FABRIC, subblock)

    @staticmethod
    def _cancel_repair(host: parts.Host) -> None:
        if host.repair is not None:
            host.repair.cancel()
            host.repair = None

    # VMs

    def start_vm(self, host: parts.Host, vm: parts.Vm, *, boot_s: float) -> None:
        """Put a new VM on an empty, powered host; its guest is up after `boot_s`."""
        if host.vm is not None or not host.powered:
            raise ValueError(f"host {host.id} cannot take {vm.name}")
        host.vm = vm
        self._by_instance[vm.name] = host
        self._boot(host, boot_s)
        self._tell(parts.ChangeKind.VM, host.subblock, host)

    def remove_vm(self, host: parts.Host) -> None:
        """Take the VM off the host; nothing happens if it has none."""
        vm, host.vm = host.vm, None
        if vm is not None:
            self._cancel_boot(vm)
            del self._by_instance[vm.name]
            self._tell(parts.ChangeKind.VM, host.subblock, host)

    def reset_vm(self, host: parts.Host) -> None:
        """Pull the plug and boot again; the VM counts as RUNNING all the time, as for a real reset."""
        if host.vm is None or not host.powered:
            raise ValueError(f"host {host.id} runs no VM")
        self._boot(host, self.behaviour.vm_boot_s, status=parts.VmStatus.RUNNING)
        self._tell(parts.ChangeKind.VM, host.subblock, host)

    def _boot(
        self, host: parts.Host, boot_s: float, *, status: parts.VmStatus = parts.VmStatus.STAGING
    ) -> None:
        vm = host.vm
        if vm is not None:
            self._cancel_boot(vm)
            vm.ready, vm.status = False, status
            vm.boot = self.clock.call_later(boot_s, lambda: self._booted(host, vm))

    def _booted(self, host: parts.Host, vm: parts.Vm) -> None:
        vm.boot, vm.ready, vm.status, vm.started_s = None, True, parts.VmStatus.RUNNING, self.clock.now_s
        self._tell(parts.ChangeKind.VM, host.subblock, host)

    def _stop_vm(self, host: parts.Host) -> None:
        if host.vm is not None:
            self._cancel_boot(host.vm)
            host.vm.ready, host.vm.status = False, parts.VmStatus.REPAIRING

    @staticmethod
    def _cancel_boot(vm: parts.Vm) -> None:
        if vm.boot is not None:
            vm.boot.cancel()
            vm.boot = None

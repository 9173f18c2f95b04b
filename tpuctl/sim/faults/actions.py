"""What each fault does to the simulated world, and how it is undone."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tpuctl.sim import hardware as hardwares
from tpuctl.sim.controllers import slice_faults

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tpuctl.sim import clock as clocks
    from tpuctl.sim.faults.targets import Scene, Thing

    Parameters = Mapping[str, float]
    Action = Callable[[Scene, Thing, Parameters], "Done"]

Kind = hardwares.Fault


class BadFault(ValueError):
    """The fault does not fit: a parameter is missing, or the target is in the wrong state."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Done:
    """What came of an action."""

    message: str
    undo: Callable[[], None] | None = None
    """Takes this fault back, and no other one; None if it is over as soon as it is done."""
    lasts: Callable[[], bool] = lambda: True
    """Whether the fault is still there: somebody else may have ended it."""


def _place(host: hardwares.Host) -> str:
    return f"host {host.index} of {host.subblock.name}"


# Hosts


def host_fault(fault: hardwares.Fault, text: str) -> Action:
    """An action that gives a host one of the hardware's faults."""

    def act(scene: Scene, thing: Thing, _parameters: Parameters) -> Done:
        host = thing.its_host
        if fault in host.faults:
            raise BadFault(f"{_place(host)} has this fault already")
        scene.hardware.host_down(host, fault)
        return Done(
            message=f"{_place(host)} {text}",
            undo=lambda: scene.hardware.lift(host, fault),
            lasts=lambda: fault in host.faults,
        )

    return act


def host_gone(scene: Scene, thing: Thing, _parameters: Parameters) -> Done:
    """The machine is taken out of the cube, its VM with it."""
    if thing.its_host.vm is None:
        raise BadFault(f"{_place(thing.its_host)} carries no VM")
    return host_fault(Kind.MISSING, "is gone, VM and node with it")(scene, thing, {})


def host_crash(scene: Scene, thing: Thing, _parameters: Parameters) -> Done:
    """The guest hangs, the VM stays."""
    host = thing.its_host
    try:
        scene.hardware.crash_guest(host)
    except ValueError as error:
        raise BadFault(str(error)) from error
    vm = host.vm

    def hangs() -> bool:
        return vm is not None and host.vm is vm and vm.hangs

    def undo() -> None:
        if hangs():
            scene.hardware.reset_vm(host)

    return Done(message=f"{_place(host)} hangs", undo=undo, lasts=hangs)


def host_up(scene: Scene, thing: Thing, _parameters: Parameters) -> Done:
    """Everything wrong with the host is repaired."""
    scene.hardware.host_up(thing.its_host)
    return Done(message=f"{_place(thing.its_host)} is repaired")


class _Flapping:
    """A host that goes down, comes up, goes down, until it is stopped."""

    def __init__(self, scene: Scene, host: hardwares.Host, every_s: float) -> None:
        self._scene = scene
        self._host = host
        self._every_s = every_s
        self._down = False
        self._timer: clocks.Timer | None = None
        self.turn()

    def turn(self) -> None:
        self._down = not self._down
        if self._down:
            self._scene.hardware.host_down(self._host, Kind.CRASHED)
        else:
            self._scene.hardware.lift(self._host, Kind.CRASHED)
        self._timer = self._scene.clock.call_later(self._every_s, self.turn)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._scene.hardware.lift(self._host, Kind.CRASHED)

    def lasts(self) -> bool:
        """Repaired while it was down: it stays up, and the flapping is over."""
        if self._timer is not None and self._down and Kind.CRASHED not in self._host.faults:
            self.stop()
        return self._timer is not None


def flapping(scene: Scene, thing: Thing, parameters: Parameters) -> Done:
    """The host changes between down and up every `every_s` seconds."""
    host, every_s = thing.its_host, parameters["every_s"]
    flaps = _Flapping(scene, host, every_s)
    text = f"{_place(host)} goes down and up every {every_s:g} s"
    return Done(message=text, undo=flaps.stop, lasts=flaps.lasts)


# Cubes


def cube_down(scene: Scene, thing: Thing, _parameters: Parameters) -> Done:
    """All hosts of the cube die."""
    [cube] = thing.cubes
    hit = [host for host in cube.hosts if Kind.CRASHED not in host.faults]
    if not hit:
        raise BadFault(f"{cube.name} is down already")
    for host in hit:
        scene.hardware.host_down(host, Kind.CRASHED)

    def undo() -> None:
        for host in hit:
            scene.hardware.lift(host, Kind.CRASHED)

    text = f"all {len(cube.hosts)} hosts of {cube.name} are down"
    return Done(message=text, undo=undo, lasts=lambda: any(Kind.CRASHED in host.faults for host in hit))


def cube_up(scene: Scene, thing: Thing, _parameters: Parameters) -> Done:
    """All hosts of the cube are repaired."""
    [cube] = thing.cubes
    for host in cube.hosts:
        scene.hardware.host_up(host)
    return Done(message=f"all hosts of {cube.name} are repaired")


def cube_degraded(scene: Scene, thing: Thing, _parameters: Parameters) -> Done:
    """An optical link of the cube fails."""
    [cube] = thing.cubes
    scene.hardware.cube_degraded(cube)
    return Done(
        message=f"an optical link of {cube.name} is down",
        undo=lambda: scene.hardware.cube_restored(cube),
        lasts=lambda: cube.ocs_degraded,
    )


def cube_restored(scene: Scene, thing: Thing, _parameters: Parameters) -> Done:
    """The optical links of the cube work again."""
    [cube] = thing.cubes
    scene.hardware.cube_restored(cube)
    return Done(message=f"the optical links of {cube.name} are up")


def partial(scene: Scene, thing: Thing, parameters: Parameters) -> Done:
    """The cube has its first `hosts` hosts only."""
    [cube], hosts = thing.cubes, int(parameters["hosts"])
    try:
        scene.hardware.partial(cube, hosts=hosts)
    except ValueError as error:
        raise BadFault(str(error)) from error
    absent = [host for host in cube.hosts if Kind.MISSING in host.faults]

    def undo() -> None:
        for host in absent:
            scene.hardware.lift(host, Kind.MISSING)

    return Done(
        message=f"{cube.name} has {hosts} of {len(cube.hosts)} hosts",
        undo=undo,
        lasts=lambda: any(Kind.MISSING in host.faults for host in absent),
    )


def mig_unstable(scene: Scene, thing: Thing, _parameters: Parameters) -> Done:
    """The instance group over the cube is stuck in an update."""
    [cube] = thing.cubes
    scene.hardware.group_stuck(cube, stuck=True)
    return Done(
        message=f"the instance group over {cube.name} is not stable",
        undo=lambda: scene.hardware.group_stuck(cube, stuck=False),
        lasts=lambda: cube.group_stuck,
    )


def mig_stable(scene: Scene, thing: Thing, _parameters: Parameters) -> Done:
    """The instance group over the cube moves on."""
    [cube] = thing.cubes
    scene.hardware.group_stuck(cube, stuck=False)
    return Done(message=f"the instance group over {cube.name} is stable")


# Maintenance


def maintenance(scene: Scene, thing: Thing, parameters: Parameters) -> Done:
    """A window begins `after_s` from now and is over `for_s` later."""
    start_s, duration_s = parameters["after_s"], parameters["for_s"]
    for cube in thing.cubes:
        scene.hardware.plan_maintenance(cube, start_in_s=start_s, duration_s=duration_s)
    plans = [(cube, cube.maintenance) for cube in thing.cubes]

    def undo() -> None:
        for cube, plan in plans:
            if cube.maintenance is plan:
                scene.hardware.end_maintenance(cube)

    cubes = "1 cube" if len(plans) == 1 else f"{len(plans)} cubes"
    return Done(
        message=f"maintenance of {thing.name} ({cubes}) in {start_s:g} s, for {duration_s:g} s",
        undo=undo,
        lasts=lambda: any(cube.maintenance is plan for cube, plan in plans),
    )


def maintenance_end(scene: Scene, thing: Thing, _parameters: Parameters) -> Done:
    """Planned windows are withdrawn, open ones are closed."""
    for cube in thing.cubes:
        scene.hardware.end_maintenance(cube)
    return Done(message=f"no maintenance of {thing.name} any more")


# Slices


def fail_activation(scene: Scene, thing: Thing, parameters: Parameters) -> Done:
    """The next formations of a slice, or of any slice on a cube, end in FAILED."""
    times = int(parameters["times"])
    cube = thing.cubes[0] if thing.cubes else None
    failure = slice_faults.Failure(left=times, slice_name=thing.slice_name, cube=cube)
    scene.slices.fail_activations(failure)
    what = f"slice {thing.name}" if cube is None else f"slices on {cube.name}"
    return _to_come(scene, failure, f"the next {times} formations of {what} fail")


def fail_deactivation(scene: Scene, thing: Thing, parameters: Parameters) -> Done:
    """The next dismantlings of a slice end in FAILED, and are tried again."""
    times = int(parameters["times"])
    failure = slice_faults.Failure(left=times, slice_name=thing.its_slice)
    scene.slices.fail_deactivations(failure)
    return _to_come(scene, failure, f"the next {times} dismantlings of slice {thing.name} fail")


def _to_come(scene: Scene, failure: slice_faults.Failure, text: str) -> Done:
    return Done(
        message=text,
        undo=lambda: scene.slices.withdraw(failure),
        lasts=lambda: failure.left > 0,
    )


def stuck_finalizer(scene: Scene, thing: Thing, _parameters: Parameters) -> Done:
    """The slice stays in DEACTIVATING once it is deleted."""
    name = thing.its_slice
    scene.slices.hold(name)
    return Done(
        message=f"slice {name} will stay in DEACTIVATING until it is released",
        undo=lambda: scene.slices.release(name),
        lasts=lambda: scene.slices.is_stuck(name),
    )


def release_finalizer(scene: Scene, thing: Thing, _parameters: Parameters) -> Done:
    """The dismantling of the slice goes on."""
    name = thing.its_slice
    if not scene.slices.is_stuck(name):
        raise BadFault(f"slice {name} is not held")
    scene.slices.release(name)
    return Done(message=f"the dismantling of slice {name} goes on")

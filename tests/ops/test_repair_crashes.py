"""kill -9 at every write of a repair: the next run looks first, and what cannot be undone is done once."""

import dataclasses
import itertools
from collections.abc import Iterator

import pytest

from tests.ops import repair_scenes as scenes
from tests.ops.conftest import Killed, Recorder, scene_of, whole
from tpuctl.cli.rehearsal import Rehearsal
from tpuctl.model import declared, errors, fleet, records, repairs
from tpuctl.ops import ports as ports_module
from tpuctl.ops import repairs as ops
from tpuctl.ops.repairs import registry

Remedy, State, Step = declared.Remedy, repairs.State, repairs.Step
WRITES = {
    "records": ("create", "replace", "delete"),
    "leases": ("create", "renew", "free", "delete"),
    "instances": ("reset", "report_faulty"),
    "pools": ("create", "delete"),
}


class Fuse:
    """Dies at the write of that number, before or after it reaches the server."""

    def __init__(self, number: int, *, after: bool) -> None:
        self._left = number
        self._after = after
        self.blown = False
        self.names: list[str] = []

    def wrapped(self, ports: ports_module.Ports) -> ports_module.Ports:
        changes = {port: _Port(getattr(ports, port), port, names, self) for port, names in WRITES.items()}
        return dataclasses.replace(ports, **changes)

    def call(self, name: str, call, *arguments: object, **options: object) -> object:
        if self.blown:
            raise Killed
        self._left -= 1
        self.names.append(name)
        if self._left == 0 and not self._after:
            self.blown = True
            raise Killed
        found = call(*arguments, **options)
        if self._left == 0:
            self.blown = True
            raise Killed
        return found


class _Port:
    def __init__(self, inner: object, port: str, writes: tuple[str, ...], fuse: Fuse) -> None:
        self._inner, self._port, self._writes, self._fuse = inner, port, writes, fuse

    def __getattr__(self, name: str) -> object:
        found = getattr(self._inner, name)
        if name not in self._writes:
            return found
        return lambda *given, **options: self._fuse.call(f"{self._port}.{name}", found, *given, **options)


def tried_before(scene: Rehearsal, host: fleet.Host) -> None:
    """Two reboots that did not help, so that a report is due."""
    at = scenes.now(scene)
    rungs = tuple(
        repairs.Rung(
            f"r-{host.name}-{number}",
            host.cube_id,
            host.name,
            repairs.Ailment.CHIPS_UNUSABLE,
            Remedy.REBOOT,
            State.FAILED,
            at,
        )
        for number in range(2)
    )
    book = registry.load(scene.ports)
    ledger = dataclasses.replace(book.ledger, rungs=(*book.ledger.rungs, *rungs))
    book.saved(scene.ports, Recorder(), ledger)
    scene.simulator.advance(1900)


def agreed(scene: Rehearsal, loop: scenes.Loop, fault: str, host: fleet.Host) -> repairs.Item:
    """An item on that host to which a person has said yes."""
    scene.simulator.inject(fault, host.name)
    loop.until(lambda review: any(item.case.host == host.name for item in review.items))
    [item] = [item for item in loop.items if item.case.host == host.name]
    return ops.approve(scenes.as_person(scene.ports, "jo"), Recorder(), item.id).item


def killed(scene: Rehearsal, loop: scenes.Loop, fuse: Fuse) -> bool:
    """One cycle that dies at the fuse; false if it came to its end before."""
    loop.ports = fuse.wrapped(scene.ports)
    try:
        loop.cycle()
    except Killed:
        return True
    finally:
        loop.ports = None
        # Whoever died holds its locks until they expire.
        scene.simulator.advance(90)
    return False


@pytest.fixture
def small() -> Iterator[Rehearsal]:
    with scene_of(cubes=2, ready_cubes=2, slice_controller=True) as scene:
        yield scene


def hosts(scene: Rehearsal) -> Iterator[fleet.Host]:
    """A host for each place to die at."""
    return (host for cube in whole(scene).cubes for host in cube.hosts)


def places() -> Iterator[tuple[int, bool]]:
    return ((number, after) for number in itertools.count(1) for after in (False, True))


def test_a_reboot_that_dies_anywhere_resets_its_vm_once(small: Rehearsal) -> None:
    loop = scenes.Loop(small, scenes.spec_of(small))
    died = []
    for host, (number, after) in zip(hosts(small), places(), strict=False):
        item = agreed(small, loop, "host-crash", host)
        fuse = Fuse(number, after=after)
        if not killed(small, loop, fuse):
            break
        died.append(fuse.names[-1])
        assert scenes.resets(small, host) <= 1
        review = loop.until(scenes.closed)
        assert [(one.id, one.state) for one in review.closed] == [(item.id, State.DONE)]
        assert scenes.resets(small, host) == 1
        assert (loop.items, small.ports.leases.list()) == ([], [])
        small.simulator.advance(1900)  # the cube's cooldown
    else:
        raise AssertionError("there were more places to die at than hosts")
    assert {"instances.reset", "records.replace", "leases.create", "leases.delete"} <= set(died)
    loop.until(scenes.closed)


def test_a_report_that_dies_anywhere_is_made_once_and_its_cube_is_held_once(small: Rehearsal) -> None:
    loop = scenes.Loop(small, scenes.spec_of(small, reboot=scenes.OFF))
    died = []
    for number, (host, (place, after)) in enumerate(zip(hosts(small), places(), strict=False)):
        tried_before(small, host)
        item = agreed(small, loop, "chip-error", host)
        assert item.case.remedy is Remedy.REMOVE
        fuse = Fuse(place, after=after)
        if not killed(small, loop, fuse):
            break
        died.append(fuse.names[-1])
        assert scenes.reports(small, host) <= 1
        loop.until(lambda _review: [one.step for one in loop.items] == [Step.REPORTED])
        assert scenes.reports(small, host) == 1
        [held] = small.ports.records.list(records.HOLD)
        assert records.read_hold(held.text, held.name).cube_id == host.cube_id
        ops.cancel(small.ports, Recorder(), item.id, reason="next")
        for claim_record in small.ports.records.list("hold"):
            small.ports.records.delete(claim_record)
        loop.cycle()
        assert number < 25
    assert {"instances.report_faulty", "records.create", "records.replace"} <= set(died)


def test_a_pool_deletion_that_dies_anywhere_is_asked_for_once() -> None:
    with scene_of(cubes=24, ready_cubes=24, slice_controller=True) as scene:
        loop = scenes.Loop(scene, scenes.spec_of(scene))
        died = []
        for cube, (number, after) in zip(list(whole(scene).cubes), places(), strict=False):
            begin_reprovision(scene, cube)
            fuse = Fuse(number, after=after)
            if not killed(scene, loop, fuse):
                break
            died.append(fuse.names[-1])
            loop.until(lambda _review: [one.step for one in loop.items] == [Step.DELETED])
            done = [one for one in scene.ports.pools.operations() if one.kind == "DELETE_NODE_POOL"]
            assert sum(one.target == cube.pool.name for one in done) == 1
            for item in loop.items:
                ops.cancel(scene.ports, Recorder(), item.id, reason="next")
            loop.cycle()
        else:
            raise AssertionError("there were more places to die at than pools")
        assert {"pools.delete", "records.replace"} <= set(died)


def begin_reprovision(scene: Rehearsal, cube: fleet.Cube) -> None:
    now = scenes.now(scene)
    case = repairs.Case(
        ailment=repairs.Ailment.POOL_SHORT,
        remedy=Remedy.REPROVISION,
        cube=cube.id,
        block=whole(scene).blocks[0].label,
        pool=cube.pool.name,
        sub_block=cube.sub_block.name,
        reason="short",
        evidence=(),
        blast=repairs.Blast((), 0, 16, 64),
        cost=repairs.Cost(0.0, 1.0, 64, "test"),
    )
    known = tuple(one.name for one in scene.ports.pools.operations())
    item = repairs.Item(
        id=f"r-{cube.pool.name}",
        case=case,
        state=State.RUNNING,
        proposed_at=now,
        expires_at=now,
        approvals_needed=1,
        step=Step.DELETING,
        step_at=now,
        started_at=now,
        known=known,
    )
    registry.begin(scene.ports, item)


def test_two_loops_on_one_item_act_once(small: Rehearsal) -> None:
    """The other one finds the record changed, whatever it had seen before."""
    host = next(hosts(small))
    first = scenes.Loop(small, scenes.spec_of(small))
    agreed(small, first, "host-crash", host)
    second = scenes.Loop(small, first.spec)

    class Late:
        """Another loop acts between this one's list of records and everything else."""

        def __init__(self, inner: ports_module.Records) -> None:
            self._inner, self._done = inner, False

        def list(self, kind: str) -> object:
            found = self._inner.list(kind)
            if not self._done:
                self._done = True
                assert len(first.cycle().executed) == 1
            return found

        def __getattr__(self, name: str) -> object:
            return getattr(self._inner, name)

    second.ports = dataclasses.replace(small.ports, records=Late(small.ports.records))
    review = second.cycle()
    assert (review.executed, scenes.resets(small, host)) == ((), 1)
    assert "somebody has changed it meanwhile" in review.waiting[0][1]
    first.until(scenes.closed)


def test_a_lost_answer_is_not_a_second_reset(scene: Rehearsal) -> None:
    class Lossy:
        """The reset reaches the service, its answer does not reach us."""

        def __init__(self, inner: ports_module.Instances) -> None:
            self._inner = inner

        def reset(self, instance: ports_module.Instance, request_id: str) -> None:
            self._inner.reset(instance, request_id)
            raise errors.Unavailable("cannot reset VM: the service did not answer in time")

        def __getattr__(self, name: str) -> object:
            return getattr(self._inner, name)

    loop = scenes.Loop(scene, scenes.spec_of(scene))
    host = scenes.host_of(scene)
    agreed(scene, loop, "host-crash", host)
    loop.ports = dataclasses.replace(scene.ports, instances=Lossy(scene.ports.instances))
    review = loop.cycle()
    assert (review.executed, loop.items[0].step) == ((), Step.RESETTING)
    assert "did not answer in time" in review.waiting[0][1]
    loop.ports = None
    [found] = loop.cycle().executed
    assert "before the interruption" in found.text
    assert loop.until(scenes.closed).closed[0].state is State.DONE
    assert scenes.resets(scene, host) == 1

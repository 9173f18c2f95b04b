"""A fleet in which nothing happens: what a cycle reads then, and that it writes nothing.

How much CPU that takes is for `tests/bench/steady.py`; here it is counted what is asked of the servers.
"""

from __future__ import annotations

import contextlib
import dataclasses
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests import workloads
from tests.ops.conftest import scene_of
from tests.ops.reconciling.conftest import World, wanted, world_of
from tpuctl.model import declared
from tpuctl.ops import locking
from tpuctl.ops import ports as ports_module
from tpuctl.ops.reconciling import cycle, leadership, loop, memory, pauses, views
from tpuctl.ops.repairs import registry
from tpuctl.sim.api_faults import calls

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from starlette import requests, responses

    from tests.ops.conftest import Recorder
    from tpuctl.cli.rehearsal import Rehearsal
    from tpuctl.model import fleet
    from tpuctl.ops.reconciling import outcomes

CUBES = 142
QUIET = 4
"""Cycles to look at; in virtual time a stream falls silent, by the second, before its next bookmark comes."""


class Call(NamedTuple):
    """One request as it arrived."""

    verb: str
    what: str
    """The resource, with the name of the object or the kind of record that is asked for."""


READS = [
    Call("get", f"configmaps/{memory.RECORD}"),
    Call("get", f"configmaps/{pauses.RECORD}"),
    Call("list", "configmaps tpuctl.dev/record=operation"),
    Call("list", "configmaps tpuctl.dev/record=repair"),
    Call("get", f"configmaps/{registry.LEDGER}"),
]
"""What may have changed without any watch telling it: nothing of it grows with the fleet."""


@pytest.fixture
def block(reporter: Recorder) -> Iterator[World]:
    """A whole block at its declared state, with work on it."""
    with scene_of(cubes=CUBES, ready_cubes=CUBES, slice_controller=True) as scene:
        world = world_of(scene, reporter, wanted("large", "8x16x16"), wanted("small", "2x4x4"))
        world.converge()
        scene.submit(workloads.JOBS, workloads.job("work", "large", 64))
        world.advance(600)
        yield world


@contextlib.contextmanager
def heard(world: World) -> Iterator[list[Call]]:
    """Every request of all APIs while this lasts."""
    seen: list[Call] = []
    inner = world.scene.simulator.world

    async def kubernetes(
        request: requests.Request, _proceed: Callable[[], responses.Response]
    ) -> responses.Response | None:
        call = calls.understand(calls.KUBERNETES, request)
        selector = request.query_params.get("labelSelector", "")
        name = call.target.name if call.target is not None else ""
        what = f"{call.resource}/{name}" if name else f"{call.resource} {selector}".strip()
        seen.append(Call(call.verb, what))
        return None

    async def google(
        request: requests.Request, _proceed: Callable[[], responses.Response]
    ) -> responses.Response | None:
        seen.append(Call(request.method, request.url.path.rsplit("/", 1)[-1]))
        return None

    hooks = [(inner.kube, kubernetes), (inner.gke, google), (inner.compute, google)]
    world.scene.simulator.call(lambda: [api.intercept.insert(0, hook) for api, hook in hooks])
    try:
        yield seen
    finally:
        world.scene.simulator.call(lambda: [api.intercept.remove(hook) for api, hook in hooks])


def cycles(world: World, count: int) -> list[tuple[outcomes.Outcome, list[Call]]]:
    """So many cycles of one loop with a watch, each with what was asked since the one before."""
    found: list[tuple[outcomes.Outcome, list[Call]]] = []
    with heard(world) as seen:

        def keep(outcome: outcomes.Outcome) -> None:
            found.append((outcome, seen[:]))
            seen.clear()

        loop.run(
            world.ports,
            world.reporter,
            world.settings,
            on_cycle=keep,
            stop=lambda: len(found) >= count,
        )
    return found


def test_a_cycle_without_change_reads_five_records_and_writes_nothing(block: World) -> None:
    (first, listed), (second, begun), *rest = cycles(block, 2 + QUIET)
    assert [outcome.failure for outcome, _ in (*rest, (first, ()), (second, ()))] == [None] * (2 + QUIET)
    # The first reads everything; to watch it only slices are read again, and what has no watch.
    assert Call("list", "nodes") in listed
    assert Call("list", "nodes") not in begun
    assert {call for call in begun if call.verb == "watch"} == {
        Call("watch", "nodes"),
        Call("watch", "pods"),
        Call("watch", "slices"),
    }
    for outcome, asked in rest:
        assert outcome.sentence == "142 cubes healthy of 142; 2 slices ACTIVE of 2; nothing to do."
        ours = [call for call in asked if not call.what.startswith(f"leases/{leadership.NAME}")]
        assert ours == READS


def test_what_has_not_changed_is_the_same_object(block: World) -> None:
    first, *rest = (outcome.view.snapshot for outcome, _ in cycles(block, 2 + QUIET) if outcome.view)
    assert len(rest) == 1 + QUIET
    assert len(first.cubes) == CUBES
    assert len(first.pods) == 64
    for snapshot in rest:
        assert snapshot.observed_at > first.observed_at
        assert snapshot.blocks is first.blocks
        assert snapshot.slices is first.slices
        assert snapshot.pods is first.pods
        # So are the tables that were made of them.
        assert snapshot.cubes_by_id is first.cubes_by_id


def test_after_a_change_all_else_is_the_same_object(block: World) -> None:
    """What was found out about the other 141 cubes need not be found out again."""
    before = block.ports.fleet.observe(views.SOURCES)
    free = next(cube for cube in before.cubes if cube.id not in before.holders)
    block.scene.simulator.inject("host-crash", free.hosts[3].name)
    block.advance(120)
    after = block.ports.fleet.observe(views.SOURCES)
    changed = [cube for cube in after.cubes if cube is not before.cubes_by_id[cube.id]]
    assert [cube.id for cube in changed] == [free.id]
    assert after.slices is before.slices


# -- large fleets take a while ---------------------------------------------------------------------------


class Slow:
    """A reader that takes five minutes, as with 100,000 nodes and a busy server."""

    def __init__(self, world: World) -> None:
        self._world = world

    def observe(
        self, sources: Collection[fleet.SourceName], *, meanwhile: Callable[[], None] | None = None
    ) -> fleet.Fleet:
        for _ in range(30):
            self._world.advance(10)
            if meanwhile is not None:
                meanwhile()
        return self._world.scene.ports.fleet.observe(sources)


@pytest.fixture
def small(scene: Rehearsal, reporter: Recorder) -> World:
    return world_of(scene, reporter, wanted("train", "4x4x8"))


def test_who_reads_for_long_keeps_the_lead(small: World) -> None:
    ports = dataclasses.replace(small.ports, fleet=Slow(small))
    with leadership.lead(ports, small.reporter) as leader:
        assert leader is not None
        outcome = cycle.run(ports, small.reporter, small.settings, leader)
    assert outcome.failure is None
    assert outcome.is_full


def test_who_lost_the_lead_while_reading_does_not_read_on(small: World) -> None:
    def take() -> None:
        locking.break_lock(small.ports, leadership.NAME, reason="test")

    class Robbed(Slow):
        def observe(
            self, sources: Collection[fleet.SourceName], *, meanwhile: Callable[[], None] | None = None
        ) -> fleet.Fleet:
            take()
            return super().observe(sources, meanwhile=meanwhile)

    ports = dataclasses.replace(small.ports, fleet=Robbed(small))
    begun_s = ports.clock.monotonic_s()
    with leadership.lead(ports, small.reporter) as leader:
        assert leader is not None
        outcome = cycle.run(ports, small.reporter, small.settings, leader)
    assert isinstance(outcome.failure, leadership.LostLeadership)
    assert ports.clock.monotonic_s() - begun_s < 60


class Blank:
    """A watch that shows nothing yet."""

    def __init__(self, world: World, trouble: str = "") -> None:
        self._world = world
        self._trouble = trouble

    def follow(
        self, _sources: Collection[fleet.SourceName], **_how: object
    ) -> Iterator[ports_module.Sighting]:
        while True:
            self._world.advance(5)
            yield ports_module.Sighting(None, self._trouble)


@pytest.mark.parametrize(("trouble", "cycles"), [("", 2), ("cannot list nodes", 10)])
def test_while_a_watch_reads_its_first_lists_nobody_else_reads_them(
    small: World, trouble: str, cycles: int
) -> None:
    """Until it has taken too long for that; a watch that is in trouble is not waited for."""
    loop.run(
        dataclasses.replace(small.ports, changes=Blank(small, trouble)),
        small.reporter,
        dataclasses.replace(small.settings, mode=declared.Mode.OBSERVE),
        on_cycle=small.outcomes.append,
        deadline_s=loop.BEGINS_S,
    )
    assert [outcome.failure for outcome in small.outcomes] == [None] * len(small.outcomes)
    assert cycles - 1 <= len(small.outcomes) <= cycles

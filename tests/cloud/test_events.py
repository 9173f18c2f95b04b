"""Kubernetes Events: written once, counted when they are repeated, never a flood."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.ops.conftest import scene_of
from tpuctl.cloud import events
from tpuctl.model import errors, fleet
from tpuctl.ops import ports
from tpuctl.sim import api_faults

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tpuctl.cli.rehearsal import Rehearsal


@pytest.fixture
def scene() -> Iterator[Rehearsal]:
    with scene_of(cubes=1, ready_cubes=1, slice_controller=True) as made:
        yield made


@pytest.fixture
def node(scene: Rehearsal) -> ports.About:
    host = scene.ports.fleet.observe((fleet.SourceName.NODES,)).cubes[0].hosts[3]
    return ports.About("Node", host.name, host.uid)


def ours(scene: Rehearsal) -> list[dict[str, Any]]:
    """Events that tpuctl wrote, as the server has them."""
    store = scene.simulator.world.store
    found = scene.simulator.call(lambda: [*store.list("events")])
    return [item for item in found if item["source"]["component"] == "tpuctl"]


def test_an_event_says_what_about_which_object(scene: Rehearsal, node: ports.About) -> None:
    scene.ports.events.emit(node, "SwappedOut", "its cube was swapped out", warning=True)
    [found] = ours(scene)
    assert found["involvedObject"] == {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.uid}
    assert (found["reason"], found["message"]) == ("SwappedOut", "its cube was swapped out")
    assert (found["type"], found["count"]) == ("Warning", 1)
    assert found["metadata"]["namespace"] == "default"
    assert found["firstTimestamp"] == found["lastTimestamp"]


def test_the_same_is_counted_and_not_written_each_time(scene: Rehearsal, node: ports.About) -> None:
    """30 repetitions in 5 minutes are one write; they are not lost."""
    for _ in range(30):
        scene.ports.events.emit(node, "Formed", "again")
        scene.simulator.advance(events.QUIET_S / 40)
    [found] = ours(scene)
    assert found["count"] == 1
    scene.simulator.advance(events.QUIET_S)
    scene.ports.events.emit(node, "Formed", "again")
    [found] = ours(scene)
    assert found["count"] == 31
    assert found["lastTimestamp"] > found["firstTimestamp"]


def test_another_process_counts_the_same_event_up(scene: Rehearsal, node: ports.About) -> None:
    scene.ports.events.emit(node, "Formed", "again")
    kube, clock = scene.ports.events._kube, scene.ports.events._clock
    events.KubeEvents(kube, clock).emit(node, "Formed", "again")
    [found] = ours(scene)
    assert found["count"] == 2


def test_other_words_are_other_events(scene: Rehearsal, node: ports.About) -> None:
    scene.ports.events.emit(node, "Formed", "one")
    scene.ports.events.emit(node, "Formed", "two")
    scene.ports.events.emit(node, "Formed", "two", warning=True)
    assert len(ours(scene)) == 3


def test_a_long_text_is_cut_to_what_the_server_takes(scene: Rehearsal, node: ports.About) -> None:
    scene.ports.events.emit(node._replace(name="n" * 253), "Formed", "x" * 5000)
    [found] = ours(scene)
    assert len(found["message"]) == events.MAX_MESSAGE
    assert found["message"].endswith("...")
    assert len(found["metadata"]["name"]) <= 253


def test_an_answer_that_was_lost_does_not_write_twice(scene: Rehearsal, node: ports.About) -> None:
    lost = api_faults.injected(
        scene.simulator, api_faults.Reset("after"), api="kubernetes", verb="create", resource="events", call=1
    )
    with lost:
        scene.ports.events.emit(node, "Formed", "one")
    [found] = ours(scene)
    assert found["count"] == 1


def test_a_refusal_is_an_error_of_ours(scene: Rehearsal, node: ports.About) -> None:
    denied = api_faults.injected(
        scene.simulator, api_faults.Error(403), api="kubernetes", verb="create", resource="events"
    )
    with denied, pytest.raises(errors.NotPermitted):
        scene.ports.events.emit(node, "Formed", "one")

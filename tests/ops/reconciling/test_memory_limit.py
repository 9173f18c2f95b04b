"""A memory that could not be written would end everything: an object of more than 1 MiB is refused."""

from __future__ import annotations

import dataclasses
import datetime
from typing import TYPE_CHECKING

from tests.ops.reconciling.conftest import wanted, world_of
from tests.ops.reconciling.test_unattended import until
from tests.ops.test_swapping import break_host
from tpuctl.model import reconciling, records
from tpuctl.ops.reconciling import memory

if TYPE_CHECKING:
    from tests.ops.conftest import Recorder
    from tpuctl.cli.rehearsal import Rehearsal

NOW = datetime.datetime(2026, 1, 5, 8, tzinfo=datetime.UTC)


def test_what_comes_back_by_itself_is_given_up(scene: Rehearsal, reporter: Recorder) -> None:
    """A quota of zero: thousands of node pools whose creation was refused, each with its reason."""
    world = world_of(scene, reporter, wanted("train", "4x4x8"), wanted("keep", "4x4x4"))
    world.converge()
    found = memory.peek(world.ports)
    attempts = tuple(
        reconciling.Attempt(f"create-pool/cube-{number:032x}", 1, NOW, "x" * 400) for number in range(2500)
    )
    spent = (reconciling.Disruption(NOW, 64, "swap/other"),)
    full = dataclasses.replace(found.memory, attempts=attempts, disruptions=spent)
    assert len(records.write(full)) > 1024 * 1024
    saved = memory.save(world.ports, found, full)
    kept = memory.peek(world.ports).memory
    assert kept == saved.memory
    assert len(records.write(kept)) <= memory.MAX_BYTES
    assert (kept.formed, kept.disruptions) == (full.formed, spent)
    assert len(kept.attempts) == 1250
    assert "more to remember than one record holds" in kept.recommendations[0].text
    assert memory.save(world.ports, saved, full) == saved  # nothing is written for the same again
    break_host(world.scene, world.slice("train").partition_ids[0])
    until(world, reconciling.ActionKind.SWAP)


def test_the_most_telling_of_each_kind_stays() -> None:
    moments = [NOW + datetime.timedelta(seconds=number) for number in range(8)]
    full = reconciling.Memory(
        attempts=tuple(reconciling.Attempt(f"form/{number}", number, NOW, "x" * 50) for number in range(8)),
        sightings=tuple(
            reconciling.Sighting("room", str(number), at, 2) for number, at in enumerate(moments)
        ),
    )
    half = memory.fitting(full, len(records.write(full)) - 1)
    assert [entry.failures for entry in half.attempts] == [4, 5, 6, 7]
    assert half.sightings == full.sightings
    without = dataclasses.replace(full, attempts=())
    less = memory.fitting(full, len(records.write(without)) - 1)
    # The oldest ones are nearest to the end of their grace: forgotten, they would never get there.
    assert (less.attempts, [entry.since for entry in less.sightings]) == ((), moments[:4])

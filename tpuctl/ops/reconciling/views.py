"""The whole world at one moment, or an error: what a cycle decides on.

Nothing is written here. A source that could not be read to its end, that is older than what was seen before,
or that has not been heard for long is an error, never a smaller fleet.
"""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, NamedTuple

from tpuctl.engine import reconciling as engine
from tpuctl.model import errors, fleet, reconciling
from tpuctl.ops import health_watching, journal
from tpuctl.ops import ports as ports_module
from tpuctl.ops.reconciling import memory as memory_module
from tpuctl.ops.reconciling import pauses

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tpuctl.ops.reconciling import settings as settings_module

SOURCES = tuple(fleet.SourceName)
_WATCHED = (fleet.SourceName.NODES, fleet.SourceName.SLICES, fleet.SourceName.PODS)
HEARD_S = 1.5 * health_watching.SILENCE_S
"""A watched source that has not been heard for so many real seconds is stale: its stream is begun anew before
that."""
REREAD_S = health_watching.REREAD_S
"""How often sources without a watch are read while nothing happens."""
_POOL_KINDS = frozenset({"CREATE_NODE_POOL", "DELETE_NODE_POOL"})


class Stale(errors.GuardStopped):
    """The view is older than what may be acted upon, or contradicts itself."""


class Observed(NamedTuple):
    """A view, and the record of the memory in it."""

    view: engine.View
    loaded: memory_module.Loaded


def observe(
    ports: ports_module.Ports, settings: settings_module.Settings, previous: engine.View | None = None
) -> Observed:
    """Read everything anew.

    Raises NotPermitted, Unavailable, NotFound, DamagedRecord, and Stale if a list is older than the one in
    `previous`: a server that lags behind answers with a world that is no more.
    """
    loaded = memory_module.load(ports, settings.spec.name)
    pause = pauses.current(ports)
    snapshot = ports.fleet.observe(SOURCES)
    if previous is not None:
        _refuse_older(previous.snapshot, snapshot)
    in_flight = sum(
        operation.kind in _POOL_KINDS and operation.status is ports_module.OperationStatus.RUNNING
        for operation in ports.pools.operations()
    )
    return Observed(_view(ports, settings, snapshot, loaded, pause, in_flight), loaded)


def watched(
    ports: ports_module.Ports,
    settings: settings_module.Settings,
    sighting: ports_module.Sighting,
    previous: engine.View,
) -> Observed | None:
    """The view that a watch gives: good for finding out whether there is anything to do.

    None if the watch is troubled or silent, so that it may be old; then everything is read anew. Pool
    operations are those of `previous`.
    """
    snapshot = sighting.fleet
    if snapshot is None or sighting.trouble or previous.pool_operations:
        return None
    if any(_silent(snapshot, ports.clock.scale)):
        return None
    loaded = memory_module.load(ports, settings.spec.name)
    pause = pauses.current(ports)
    return Observed(_view(ports, settings, snapshot, loaded, pause, 0), loaded)


def _view(
    ports: ports_module.Ports,
    settings: settings_module.Settings,
    snapshot: fleet.Fleet,
    loaded: memory_module.Loaded,
    pause: reconciling.Pause | None,
    pool_operations: int,
) -> engine.View:
    view = engine.View(
        snapshot=snapshot,
        spec=settings.spec,
        spec_digest=settings.spec_digest,
        memory=loaded.memory,
        blocks=tuple(_reserved(snapshot)),
        pools=tuple(cube.pool for cube in snapshot.cubes if cube.pool is not None),
        operations=tuple(entry.operation for entry in journal.list_open(ports)),
        policy=settings.policy,
        pool_policy=settings.pool_policy,
        mode=settings.mode,
        pause=pause,
        pool_operations=pool_operations,
    )
    why = engine.distrust(view)
    if why:
        raise Stale(f"the view cannot be trusted: {why}")
    return view


def _reserved(snapshot: fleet.Fleet) -> Iterator[fleet.ReservedBlock]:
    """Reserved blocks as the Compute API listed them: it is asked once a view, and once is slow enough."""
    for block in snapshot.blocks:
        sub_blocks = tuple(sorted(cube.sub_block for cube in block.cubes if cube.sub_block is not None))
        if sub_blocks:
            yield fleet.ReservedBlock(
                reservation=block.reservation,
                name=block.name,
                physical_id=block.id,
                sub_blocks=sub_blocks,
                maintenance=block.maintenance,
            )


def _refuse_older(before: fleet.Fleet, now: fleet.Fleet) -> None:
    """Revisions of one resource may be compared as numbers since Kubernetes 1.35; others are not judged."""
    newest = {source.name: source.revision for source in before.sources}
    for source in now.sources:
        was = newest.get(source.name, "")
        if was.isdecimal() and source.revision.isdecimal() and int(source.revision) < int(was):
            raise Stale(
                f"the server's list of {source.name} is of revision {source.revision}, "
                f"older than {was} seen before",
                hint="one of the API servers lags behind; the next cycle looks again",
            )


def _silent(snapshot: fleet.Fleet, scale: float) -> Iterator[fleet.SourceName]:
    """Sources that have not been heard for long; silence of a stream counts in real seconds."""
    for source in snapshot.sources:
        limit_s = HEARD_S * max(scale, 1.0) if source.name in _WATCHED else 2 * REREAD_S
        if snapshot.observed_at - source.observed_at > datetime.timedelta(seconds=limit_s):
            yield source.name

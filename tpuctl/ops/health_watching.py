"""Follow health: judge every sighting of a watched fleet and tell what changed."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tpuctl.model import errors
from tpuctl.ops import absences, health_checks, views

if TYPE_CHECKING:
    import datetime
    from collections.abc import Iterator

    from tpuctl.model import fleet, health, states
    from tpuctl.ops import ports as ports_module

SILENCE_S = 120.0
"""Real seconds. A server sends a bookmark about once a minute, so two minutes without a word mean that
nobody speaks any more."""
REREAD_S = 300.0
"""Node pools and reservations have no watch."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Change:
    """A cube or slice whose health is another one than before, or that is new or gone."""

    before: states.Verdict | None
    """None if it was not there."""
    now: health_checks.Checked
    gone: bool = False
    """If true, `now` is what it was last."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Turn:
    """What there is to tell now."""

    snapshot: fleet.Fleet | None
    items: tuple[health_checks.Checked, ...]
    changes: tuple[Change, ...]
    trouble: str
    """Why `items` may be old or not whole; empty while all is heard."""
    observed_at: datetime.datetime | None


def follow(
    ports: ports_module.Ports,
    policy: health.HealthPolicy,
    *,
    timeout_s: float | None = None,
    silence_s: float = SILENCE_S,
    reread_s: float = REREAD_S,
) -> Iterator[Turn]:
    """Yield a turn whenever there is something to tell; in the first one everything is a change.

    A slice that an open operation deleted and is to make again is unhealthy, not gone.
    """
    owed = _Owed(ports)
    known: dict[tuple[str, str], health_checks.Checked] = {}
    told_trouble = ""
    sightings = ports.changes.follow(
        health_checks.SOURCES, silence_s=silence_s, reread_s=reread_s, timeout_s=timeout_s
    )
    for sighting in sightings:
        seen = known if sighting.fleet is None else _judged(sighting.fleet, policy, owed)
        changes = tuple(_changes(known, seen))
        trouble = sighting.trouble or owed.trouble
        if changes or trouble != told_trouble:
            yield Turn(
                snapshot=sighting.fleet,
                items=tuple(seen.values()),
                changes=changes,
                trouble=trouble,
                observed_at=None if sighting.fleet is None else sighting.fleet.observed_at,
            )
        known, told_trouble = seen, trouble


class _Owed:
    """Slices that open operations have yet to make.

    Records have no watch here. They are read when a slice has come or gone, and as long as one is owed.
    """

    def __init__(self, ports: ports_module.Ports) -> None:
        self._ports = ports
        self._there: frozenset[str] | None = None
        self._missing: tuple[absences.Absence, ...] = ()
        self._may_read = True
        self.trouble = ""
        """Why they are not known; empty if they are."""

    def of(self, snapshot: fleet.Fleet) -> list[health_checks.Checked]:
        there = frozenset(snapshot.slices_by_name)
        if self._may_read and (there != self._there or self._missing):
            self._read(snapshot, there)
        return [
            health_checks.of_absence(snapshot, one)
            for one in self._missing
            if one.is_wanted and one.slice_name not in there
        ]

    def _read(self, snapshot: fleet.Fleet, there: frozenset[str]) -> None:
        try:
            found = absences.look(snapshot, self._ports)
        except (errors.NotPermitted, errors.Unavailable) as error:
            # What was owed before is shown on; who may not read them is not asked again and again.
            self._may_read = not isinstance(error, errors.NotPermitted)
            self.trouble = f"open operations are not shown: {error.message}"
        else:
            self._there, self._missing, self.trouble = there, found.missing, "; ".join(found.damaged)


def _judged(
    snapshot: fleet.Fleet, policy: health.HealthPolicy, owed: _Owed
) -> dict[tuple[str, str], health_checks.Checked]:
    cubes = views.cubes(snapshot, policy)
    found = [health_checks.of_cube(view) for view in cubes if not health_checks.is_unused(view)]
    found += [health_checks.of_slice(view) for view in views.slices_on(snapshot, cubes, policy)]
    found += owed.of(snapshot)
    return {item.key: item for item in found}


def _changes(
    before: dict[tuple[str, str], health_checks.Checked],
    now: dict[tuple[str, str], health_checks.Checked],
) -> Iterator[Change]:
    for key, item in now.items():
        old = before.get(key)
        if old is None:
            yield Change(before=None, now=item)
        elif _shown(old) != _shown(item):
            yield Change(before=old.judgement.verdict, now=item)
    for key, item in before.items():
        if key not in now:
            yield Change(before=item.judgement.verdict, now=item, gone=True)


def _shown(item: health_checks.Checked) -> tuple[object, ...]:
    """What must differ to be worth telling: heartbeats and ages do not count."""
    judgement = item.judgement
    return judgement.verdict, judgement.reasons, judgement.domains, item.slices, item.hosts

"""Verdicts of cubes, judged again only when something about the cube, or its age, can have changed.

A verdict is a function of cube, policy, the slices that are heard as witnesses, and time; and time matters
only at a few moments: when a grace ends, a window comes near. So what was judged for a cube object holds for
this same object until the next of them. Whether the memory is full or empty, the answers are the same.
"""

from __future__ import annotations

import datetime
import functools
import weakref
from typing import TYPE_CHECKING, NamedTuple

from tpuctl.engine.health import hosts as host_evidence
from tpuctl.engine.health import judging
from tpuctl.model import health as health_values

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tpuctl.model import fleet


class _Known(NamedTuple):
    cube: weakref.ref[fleet.Cube]
    policy: health_values.HealthPolicy
    judged_at: datetime.datetime
    holds_until: datetime.datetime | None
    """None: for ever."""
    slices: tuple[fleet.Slice, ...]
    judgement: health_values.Judgement


_Key = tuple[int, bool]
"""Identity of a cube, and whether slices were heard: both kinds of verdicts are asked for in turn."""
_INSTANT = datetime.timedelta(microseconds=1)
_known: dict[_Key, _Known] = {}


def of(
    cube: fleet.Cube,
    policy: health_values.HealthPolicy,
    now: datetime.datetime,
    slices: tuple[fleet.Slice, ...] = (),
) -> health_values.Judgement:
    """The same as `health.judge`, remembered."""
    known = _remembered(cube, policy, now, slices)
    if known is not None:
        return known
    witnesses = {"slices": slices} if slices else {}
    judgement = judging.judge(cube, policy, now, **witnesses)
    key = id(cube), bool(slices)
    owner = weakref.ref(cube, functools.partial(_forget, key))
    _known[key] = _Known(owner, policy, now, _next_change(cube, policy, now), slices, judgement)
    return judgement


def passing(
    cube: fleet.Cube, policy: health_values.HealthPolicy, now: datetime.datetime
) -> health_values.Judgement:
    """The same, without remembering it: for who looks at a fleet once."""
    return _remembered(cube, policy, now, ()) or judging.judge(cube, policy, now)


def _remembered(
    cube: fleet.Cube,
    policy: health_values.HealthPolicy,
    now: datetime.datetime,
    slices: tuple[fleet.Slice, ...],
) -> health_values.Judgement | None:
    found = _known.get((id(cube), bool(slices)))
    if found is None or found.cube() is not cube or found.slices != slices:
        return None
    return found.judgement if _holds(found, policy, now) else None


def _holds(found: _Known, policy: health_values.HealthPolicy, now: datetime.datetime) -> bool:
    same_policy = found.policy is policy or found.policy == policy
    in_time = found.judged_at <= now and (found.holds_until is None or now < found.holds_until)
    return same_policy and in_time


def _forget(key: _Key, dead: weakref.ref[fleet.Cube]) -> None:
    if key in _known and _known[key].cube is dead:
        del _known[key]


def _next_change(
    cube: fleet.Cube, policy: health_values.HealthPolicy, now: datetime.datetime
) -> datetime.datetime | None:
    return min((moment for moment in _moments(cube, policy) if moment > now), default=None)


def _moments(cube: fleet.Cube, policy: health_values.HealthPolicy) -> Iterator[datetime.datetime]:
    """Every time at which the same cube may be judged otherwise."""
    for host in cube.hosts:
        if not host_evidence.is_quiet(host):
            yield from _moments_of_host(host, policy)
    sub_block = cube.sub_block
    if sub_block is not None and sub_block.maintenance_start is not None:
        start = sub_block.maintenance_start
        # The lead begins just after its first moment, and a window is over just after its last.
        yield _later(start, -policy.maintenance_lead_s) + _INSTANT
        yield (sub_block.maintenance_end or start) + _INSTANT


def _moments_of_host(host: fleet.Host, policy: health_values.HealthPolicy) -> Iterator[datetime.datetime]:
    for up in (host.ready_since, host.created_at):
        if up is not None:
            yield _later(up, policy.settle_s)
            yield _later(up, policy.not_ready_grace_s)
    for condition in host.conditions:
        if condition.since is not None:
            yield _later(condition.since, policy.latched_after_s)
            yield _later(condition.since, policy.degraded_tolerance_s)
    if host.maintenance_at is not None:
        yield _later(host.maintenance_at, -policy.maintenance_lead_s) + _INSTANT
        yield _later(host.maintenance_at, health_values.DAY_S)


def _later(moment: datetime.datetime, seconds: float) -> datetime.datetime:
    return moment + datetime.timedelta(seconds=seconds)

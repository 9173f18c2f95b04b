"""Form slices: several are begun under one look at the world, then waited for together.

A formation takes 20 to 60 s, and many run side by side. One that is not ready in time stays open, and the
next cycle goes on with it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from typing import TYPE_CHECKING

from tpuctl.model import declared, errors, fleet, reconciling
from tpuctl.ops import forming, gangs, journal, locking, waiting
from tpuctl.ops.reconciling import desk as desks
from tpuctl.ops.reconciling import outcomes, telling

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tpuctl.ops import ports as ports_module

TOGETHER = 16
"""Actions that are begun before any is waited for: their locks are renewed while waiting only."""
WAIT_S = 240.0
"""How long all of them are waited for."""
_Became = outcomes.Became


@dataclasses.dataclass
class _Begun:
    """An action whose slices were created, with the locks of its slices."""

    action: reconciling.Action
    prepared: tuple[forming.Prepared, ...]
    started: tuple[forming.Started | None, ...]
    locks: tuple[locking.Lock, ...]
    at_s: float


def form(
    desk: desks.Desk, actions: Sequence[reconciling.Action], failures: list[errors.TpuctlError]
) -> list[outcomes.Result]:
    """Form what the actions say, each by itself: one that fails leaves the others alone.

    What ends the cycle is raised, or added to `failures` once slices were begun; those that are not ready
    then stay open for the next cycle.
    """
    if len(actions) > TOGETHER:
        raise AssertionError("too many at once for their locks")
    results: dict[str, outcomes.Result] = {}
    with contextlib.ExitStack() as held:
        begun = _begin_all(desk, actions, held, results)
        # Whoever waits for one keeps the locks of all.
        clock = locking.fenced(desk.ports, *(lock for one in begun for lock in one.locks)).clock
        deadline = waiting.Deadline.after(clock, WAIT_S)
        for one in begun:
            if failures:
                results[one.action.id] = outcomes.Result(
                    one.action, _Became.GOING_ON, "left to the next cycle"
                )
                continue
            ports = dataclasses.replace(locking.fenced(desk.ports, *one.locks), clock=clock)
            finish = functools.partial(_finish, desk, ports, one, deadline)
            results[one.action.id] = desks.attempt(desk, one.action, finish, failures, since_s=one.at_s)
    return [results[action.id] for action in actions]


def tell_formed(desk: desks.Desk, item: fleet.Slice, reason: str) -> None:
    """Say that a slice was formed."""
    shape = item.raw_topology
    desk.teller.of_slice(item, "Formed", f"formed as {shape} by tpuctl reconcile: {reason}")
    facts = telling.facts_of(desk.snapshot, item)
    desk.teller.hook(declared.HookEvent.SLICE_FORMED, reason=reason, **facts)


def _begin_all(
    desk: desks.Desk,
    actions: Sequence[reconciling.Action],
    held: contextlib.ExitStack,
    results: dict[str, outcomes.Result],
) -> list[_Begun]:
    begun: list[_Begun] = []
    with locking.held(desk.ports, desk.reporter, locking.PLACEMENT) as choice:
        snapshot = forming.look(desk.ports)
        for action in actions:
            with contextlib.ExitStack() as own:
                try:
                    desk.teller.about(action)
                    one = _begin(desk, action, own, choice, snapshot)
                except desks.FATAL:
                    raise
                except errors.TpuctlError as error:
                    results[action.id] = outcomes.Result(action, *desks.judged(error))
                    continue
                held.push(own.pop_all())
            begun.append(one)
            for prepared in one.prepared:
                snapshot = gangs.beside(snapshot, prepared)
    return begun


def _begin(
    desk: desks.Desk,
    action: reconciling.Action,
    own: contextlib.ExitStack,
    choice: locking.Lock,
    snapshot: fleet.Fleet,
) -> _Begun:
    """Create the slices of one action, all or none, on exactly the partitions that were decided."""
    at_s = desk.ports.clock.monotonic_s()
    # In order of names, as everybody who takes several of these locks does.
    locks = tuple(
        own.enter_context(locking.held(desk.ports, desk.reporter, locking.slice_lock(name), wait_s=0.0))
        for name in sorted(one.name for one in action.forming)
    )
    for one in action.forming:
        journal.refuse_if_open(desk.ports, one.name)
    prepared = []
    for one in action.forming:
        prepared.append(_decided(desk, one, snapshot))
        snapshot = gangs.beside(snapshot, prepared[-1])
    fenced = locking.fenced(desk.ports, *locks, choice)
    started = gangs.start_all(fenced, desk.reporter, prepared, timeout_s=WAIT_S)
    return _Begun(action, tuple(prepared), tuple(started), locks, at_s)


def _decided(desk: desks.Desk, one: reconciling.Forming, snapshot: fleet.Fleet) -> forming.Prepared:
    wish = forming.request(
        one.topology,
        cubes=one.partition_ids,
        allow_degraded=desk.allows_degraded(one.name),
        policy=desk.settings.policy,
        priority=one.priority,
    )
    try:
        found = forming.decided(snapshot, one.name, wish)
    except errors.DoesNotFit as refused:
        raise desks.Drift(refused.message, details=refused.details) from refused
    if set(found.partition_ids) != set(one.partition_ids):
        raise desks.Drift(f"slice {one.name} would get other partitions")
    return found


def _finish(
    desk: desks.Desk, ports: ports_module.Ports, one: _Begun, deadline: waiting.Deadline
) -> tuple[outcomes.Became, str]:
    """Wait for the slices of one action; all of them, whatever becomes of one."""
    ended: list[tuple[outcomes.Became, str]] = []
    for prepared, started in zip(one.prepared, one.started, strict=True):
        left_s = max(deadline.end_s - ports.clock.monotonic_s(), 1.0)
        try:
            found = forming.finish(ports, desk.reporter, prepared, started, timeout_s=left_s)
        except desks.FATAL:
            raise
        except errors.TpuctlError as error:
            desk.suspect(error)
            became, why = desks.judged(error)
            # Its slices were begun: it is not as if nothing had happened.
            ended.append((_Became.FAILED if became is _Became.STOPPED else became, why))
        else:
            desk.formed.append(found.slice)
            tell_formed(desk, found.slice, one.action.reason)
    if not ended:
        return _Became.DONE, ""
    failed = [entry for entry in ended if entry[0] is _Became.FAILED]
    became, why = (failed or ended)[0]
    if len(one.prepared) > 1:
        why = f"{len(one.prepared) - len(ended)} of {len(one.prepared)} slices are formed: {why}"
    return became, why

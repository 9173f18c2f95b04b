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
    from collections.abc import Iterable, Iterator, Mapping, Sequence

TOGETHER = 16
"""Actions that are looked at together before any of them is begun."""
SLICES_TOGETHER = 32
"""Slices that are begun under one look and waited for together; a gang of more is begun alone. While they are
begun nobody else chooses cubes, and all of their locks are to be renewed within the time of one."""
WAIT_S = 240.0
"""How long all of them are waited for."""
_Became = outcomes.Became


@dataclasses.dataclass
class _Begun:
    """An action whose slices were created, with the locks of its slices."""

    action: reconciling.Action
    prepared: tuple[forming.Prepared, ...]
    started: tuple[forming.Started | None, ...]
    locks: Mapping[str, locking.Lock]
    """By name of the slice."""
    at_s: float


def form(
    desk: desks.Desk, actions: Sequence[reconciling.Action], failures: list[errors.TpuctlError]
) -> list[outcomes.Result]:
    """Form what the actions say, each by itself: one that fails leaves the others alone.

    What ends the cycle is added to `failures`. Slices that were begun and are not ready then stay open for
    the next cycle; actions that were not come to have no result.
    """
    results: dict[str, outcomes.Result] = {}
    for batch in _batches(actions):
        if failures:
            break
        try:
            _form_together(desk, batch, failures, results)
        except desks.FATAL as fatal:
            failures.append(fatal)
            _settle(batch, results, _Became.FAILED, fatal.message)
        except errors.TpuctlError as error:
            _settle(batch, results, *desks.judged(error))
    return [results[action.id] for action in actions if action.id in results]


def _batches(actions: Iterable[reconciling.Action]) -> Iterator[list[reconciling.Action]]:
    """In their order, as many as have not too many slices together."""
    batch: list[reconciling.Action] = []
    count = 0
    for action in actions:
        if batch and count + len(action.forming) > SLICES_TOGETHER:
            yield batch
            batch, count = [], 0
        batch.append(action)
        count += len(action.forming)
    if batch:
        yield batch


def _settle(
    batch: Iterable[reconciling.Action],
    results: dict[str, outcomes.Result],
    became: outcomes.Became,
    why: str,
) -> None:
    """What became of those of which nothing is known yet."""
    for action in batch:
        results.setdefault(action.id, outcomes.Result(action, became, why))


def _form_together(
    desk: desks.Desk,
    actions: Sequence[reconciling.Action],
    failures: list[errors.TpuctlError],
    results: dict[str, outcomes.Result],
) -> None:
    with contextlib.ExitStack() as held:
        begun = _begin_all(desk, actions, held, results)
        # Whoever waits for one keeps the locks of all.
        locks = _locks_of(begun)
        deadline = waiting.Deadline.after(desk.ports.clock, WAIT_S)
        for one in begun:
            if failures:
                _settle([one.action], results, _Became.GOING_ON, "left to the next cycle")
                continue
            finish = functools.partial(_finish, desk, one, locks, deadline)
            results[one.action.id] = desks.attempt(desk, one.action, finish, failures, since_s=one.at_s)


def _locks_of(begun: Iterable[_Begun]) -> tuple[locking.Lock, ...]:
    return tuple(lock for one in begun for lock in one.locks.values())


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
        snapshot = forming.look(locking.fenced(desk.ports, choice))
        for action in actions:
            with contextlib.ExitStack() as own:
                try:
                    desk.teller.about(action)
                    one = _begin(desk, action, own, choice, snapshot, beside=_locks_of(begun))
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
    *,
    beside: Sequence[locking.Lock],
) -> _Begun:
    """Create the slices of one action, all or none, on exactly the partitions that were decided.

    `beside` are the locks of what was begun before: they are kept meanwhile.
    """
    at_s = desk.ports.clock.monotonic_s()
    names = [one.name for one in action.forming]
    locks = own.enter_context(locking.slices_held(desk.ports, desk.reporter, names, wait_s=0.0))
    for one in action.forming:
        journal.refuse_if_open(desk.ports, one.name)
    prepared = []
    for one in action.forming:
        prepared.append(_decided(desk, one, snapshot))
        snapshot = gangs.beside(snapshot, prepared[-1])
    started = gangs.start_all(
        desk.ports, desk.reporter, prepared, locks, choice, beside=beside, timeout_s=WAIT_S
    )
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
    desk: desks.Desk, one: _Begun, beside: Sequence[locking.Lock], deadline: waiting.Deadline
) -> tuple[outcomes.Became, str]:
    """Wait for the slices of one action; all of them, whatever becomes of one."""
    ended: list[tuple[outcomes.Became, str]] = []
    for prepared, started in zip(one.prepared, one.started, strict=True):
        ports = locking.fenced(desk.ports, one.locks[prepared.slice_name], beside=beside)
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

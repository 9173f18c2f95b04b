"""What the loop remembers between cycles: one record in the cluster, written only when it changed."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, NamedTuple

from tpuctl.engine import reconciling as engine
from tpuctl.engine.reconciling import churn, ledger, suspicion
from tpuctl.model import errors, reconciling, records
from tpuctl.ops.reconciling import outcomes

if TYPE_CHECKING:
    import datetime
    from collections.abc import Callable, Iterable

    from tpuctl.model import fleet
    from tpuctl.ops import ports as ports_module

RECORD = "reconcile-memory"
MAX_BYTES = 900 * 1024
"""The API server takes objects of up to 1 MiB, and there are names and annotations beside the text."""
_ALL = "slice/*"
"""Subject of what is told about all slices."""
_SHED: dict[str, Callable[[Any], Any]] = {
    "churn": lambda entry: (entry.failures, entry),
    "suspects": lambda entry: (entry.failures, entry),
    "attempts": lambda entry: (entry.failures, entry),
    "recommendations": lambda entry: (entry.subject == _ALL, entry.subject.startswith("slice/"), entry),
    # What has lasted longest is nearest to the end of its grace.
    "sightings": lambda entry: (-entry.since.timestamp(), entry),
    "formed": lambda entry: (-entry.since.timestamp(), entry),
}
"""What is given up, in this order, if a fleet has more to remember than one record holds, and what of it
first: the least by these keys. All of it comes back by itself or makes the loop wait longer. What was
disturbed lately stays.
"""
_AT_ONCE_S = 1.0
"""An action that was stopped within this time had not begun to take anything apart, which needs waiting."""


class Loaded(NamedTuple):
    """The memory, with the record that holds it."""

    memory: reconciling.Memory
    record: ports_module.Record | None
    """None as long as nothing was written."""


def load(ports: ports_module.Ports, fleet_name: str) -> Loaded:
    """What is remembered of this fleet; raises DamagedRecord, Conflict if it is another fleet's memory.

    A record that cannot be read is an error: read as "nothing", it would end every grace and every budget.
    """
    found, record = peek(ports)
    if found.fleet not in ("", fleet_name):
        raise errors.Conflict(
            f"this cluster is kept at the declared state of fleet {found.fleet}, not of {fleet_name}",
            hint="give the fleet that name; to hand it over: "
            f"kubectl -n tpuctl-system delete configmap {RECORD}",
        )
    return Loaded(found, record)


def peek(ports: ports_module.Ports) -> Loaded:
    """What is remembered, of whatever fleet; raises DamagedRecord."""
    record = ports.records.get(RECORD)
    if record is None:
        return Loaded(reconciling.Memory(), None)
    found = records.read(record.text, record.name, reconciling.Memory, schema=reconciling.SCHEMA)
    return Loaded(found, record)


def save(ports: ports_module.Ports, loaded: Loaded, memory: reconciling.Memory) -> Loaded:
    """Write it down if it changed; raises Conflict if somebody else wrote it since it was loaded.

    A memory that could not be written would end everything: what one record does not hold is given up.
    """
    if memory == loaded.memory:
        return loaded
    text = records.write(memory)
    if len(text) > MAX_BYTES:
        memory = fitting(memory)
        if memory == loaded.memory:
            return loaded
        text = records.write(memory)
    if loaded.record is None:
        return Loaded(memory, ports.records.create(RECORD, records.RECONCILE, text))
    return Loaded(memory, ports.records.replace(loaded.record, text))


def fitting(memory: reconciling.Memory, max_bytes: int = MAX_BYTES) -> reconciling.Memory:
    """As much of it as one record holds, and a word to people that it was too much."""
    if memory.observed_at is not None:
        text = "there is more to remember than one record holds: declare fewer slices for one loop"
        told = reconciling.Recommendation(_ALL, text, memory.observed_at)
        kept = tuple(sorted({*memory.recommendations, told}))
        memory = dataclasses.replace(memory, recommendations=kept)
    for field, weight in _SHED.items():
        while len(records.write(memory)) > max_bytes and (entries := getattr(memory, field)):
            half = sorted(entries, key=weight)[(len(entries) + 1) // 2 :]
            shed: dict[str, Any] = {field: tuple(sorted(half))}
            memory = dataclasses.replace(memory, **shed)
    return memory


def close_breaker(ports: ports_module.Ports) -> reconciling.Tripped | None:
    """Forget that the breaker tripped; what it was, None if it was not tripped."""
    found = peek(ports)
    if found.memory.tripped is not None:
        save(ports, found, engine.reset_breaker(found.memory))
    return found.memory.tripped


def expecting(memory: reconciling.Memory, names: Iterable[str], now: datetime.datetime) -> reconciling.Memory:
    """Before slices are taken apart to be made again: that they are gone then is nobody else's doing."""
    ours = {entry.name: entry for entry in memory.formed}
    for name in names:
        if name not in ours or ours[name].uid:
            ours[name] = reconciling.Formed(name, "", now)
    return dataclasses.replace(memory, formed=tuple(sorted(ours.values())))


def after(
    memory: reconciling.Memory,
    results: Iterable[outcomes.Result],
    formed: Iterable[fleet.Slice],
    *,
    suspects: Iterable[str] = (),
    decided_at: datetime.datetime,
    now: datetime.datetime,
) -> reconciling.Memory:
    """The memory with what became of the actions.

    `formed` are the slices that exist by them, `suspects` the partitions with which something went wrong.
    """
    attempts = {attempt.action: attempt for attempt in memory.attempts}
    results = tuple(results)
    undone = set()
    for result in results:
        name = result.action.id
        if result.became is outcomes.Became.FAILED:
            attempts[name] = _one_more(attempts.get(name), result, decided_at, now)
        elif result.became is outcomes.Became.STOPPED and result.waited_s < _AT_ONCE_S:
            undone.add(name)
    ours = {entry.name: entry for entry in memory.formed}
    for item in formed:
        known = ours.get(item.name)
        if known is None:
            continue  # a person's, whose operation was finished for them: whether it is ours is judged later
        # One that was swapped has been running since before.
        ours[item.name] = (
            known._replace(uid=item.uid)
            if known.uid
            else reconciling.Formed(item.name, item.uid, item.created_at)
        )
    return dataclasses.replace(
        memory,
        attempts=tuple(sorted(attempts.values())),
        # What was called off before it began has disturbed nothing.
        disruptions=tuple(
            entry for entry in memory.disruptions if entry.at < decided_at or entry.action not in undone
        ),
        formed=tuple(sorted(ours.values())),
        churn=churn.carried_out(memory.churn, (one.action for one in results if one.has_changed), now),
        suspects=suspicion.noted(memory.suspects, suspects, now),
    )


def _one_more(
    known: reconciling.Attempt | None,
    result: outcomes.Result,
    decided_at: datetime.datetime,
    now: datetime.datetime,
) -> reconciling.Attempt:
    """One that the decision itself has counted, by what it saw of the world, is not counted twice."""
    before = 0 if known is None else known.failures - (known.last_at >= decided_at)
    return reconciling.Attempt(result.action.id, before + 1, now, ledger.shortened(result.why))

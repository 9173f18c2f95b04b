"""Items and the ledger, kept in the cluster: one record for an open item, one for what is over.

An item's record is named after its target, so that a host has one open item at most, and creating it is a
claim that one of two wins. A record that cannot be read stops whoever needed it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import hashlib
from typing import TYPE_CHECKING, Any, Self

from tpuctl.engine.remediation import rules
from tpuctl.model import errors, names, records, repairs
from tpuctl.ops import locking

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tpuctl.ops import ports as ports_module

LEDGER = "repair-ledger"
LEDGER_LOCK = "tpuctl-repair-ledger"
KEPT_WHOLE = 50
"""So many items that are over are kept with all their evidence: a record holds a megabyte."""
_PREFIX = "repair-"
_NAME_DIGITS = 16
_PROOFS_KEPT = 6


@dataclasses.dataclass(frozen=True, kw_only=True)
class Entry:
    """An item with the record that holds it."""

    item: repairs.Item
    record: ports_module.Record

    def amended(self, ports: ports_module.Ports, **changes: Any) -> Self:
        """Write changes down; raises Conflict if somebody else wrote since."""
        return self.replaced(ports, dataclasses.replace(self.item, **changes))

    def replaced(self, ports: ports_module.Ports, item: repairs.Item) -> Self:
        """The same with a whole item."""
        if item == self.item:
            return self
        record = ports.records.replace(self.record, records.write(item))
        return dataclasses.replace(self, item=item, record=record)


@contextlib.contextmanager
def locked(
    ports: ports_module.Ports, reporter: ports_module.Reporter, case: repairs.Case
) -> Iterator[ports_module.Ports]:
    """Ports that write only while the lock on the case's cube is ours."""
    with locking.held(ports, reporter, names.shortened(f"tpuctl-repair-{case.cube}", 63)) as lock:
        yield locking.fenced(ports, lock)


def begin(ports: ports_module.Ports, item: repairs.Item) -> Entry:
    """Write a new item down; raises Conflict if its target has one already."""
    record = ports.records.create(record_name(item.case), records.REPAIR, records.write(item))
    return Entry(item=item, record=record)


def record_name(case: repairs.Case) -> str:
    digest = hashlib.sha256(f"{case.cube}|{case.host}".encode()).hexdigest()
    return f"{_PREFIX}{digest[:_NAME_DIGITS]}"


def entries(ports: ports_module.Ports) -> Sequence[Entry]:
    """All records of items, by id, those among them that are over and not put away; raises DamagedRecord."""
    found = [entry_of(record) for record in ports.records.list(records.REPAIR)]
    return sorted(found, key=lambda entry: entry.item.id)


def list_open(ports: ports_module.Ports) -> Sequence[repairs.Item]:
    """Open items, by id; raises DamagedRecord."""
    return [entry.item for entry in entries(ports) if entry.item.is_open]


def list_readable(ports: ports_module.Ports) -> tuple[Sequence[repairs.Item], Sequence[str]]:
    """Items that can be read, by id, those just over among them; and a sentence for each that cannot."""
    found, damaged = [], []
    for record in ports.records.list(records.REPAIR):
        try:
            found.append(entry_of(record).item)
        except records.DamagedRecord as error:
            damaged.append(error.message)
    return sorted(found, key=lambda item: item.id), damaged


def list_closed(ports: ports_module.Ports) -> Sequence[repairs.Item]:
    """The newest items that are over, oldest first; raises DamagedRecord."""
    return load(ports).ledger.closed


def find_entry(ports: ports_module.Ports, item_id: str) -> Entry:
    """The record of an item; raises NotFound, or Conflict that says how it ended if it is put away."""
    for entry in entries(ports):
        if entry.item.id == item_id:
            return entry
    for item in list_closed(ports):
        if item.id == item_id:
            raise over(item)
    raise _unknown(item_id)


def find(ports: ports_module.Ports, item_id: str) -> repairs.Item:
    """An item, open or over; raises NotFound."""
    found = [*(entry.item for entry in entries(ports)), *list_closed(ports)]
    for item in found:
        if item.id == item_id:
            return item
    raise _unknown(item_id)


def over(item: repairs.Item) -> errors.Conflict:
    """The error for who wants something of an item that has ended."""
    by = f" by {item.ended_by}" if item.ended_by else ""
    return errors.Conflict(
        f"repair {item.id} is {item.state}{by}: {item.note or 'no reason was given'}",
        hint="if the fault is still there, it is proposed again; see: tpuctl repair list",
    )


def _unknown(item_id: str) -> errors.NotFound:
    return errors.NotFound(f"there is no repair '{item_id}'", hint="see: tpuctl repair list --all")


def entry_of(record: ports_module.Record) -> Entry:
    """Raises DamagedRecord."""
    item = records.read(record.text, record.name, repairs.Item, schema=repairs.SCHEMA)
    return Entry(item=item, record=record)


# -- the ledger --------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, kw_only=True)
class Book:
    """The ledger with its record, if one was written yet."""

    ledger: repairs.Ledger
    record: ports_module.Record | None

    def saved(
        self, ports: ports_module.Ports, reporter: ports_module.Reporter, ledger: repairs.Ledger
    ) -> Book:
        """Write it if it is otherwise; raises Conflict if somebody else wrote since it was read."""
        if ledger == self.ledger:
            return self
        text = records.write(ledger)
        with locking.held(ports, reporter, LEDGER_LOCK) as lock:
            writer = locking.fenced(ports, lock).records
            if self.record is None:
                record = writer.create(LEDGER, records.REPAIR_LEDGER, text)
            else:
                record = writer.replace(self.record, text)
        return Book(ledger=ledger, record=record)


def load(ports: ports_module.Ports) -> Book:
    """Raises DamagedRecord: read as empty, it would give back attempts that were used up."""
    record = ports.records.get(LEDGER)
    if record is None:
        return Book(ledger=repairs.Ledger(), record=None)
    ledger = records.read(record.text, record.name, repairs.Ledger, schema=repairs.SCHEMA)
    return Book(ledger=ledger, record=record)


def with_ended(
    ledger: repairs.Ledger, items: Sequence[repairs.Item], now: datetime.datetime
) -> repairs.Ledger:
    """The ledger with items that are over; one that is in it already is not put in again."""
    start = now - datetime.timedelta(seconds=rules.ATTEMPTS_WINDOW_S)
    known = {rung.item for rung in ledger.rungs} | {item.id for item in ledger.closed}
    new = [item for item in items if item.id not in known]
    rungs = [item.rung(item.state, item.ended_at or now, item.note) for item in new]
    kept = [rung for rung in ledger.rungs if rung.at >= start]
    ordered = sorted((*kept, *rungs), key=lambda rung: (rung.at, rung.item))
    closed = (*ledger.closed, *map(_shortened, new))[-KEPT_WHOLE:]
    return dataclasses.replace(ledger, rungs=tuple(ordered), closed=closed)


def _shortened(item: repairs.Item) -> repairs.Item:
    case = dataclasses.replace(item.case, evidence=item.case.evidence[:_PROOFS_KEPT])
    return dataclasses.replace(item, case=case)

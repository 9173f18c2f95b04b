"""What the loop did, and what people did to it: the newest entries, in one record of the cluster."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tpuctl.model import errors, reconciling, records
from tpuctl.ops import locking

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tpuctl.ops import ports as ports_module

RECORD = "reconcile-history"
MAX_ENTRIES = 200
MAX_BYTES = 256 * 1024
"""A quarter of what a ConfigMap may hold: the oldest entries go first."""
MAX_TEXT = 1000
"""Characters of one entry's text."""
_RACES = 5
"""How often an addition is repeated when somebody else was faster."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class History:
    """The record."""

    schema: int = reconciling.SCHEMA
    entries: tuple[reconciling.Entry, ...] = ()
    """Oldest first."""


def read(ports: ports_module.Ports, limit: int | None = None) -> tuple[reconciling.Entry, ...]:
    """The newest `limit` entries, oldest of them first. Raises DamagedRecord."""
    record = ports.records.get(RECORD)
    entries = () if record is None else _read(record).entries
    return entries if limit is None else entries[max(len(entries) - limit, 0) :]


def append(ports: ports_module.Ports, entries: Sequence[reconciling.Entry]) -> None:
    """Add entries, oldest first; what is too old or too much is dropped.

    Raises Conflict if others write it again and again, DamagedRecord if it cannot be read.
    """
    if not entries:
        return
    for _ in range(_RACES):
        record = ports.records.get(RECORD)
        before = History() if record is None else _read(record)
        text = _bounded((*before.entries, *map(_short, entries)))
        try:
            if record is None:
                ports.records.create(RECORD, records.HISTORY, text)
            else:
                ports.records.replace(record, text)
        except locking.LostLock:
            raise
        except errors.Conflict as conflict:
            last = conflict  # somebody else has added something: read it, and add to that
        else:
            return
    raise last


def _bounded(entries: tuple[reconciling.Entry, ...]) -> str:
    kept = entries[-MAX_ENTRIES:]
    text = records.write(History(entries=kept))
    while len(text.encode()) > MAX_BYTES and len(kept) > 1:
        kept = kept[max(len(kept) // 10, 1) :]
        text = records.write(History(entries=kept))
    return text


def _short(entry: reconciling.Entry) -> reconciling.Entry:
    if len(entry.text) <= MAX_TEXT:
        return entry
    return entry._replace(text=f"{entry.text[: MAX_TEXT - 3]}...")


def _read(record: ports_module.Record) -> History:
    return records.read(record.text, record.name, History, schema=reconciling.SCHEMA)

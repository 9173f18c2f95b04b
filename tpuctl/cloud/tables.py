"""What is known of the objects of one source, from lists and from events in whatever order they come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tpuctl.cloud import watch_streams


_MOST_BURIED = 10_000
"""Deletions that are remembered. Words that are so late have never been seen; pods come and go all day."""


class Table:
    """Objects by name."""

    def __init__(self) -> None:
        self._entries: dict[str, watch_streams.Entry] = {}
        self._buried: dict[str, int] = {}
        """Deleted name -> revision of its end, so that a late word does not bring it back."""
        self._items: tuple[Any, ...] | None = None
        """As last given out; None if that is not so any more."""

    def replace(self, entries: tuple[watch_streams.Entry, ...]) -> bool:
        """Take a whole list; true if it says anything new."""
        before, self._buried = self._entries, {}
        self._entries = {entry.name: _same(before.get(entry.name), entry) for entry in entries}
        names = before.keys() | self._entries.keys()
        is_new = any(_item(before, name) is not _item(self._entries, name) for name in names)
        if is_new:
            self._items = None
        return is_new

    def take(self, entry: watch_streams.Entry, *, deleted: bool) -> bool:
        """Take one event; true if it says anything new. Repeated and overtaken events say nothing."""
        old = self._entries.get(entry.name)
        newest = max(old.revision if old else 0, self._buried.get(entry.name, 0))
        if entry.revision and entry.revision <= newest:
            return False
        if deleted:
            self._bury(entry)
            is_new = old is not None and old.item is not None
        else:
            entry = _same(old, entry)
            self._entries[entry.name] = entry
            is_new = entry.item is not (None if old is None else old.item)
        if is_new:
            self._items = None
        return is_new

    def _bury(self, entry: watch_streams.Entry) -> None:
        self._entries.pop(entry.name, None)
        self._buried[entry.name] = entry.revision
        if len(self._buried) > _MOST_BURIED:
            del self._buried[next(iter(self._buried))]

    def items(self) -> tuple[Any, ...]:
        """Objects that belong to the fleet, by name; the same tuple as long as nothing new was said."""
        if self._items is None:
            entries = (self._entries[name] for name in sorted(self._entries))
            self._items = tuple(entry.item for entry in entries if entry.item is not None)
        return self._items


def _same(old: watch_streams.Entry | None, new: watch_streams.Entry) -> watch_streams.Entry:
    """The new entry, with the object that was there if it says the same, as it does after a heartbeat."""
    if old is None or old.item is new.item or old.item != new.item:
        return new
    return new._replace(item=old.item)


def _item(entries: dict[str, watch_streams.Entry], name: str) -> Any:
    entry = entries.get(name)
    return None if entry is None else entry.item

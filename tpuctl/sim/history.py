"""Stored objects and the recent past of a store: what watches and paged lists need."""

from __future__ import annotations

import bisect
import collections
import dataclasses
from typing import Any

Key = str
Json = dict[str, Any]


class Expired(Exception):
    """The revision asked for is older than the history kept."""

    def __init__(self, revision: int, oldest: int) -> None:
        super().__init__(f"too old resource version: {revision} ({oldest})")
        self.revision = revision
        self.oldest = oldest


class Document(Json):
    """A stored object; remembers its JSON bytes until it is replaced."""

    __slots__ = ("encoded",)

    encoded: bytes | None


@dataclasses.dataclass(frozen=True, slots=True)
class Event:
    """One committed write. `new` is the last state for a deletion, with the revision of the deletion."""

    revision: int
    type: str
    old: Document | None
    new: Document


class _Log:
    """Events of one key, oldest first; those before `start` are forgotten."""

    def __init__(self, revision: int) -> None:
        self.events: list[Event] = []
        self.start = 0
        self.forgotten = revision
        """Revision of the last event that was dropped."""

    def drop_oldest(self) -> None:
        self.forgotten = self.events[self.start].revision
        self.start += 1
        if self.start > 1024 and self.start * 2 > len(self.events):  # noqa: PLR2004 - amortises the shift
            del self.events[: self.start]
            self.start = 0

    def after(self, revision: int) -> list[Event]:
        place = bisect.bisect_right(self.events, revision, lo=self.start, key=lambda event: event.revision)
        return self.events[place:]


class History:
    """The last `limit` writes of a store, by key."""

    def __init__(self, revision: int, limit: int) -> None:
        self.compacted = revision
        """Nothing can be asked from a revision below this one."""
        self._first = revision
        self._limit = limit
        self._logs: dict[Key, _Log] = {}
        self._order: collections.deque[tuple[int, Key]] = collections.deque()

    def record(self, key: Key, event: Event) -> None:
        self._log(key).events.append(event)
        self._order.append((event.revision, key))
        if len(self._order) > self._limit:
            self._forget_oldest()

    def after(self, key: Key, revision: int) -> list[Event]:
        """Writes of a key after `revision`, oldest first. Raises `Expired` if one of them is forgotten."""
        log = self._log(key)
        if revision < log.forgotten:
            raise Expired(revision, self.compacted)
        return log.after(revision)

    def check_kept(self, revision: int) -> None:
        """Raise `Expired` if `revision` is compacted."""
        if revision < self.compacted:
            raise Expired(revision, self.compacted)

    def compact(self, revision: int) -> None:
        """Forget everything up to `revision`."""
        while self._order and self._order[0][0] <= revision:
            self._forget_oldest()
        self.compacted = max(self.compacted, revision)

    def _log(self, key: Key) -> _Log:
        return self._logs.setdefault(key, _Log(self._first))

    def _forget_oldest(self) -> None:
        revision, key = self._order.popleft()
        self._logs[key].drop_oldest()
        self.compacted = revision


def share(old: Any, new: Any) -> Any:
    """`new` with every part equal to `old`'s replaced by `old`'s own; `old` itself if nothing differs."""
    if type(old) is not type(new) and not (isinstance(old, dict) and isinstance(new, dict)):
        return new
    if isinstance(new, dict):
        return _share_items(old, new, new.keys(), same_size=old.keys() == new.keys())
    if isinstance(new, list):
        return _share_items(old, new, range(min(len(old), len(new))), same_size=len(old) == len(new))
    return old if old == new else new


def _share_items(old: Any, new: Any, places: Any, *, same_size: bool) -> Any:
    same = same_size
    for place in places:
        if isinstance(old, dict) and place not in old:
            continue
        new[place] = share(old[place], new[place])
        same = same and new[place] is old[place]
    return old if same else new

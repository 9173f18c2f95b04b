"""Objects that are read again and again: what has not changed is the same object as before.

Whoever has found out something about an object can tell from that whether it still holds, and two lists of
100,000 nodes take hardly more memory than one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

T = TypeVar("T")


class Same(Generic[T]):
    """Objects by name, as they were last read. Threads may share one."""

    def __init__(self) -> None:
        self._known: dict[str, T] = {}

    def of(self, name: str, item: T) -> T:
        """The object of that name as it was before if it equals `item`, else `item`.

        Compared is what it says and not its revision: a heartbeat is a new revision of the same, and a
        cluster that was restored gives out its revisions twice.
        """
        known = self._known.get(name)
        if known is not None and known == item:
            return known
        self._known[name] = item
        return item

    def only(self, names: Iterable[str]) -> None:
        """Forget all others: a whole list was read, and they are not in it."""
        known = self._known
        self._known = {name: known[name] for name in names if name in known}

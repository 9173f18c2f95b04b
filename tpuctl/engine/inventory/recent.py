"""The index of a snapshot, built when it is first asked for and remembered while the snapshot lives.

Snapshots are frozen, so an index that nobody changes is a function of the snapshot. Whoever wants to take
and release makes an index of their own.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from tpuctl.engine.inventory import stock

if TYPE_CHECKING:
    from tpuctl.model import fleet

_KEPT = 4
_known: list[tuple[weakref.ref[fleet.Fleet], stock.Terms, stock.Stock]] = []


def of(snapshot: fleet.Fleet, terms: stock.Terms) -> stock.Stock:
    """The index of a snapshot; not to be changed."""
    for owner, known_terms, found in _known:
        if owner() is snapshot and known_terms == terms:
            return found
    made = stock.Stock(snapshot, terms)
    _known.insert(0, (weakref.ref(snapshot), terms, made))
    del _known[_KEPT:]
    return made

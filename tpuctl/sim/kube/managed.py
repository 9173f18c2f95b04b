"""`metadata.managedFields`: who wrote which field, kept with every write through the API."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from tpuctl.sim.kube import fieldsets

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tpuctl.sim.kube import shapes

Json = dict[str, Any]

BEFORE_APPLY = "before-first-apply"
"""Manager of everything in an object that was written without a record, once somebody applies to it."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Manager:
    """One writer, as an entry of managedFields identifies it."""

    name: str
    operation: str
    """Apply or Update."""
    api_version: str
    subresource: str = ""

    def shown(self, time: str) -> str:
        """How conflicts name the writer."""
        text = f'"{self.name}"'
        if self.subresource:
            text += f' with subresource "{self.subresource}"'
        if self.operation == "Update":
            text += f" using {self.api_version}" + (f" at {time}" if time else "")
        return text


@dataclasses.dataclass(frozen=True, kw_only=True)
class Entry:
    """The fields of one manager, and when they last changed."""

    manager: Manager
    time: str
    paths: frozenset[fieldsets.Path]

    def to_json(self) -> Json:
        entry: Json = {
            "manager": self.manager.name,
            "operation": self.manager.operation,
            "apiVersion": self.manager.api_version,
            "time": self.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": fieldsets.to_json(set(self.paths)),
        }
        if self.manager.subresource:
            entry["subresource"] = self.manager.subresource
        return entry

    def without(self, paths: Iterable[fieldsets.Path]) -> Entry:
        return dataclasses.replace(self, paths=self.paths.difference(paths))


def read(obj: Json) -> list[Entry]:
    """Entries of an object."""
    return [
        Entry(
            manager=Manager(
                name=entry.get("manager", ""),
                operation=entry.get("operation", "Update"),
                api_version=entry.get("apiVersion", ""),
                subresource=entry.get("subresource", ""),
            ),
            time=entry.get("time", ""),
            paths=frozenset(fieldsets.from_json(entry.get("fieldsV1") or {})),
        )
        for entry in obj["metadata"].get("managedFields") or ()
    ]


def write(obj: Json, entries: Iterable[Entry]) -> None:
    """Set the entries of an object, in place; managers that have nothing left are dropped."""
    kept = [entry.to_json() for entry in entries if entry.paths]
    obj["metadata"].pop("managedFields", None)
    if kept:
        obj["metadata"]["managedFields"] = kept


def record_update(old: Json, new: Json, shape: shapes.Shape, manager: Manager, time: str) -> None:
    """Set, in place, the entries of `new` after `manager` wrote it over `old` (an empty object if it is new).

    What the client sent as managedFields does not count, except that a list without any manager clears it.
    """
    sent = new["metadata"].get("managedFields")
    cleared = sent is not None and not any(entry.get("manager") for entry in sent) and old
    if cleared:
        new["metadata"].pop("managedFields")
        return
    entries = read(old) if old else []
    difference = fieldsets.compare(old, new, shape)
    write(new, updated(entries, manager, difference, time))


def updated(
    entries: Iterable[Entry], manager: Manager, difference: fieldsets.Difference, time: str
) -> list[Entry]:
    """The entries after an update: the writer owns what it changed, and nobody owns what is gone."""
    result = []
    mine = Entry(manager=manager, time=time, paths=frozenset(difference.changed))
    for entry in entries:
        left = entry.without(difference.removed)
        if entry.manager == manager:
            mine = Entry(manager=manager, time=time, paths=left.paths | difference.changed)
            if mine.paths == entry.paths and not difference.changed:
                mine = entry
        else:
            result.append(left.without(difference.changed))
    return [*result, mine]

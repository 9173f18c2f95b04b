"""What a column is, and the columns that all kinds share."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable
from typing import Any

from tpuctl.sim.kube import ages

Object = dict[str, Any]
Cell = Callable[[Object, datetime.datetime], Any]

NONE = "<none>"


@dataclasses.dataclass(frozen=True)
class Column:
    """One column of a Table. `cell` gets the object and the time of the answer."""

    name: str
    cell: Cell
    description: str
    type: str = "string"
    format: str = ""
    priority: int = 0

    def definition(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        }


def _name(obj: Object, _now: datetime.datetime) -> str:
    return str(obj["metadata"]["name"])


def _age(obj: Object, now: datetime.datetime) -> str:
    return ages.since(obj["metadata"].get("creationTimestamp"), now)


def _created(obj: Object, _now: datetime.datetime) -> str | None:
    stamp: str | None = obj["metadata"].get("creationTimestamp")
    return stamp


NAME = Column("Name", _name, "Name of the object.", format="name")
AGE = Column("Age", _age, "Time since the object was created.")
CREATED_AT = Column("Created At", _created, "When the object was created, in UTC.", type="date")


def conditions(obj: Object) -> dict[str, Object]:
    return {condition["type"]: condition for condition in obj.get("status", {}).get("conditions") or ()}


def holds(obj: Object, condition: str) -> bool:
    return conditions(obj).get(condition, {}).get("status") == "True"


def pairs(labels: dict[str, str] | None) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or NONE

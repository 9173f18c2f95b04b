"""Tables: the form in which `kubectl get` asks for objects (`Accept: ...;as=Table;v=v1;g=meta.k8s.io`).

The server decides on columns and computes the cells, ages included, so that kubectl has only to align them.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Literal

from tpuctl.sim.kube import ages, columns, jsonpath
from tpuctl.sim.kube.columns import column

if TYPE_CHECKING:
    import datetime
    from collections.abc import Iterable

    from tpuctl.sim.kube import resources

_PYTHON_TYPES: dict[str, tuple[type, ...]] = {"boolean": (bool,), "integer": (int,), "number": (int, float)}

Include = Literal["Metadata", "Object", "None"]
"""What a row carries beside its cells: query parameter `includeObject`."""


def table(
    resource: resources.ResourceType,
    objects: Iterable[column.Object],
    *,
    now: datetime.datetime,
    list_metadata: dict[str, Any],
    include: Include = "Metadata",
    headers: bool = True,
) -> dict[str, Any]:
    """Render `objects` as a Table.

    `list_metadata` is resourceVersion, continue and remainingItemCount of the list, or resourceVersion of a
    single object. `headers` is false for all but the first event of a watch, as the real server does.
    """
    shown = columns_of(resource)
    answer: dict[str, Any] = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": list_metadata}
    answer["columnDefinitions"] = [entry.definition() for entry in shown] if headers else []
    answer["rows"] = [_row(shown, obj, now, include) for obj in objects]
    return answer


def columns_of(resource: resources.ResourceType) -> tuple[column.Column, ...]:
    """Columns of a resource: its own, those of its definition, or name and time of creation."""
    if resource.definition is not None:
        return (column.NAME, *_printer_columns(resource.definition, resource.version))
    return columns.BUILT_IN.get(resource.key, columns.OTHERS)


def partial(obj: column.Object) -> dict[str, Any]:
    """Reduce an object to its metadata."""
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}


def _row(
    shown: tuple[column.Column, ...], obj: column.Object, now: datetime.datetime, include: Include
) -> dict[str, Any]:
    row: dict[str, Any] = {"cells": [entry.cell(obj, now) for entry in shown]}
    if include != "None":
        row["object"] = partial(obj) if include == "Metadata" else obj
    return row


def _printer_columns(crd: column.Object, version: str) -> tuple[column.Column, ...]:
    served = next(entry for entry in crd["spec"]["versions"] if entry["name"] == version)
    declared = served.get("additionalPrinterColumns") or ()
    return tuple(_printer_column(entry) for entry in declared) or (column.AGE,)


def _printer_column(entry: dict[str, Any]) -> column.Column:
    default = f"Custom resource definition column (in JSONPath format): {entry['jsonPath']}"
    return column.Column(
        name=entry["name"],
        cell=functools.partial(_printer_cell, entry["jsonPath"], entry["type"]),
        description=entry.get("description") or default,
        type=entry["type"],
        format=entry.get("format", ""),
        priority=entry.get("priority", 0),
    )


def _printer_cell(path: str, kind: str, obj: column.Object, now: datetime.datetime) -> Any:
    """First value at `path` if it is of the column's kind, else null, which kubectl prints as nothing."""
    value = next(iter(jsonpath.find(path, obj)), None)
    if value is None:
        return None
    if kind == "date":
        return ages.since(value, now) if isinstance(value, str) else None
    if kind == "string":
        return value if isinstance(value, str) else str(value)
    return value if type(value) in _PYTHON_TYPES[kind] else None

"""Columns of events."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tpuctl.sim.kube import ages
from tpuctl.sim.kube.columns import column

if TYPE_CHECKING:
    import datetime


def _first(event: column.Object, now: datetime.datetime) -> str:
    return ages.since(event.get("firstTimestamp") or event.get("eventTime"), now)


def _last(event: column.Object, now: datetime.datetime) -> str:
    last = event.get("series", {}).get("lastObservedTime") or event.get("lastTimestamp")
    return ages.since(last, now) if last else _first(event, now)


def _field(field: str) -> column.Cell:
    def cell(event: column.Object, _now: datetime.datetime) -> str:
        return str(event.get(field) or "").strip()

    return cell


def _object(event: column.Object, _now: datetime.datetime) -> str:
    about = event.get("involvedObject", {})
    kind = about.get("kind", "").lower()
    return f"{kind}/{about['name']}" if about.get("name") else kind


def _subobject(event: column.Object, _now: datetime.datetime) -> str:
    return str(event.get("involvedObject", {}).get("fieldPath") or "")


def _source(event: column.Object, _now: datetime.datetime) -> str:
    source = event.get("source") or {}
    component = source.get("component") or event.get("reportingComponent") or ""
    host = source.get("host") or event.get("reportingInstance")
    return f"{component}, {host}" if host else component


def _count(event: column.Object, _now: datetime.datetime) -> int:
    return int(event.get("series", {}).get("count") or event.get("count") or 1)


COLUMNS = (
    column.Column("Last Seen", _last, "Time since it was last observed."),
    column.Column("Type", _field("type"), "Normal or Warning."),
    column.Column("Reason", _field("reason"), "One word for what happened."),
    column.Column("Object", _object, "What it happened to."),
    column.Column("Subobject", _subobject, "The part of the object, if it is about a part.", priority=1),
    column.Column("Source", _source, "Who observed it.", priority=1),
    column.Column("Message", _field("message"), "What happened, in a sentence."),
    column.Column("First Seen", _first, "Time since it was first observed.", priority=1),
    column.Column("Count", _count, "How often it was observed.", type="integer", priority=1),
    dataclasses.replace(column.NAME, priority=1),
)

"""The file of requests (`capacity plan -f`), and what is known of running slices; read strictly."""

from __future__ import annotations

import dataclasses
import datetime
from typing import TYPE_CHECKING, Any

from tpuctl.cli import config_file, kinds
from tpuctl.ops import capacity

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable, Mapping

    from tpuctl.model import topology

API_VERSION, KIND = "tpuctl/v1", "PlacementRequests"
CHANGES_KIND = "FleetChanges"


def _shapes(value: Any) -> tuple[topology.Topology, ...]:
    return tuple(kinds.shape(item) for item in config_file.texts(value))


def _gang(value: Any) -> str | bool:
    if isinstance(value, bool):
        return value
    return config_file.text(value)


def _time(value: Any) -> datetime.datetime:
    # YAML reads a plain time stamp as a time by itself.
    try:
        found = value if isinstance(value, datetime.datetime) else datetime.datetime.fromisoformat(str(value))
    except ValueError as error:
        raise ValueError("expected a time, for example 2026-01-31T12:00:00Z") from error
    return found if found.tzinfo else found.replace(tzinfo=datetime.UTC)


_TERMS: Mapping[str, Callable[[Any], Any]] = {
    "priority": kinds.whole,
    "team": config_file.text,
    "preemptible": config_file.flag,
    "minRunTime": kinds.span,
    "expectedEnd": _time,
}
_REQUEST: Mapping[str, Callable[[Any], Any]] = {
    **_TERMS,
    "name": kinds.slice_name,
    "topology": kinds.shape,
    "chips": kinds.chips,
    "fallback": _shapes,
    "count": kinds.count,
    "gang": _gang,
    "sameBlock": config_file.flag,
    "block": config_file.text,
    "health": config_file.choice("healthy", "usable"),
}
_RUNNING: Mapping[str, Callable[[Any], Any]] = {
    **_TERMS,
    "slice": config_file.text,
    "gang": config_file.text,
    "exempt": config_file.flag,
    "startedAt": _time,
    "toleratesDegraded": config_file.flag,
}
_KEYS: Mapping[str, Callable[[Any], Any]] = {
    "apiVersion": config_file.choice(API_VERSION),
    "kind": config_file.choice(KIND),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Requests:
    """What a file of requests says."""

    wishes: tuple[capacity.Wish, ...] = ()
    tenants: capacity.Tenants = dataclasses.field(default_factory=capacity.Tenants)
    weights: Mapping[str, float] = dataclasses.field(default_factory=dict)


def read(path: pathlib.Path | None) -> Requests:
    """Read a file of requests; without one nothing is known.

    Raises ConfigError with file and line for what it does not understand.
    """
    if path is None:
        return Requests()
    found, lists = config_file.read_records(
        path, _KEYS, {"requests": _REQUEST, "running": _RUNNING}, {"teams": config_file.number}
    )
    _require_header(path, found)
    return Requests(
        wishes=tuple(_wish(record) for record in lists["requests"]),
        tenants=capacity.Tenants(dict(_tenancy(record) for record in lists["running"])),
        weights={key.removeprefix("teams."): value.value for key, value in found.items() if "." in key},
    )


def read_changes(path: pathlib.Path) -> capacity.WhatIf:
    """Read a file of changes to imagine; raises ConfigError."""
    keys: Mapping[str, Callable[[Any], Any]] = {
        "apiVersion": config_file.choice(API_VERSION),
        "kind": config_file.choice(CHANGES_KIND),
        "fail": config_file.texts,
        "repair": config_file.texts,
        "endSlices": config_file.texts,
        "addBlocks": kinds.count,
    }
    found = config_file.read_values(path, keys, {})
    _require_header(path, found)
    said = {key: value.value for key, value in found.items()}
    return capacity.WhatIf(
        fail=said.get("fail", ()),
        repair=said.get("repair", ()),
        end=said.get("endSlices", ()),
        add_blocks=said.get("addBlocks", 0),
    )


def _require_header(path: pathlib.Path, found: Mapping[str, config_file.Value]) -> None:
    for key in ("apiVersion", "kind"):
        if key not in found:
            raise config_file.ConfigError(f"{path}: key '{key}' is missing")


def _wish(record: Mapping[str, config_file.Value]) -> capacity.Wish:
    said = {key: value.value for key, value in record.items() if key}
    where = record[""].origin
    if "name" not in said:
        raise config_file.ConfigError(f"{where}: a request needs a name")
    if ("topology" in said) == ("chips" in said):
        raise config_file.ConfigError(f"{where}: request {said['name']}: say either topology or chips")
    gang = said.get("gang", False)
    return capacity.Wish(
        name=said["name"],
        shapes=(said.get("topology") or said["chips"], *said.get("fallback", ())),
        count=said.get("count", 1),
        # A gang of its own is told apart from one that shares a word by a mark that no text in a file has.
        gang=f"\0{said['name']}" if gang is True else gang or "",
        same_block=said.get("sameBlock", False),
        priority=said.get("priority", 0),
        team=said.get("team", ""),
        preemptible=said.get("preemptible", False),
        min_run_s=said.get("minRunTime", 0.0),
        ends_at=said.get("expectedEnd"),
        allow_degraded=said.get("health") == "usable",
        block=said.get("block"),
    )


def _tenancy(record: Mapping[str, config_file.Value]) -> tuple[str, capacity.Tenancy]:
    said = {key: value.value for key, value in record.items() if key}
    if "slice" not in said:
        raise config_file.ConfigError(f"{record[''].origin}: an entry under 'running' needs a slice")
    return said["slice"], capacity.Tenancy(
        priority=said.get("priority"),
        preemptible=said.get("preemptible", False),
        exempt=said.get("exempt", False),
        min_run_s=said.get("minRunTime", 0.0),
        started_at=said.get("startedAt"),
        ends_at=said.get("expectedEnd"),
        gang=said.get("gang", ""),
        team=said.get("team", ""),
        allow_degraded=said.get("toleratesDegraded", False),
    )

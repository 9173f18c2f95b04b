"""From the file to what is declared."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import pydantic

from tpuctl.cli import config_file, fleet_spec
from tpuctl.cli.fleet_spec import checks, complaints, document, form
from tpuctl.model import declared

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable, Iterator

_T = TypeVar("_T")


def read(path: pathlib.Path) -> declared.FleetSpec:
    """What a file declares; raises ConfigError with all its faults."""
    source = document.Document(path)
    _check_kind(source)
    try:
        found = form.Fleet.model_validate(source.values)
    except pydantic.ValidationError as error:
        raise source.problem(source.faults + _others(source, complaints.faults(error))) from error
    faults = source.faults + list(checks.faults(found))
    if faults:
        raise source.problem(faults)
    return _spec(found)


def _others(source: document.Document, faults: list[document.Fault]) -> list[document.Fault]:
    """Without complaints about values that could not even be read."""
    unread = {fault.loc for fault in source.faults if fault.line is None}
    return [fault for fault in faults if fault.loc not in unread]


def _check_kind(source: document.Document) -> None:
    """A file of another kind is told to be one, instead of a complaint about each of its keys."""
    said = source.values if isinstance(source.values, dict) else {}
    header = (said.get("apiVersion"), said.get("kind"))
    if header != (fleet_spec.API_VERSION, fleet_spec.KIND):
        raise config_file.ConfigError(
            f"{source.path}:1: this is no fleet: it must say 'apiVersion: {fleet_spec.API_VERSION}' "
            f"and 'kind: {fleet_spec.KIND}'"
        )


def _spec(found: form.Fleet) -> declared.FleetSpec:
    return declared.FleetSpec(
        name=found.name,
        context=found.context or "",
        reservations=tuple(_reservation(item) for item in found.reservations),
        slices=tuple(_slice(item) for item in found.slices or ()),
        # By name: the order of keys means nothing.
        teams=tuple(
            declared.Team(name=name, weight=weight) for name, weight in sorted((found.teams or {}).items())
        ),
        spares_below=found.spares_below,
        adopt_foreign=found.adopt_foreign,
        prune=found.prune,
        prune_grace_s=found.prune_grace_s,
        budgets=_record(declared.Budgets, found.budgets),
        breaker=_record(declared.Breaker, found.breaker),
        windows=tuple(_window(item) for item in found.windows or ()),
        remediation=_record(declared.Remediation, found.remediation),
        consolidation=_record(declared.Consolidation, found.consolidation),
        hooks=tuple(_hooks(found.hooks)),
    )


def _record(kind: Callable[..., _T], part: pydantic.BaseModel | None) -> _T:
    """A record of the model from the part of the file with the same fields; its defaults if there is none."""
    return kind() if part is None else kind(**dict(part))


def _reservation(found: form.Reservation) -> declared.ReservationSpec:
    return declared.ReservationSpec(name=found.name, blocks=tuple(_block(item) for item in found.blocks))


def _block(found: form.Block) -> declared.BlockSpec:
    pools = found.pools or form.Pools()
    settings = {**dict(pools), "policy": pools.policy or ""}
    return declared.BlockSpec(
        name=found.name, cubes=found.cubes, spares=found.spares, pools=declared.PoolSettings(**settings)
    )


def _slice(found: form.Slice) -> declared.WantedSlice:
    return declared.WantedSlice(
        name=found.name,
        shapes=found.shapes,
        count=found.count,
        gang=found.gang_word,
        same_block=found.same_block,
        block=found.block or "",
        priority=found.priority,
        team=found.team or "",
        preemptible=found.preemptible,
        min_run_s=found.min_run_s,
        allow_degraded=found.health == "usable",
        on_deletion=found.on_deletion,
    )


def _window(found: form.Window) -> declared.Window:
    # In the order of the week, whatever the order in the file.
    days = tuple(day for day in declared.Weekday if day in found.days)
    return declared.Window(
        name=found.name, days=days, start_minute=found.start_minute, length_s=found.length_s
    )


def _hooks(found: form.Hooks | None) -> Iterator[declared.Hook]:
    for field, hooks in dict(found or form.Hooks()).items():
        event = declared.HookEvent(field.replace("_", "-"))
        for hook in hooks or ():
            yield declared.Hook(event=event, command=tuple(hook.command), timeout_s=hook.timeout_s)

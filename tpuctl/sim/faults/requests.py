"""Faults as the admin API is sent them: JSON, checked to the last field, turned into calls.

Times are `afterSeconds`, `forSeconds`, ... on the wire and `after_s`, `for_s`, ... in the program.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

from tpuctl.sim import api_faults
from tpuctl.sim import behaviour as behaviours
from tpuctl.sim.faults import actions, book, table, targets

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

API_PREFIX = "api-"
LONGEST_S = 10 * 366 * 86_400.0
"""Ten years: longer times are more likely a slip than a wish."""


def _text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _seconds(value: Any) -> bool:
    return _number(value) and 0 <= value <= LONGEST_S


def _period(value: Any) -> bool:
    return _seconds(value) and value > 0


@dataclasses.dataclass(frozen=True)
class _Field:
    name: str
    """In the program."""
    accepts: Callable[[Any], bool]
    what: str


_WORLD_FIELDS = {
    "hosts": _Field("hosts", lambda value: _whole(value) and value >= 0, "a whole number"),
    "times": _Field("times", lambda value: _whole(value) and value > 0, "a whole number above 0"),
    "afterSeconds": _Field("after_s", _seconds, "a number of seconds"),
    "forSeconds": _Field("for_s", _period, "a number of seconds above 0"),
    "everySeconds": _Field("every_s", _period, "a number of seconds above 0"),
}
"""Parameters of faults of hardware, maintenance and slices."""

_SELECTION_FIELDS = {
    **{name: _Field(name, _text, "a text") for name in ("api", "verb", "resource", "path", "method")},
    "page": _Field("page", _whole, "a whole number"),
}
_TRIGGER_FIELDS = {
    "call": _Field("call", _whole, "a whole number"),
    "times": _Field("times", _whole, "a whole number"),
    "seed": _Field("seed", _whole, "a whole number"),
    "probability": _Field("probability", _number, "a number"),
}
_EFFECT_FIELDS = {
    "code": _Field("code", _whole, "a whole number"),
    "events": _Field("events", _whole, "a whole number"),
    "retryAfterSeconds": _Field("retry_after_s", lambda value: _whole(value) and value >= 0, "whole seconds"),
    "delaySeconds": _Field("delay_s", _number, "a number of seconds"),
    "holdSeconds": _Field("hold_s", _number, "a number of seconds"),
    "offsetSeconds": _Field("offset_s", _number, "a number of seconds"),
    **{name: _Field(name, _text, "a text") for name in ("when", "how", "form")},
}

NAMES = (*table.FAULTS, *api_faults.EFFECTS)
"""All faults."""


class UnknownField(actions.BadFault):
    """A field that the fault does not have; `near` lists similar ones."""

    def __init__(self, fault: str, field: str, known: Mapping[str, object]) -> None:
        self.near = targets.near(field, known)
        super().__init__(f"fault {fault} takes no {field}")


def accepted(name: str) -> list[str]:
    """The fields of a fault on the wire, target and name apart. Raises `book.UnknownFault`."""
    if name in api_faults.EFFECTS:
        return list(_api_fields(api_faults.EFFECTS[name]))
    fault = table.FAULTS.get(name)
    if fault is None:
        raise book.UnknownFault(name, NAMES)
    taken = fault.parameters(behaviours.Behaviour())
    return [wire for wire, field in _WORLD_FIELDS.items() if field.name in taken]


def is_api_fault(name: str) -> bool:
    """Whether this is a fault of an API; it has no target."""
    return name.startswith(API_PREFIX)


def world_parameters(fault: str, body: Mapping[str, Any]) -> dict[str, float]:
    """Parameters for `book.Faults.inject`. Raises `actions.BadFault`."""
    return _read(fault, body, _WORLD_FIELDS)


def add_api_fault(engine: api_faults.ApiFaults, name: str, body: Mapping[str, Any]) -> api_faults.Injection:
    """Put the API fault that `body` describes in place.

    Raises `book.UnknownFault` or `actions.BadFault`.
    """
    effect = api_faults.EFFECTS.get(name)
    if effect is None:
        raise book.UnknownFault(name, NAMES)
    values = _read(name, body, _api_fields(effect))
    own = {field.name for field in dataclasses.fields(effect)}

    def of(fields: Mapping[str, _Field]) -> dict[str, Any]:
        return {one.name: values[one.name] for one in fields.values() if one.name in values}

    try:
        return engine.add(
            effect(**{field: value for field, value in values.items() if field in own}),
            api_faults.Selection(**of(_SELECTION_FIELDS)),
            api_faults.Trigger(**of(_TRIGGER_FIELDS)),
        )
    except ValueError as error:
        raise actions.BadFault(str(error)) from error


def _api_fields(effect: type[api_faults.Effect]) -> dict[str, _Field]:
    own = {field.name for field in dataclasses.fields(effect)}
    effect_fields = {wire: field for wire, field in _EFFECT_FIELDS.items() if field.name in own}
    return {**_SELECTION_FIELDS, **_TRIGGER_FIELDS, **effect_fields}


def _read(fault: str, body: Mapping[str, Any], known: Mapping[str, _Field]) -> dict[str, Any]:
    read: dict[str, Any] = {}
    for wire, value in body.items():
        field = known.get(wire)
        if field is None:
            raise UnknownField(fault, wire, known)
        if not field.accepts(value):
            raise actions.BadFault(f"{wire} must be {field.what}")
        read[field.name] = value
    return read

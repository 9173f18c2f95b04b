"""A Fleet as plain data and back: what `fleet dump` writes and `--fleet FILE` reads.

The form is versioned (`tpuctl/v1`, kind `FleetDump`). Unknown keys and missing ones are errors that name the
place, so that a damaged or newer file is never read as a smaller fleet.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import functools
import types
import typing
from typing import TYPE_CHECKING, Any, TypeVar

from tpuctl.model import errors, fleet, topology

if TYPE_CHECKING:
    from collections.abc import Mapping

T = TypeVar("T")

API_VERSION = "tpuctl/v1"
_ADDED_LATER: Mapping[type[object], frozenset[str]] = {
    fleet.Cube: frozenset({"strays"}),
    fleet.Stray: frozenset(fleet.Stray._field_defaults),
}
"""Fields that dumps of earlier versions lack; what they default to says that nothing was told."""
KIND = "FleetDump"


class DumpError(errors.UsageError):
    """The file is not a fleet dump of a version that this program reads."""


def dump(snapshot: fleet.Fleet) -> dict[str, Any]:
    """`snapshot` as dicts, lists, texts and numbers."""
    return {"apiVersion": API_VERSION, "kind": KIND, "fleet": _plain(snapshot)}


def load(document: object) -> fleet.Fleet:
    """Read what `dump` wrote; raises DumpError with the place of the first fault."""
    if not isinstance(document, dict):
        raise DumpError("not a fleet dump: the file holds no mapping")
    found = (document.get("apiVersion"), document.get("kind"))
    if found != (API_VERSION, KIND):
        raise DumpError(f"not a fleet dump: expected {API_VERSION} {KIND}, found {found[0]} {found[1]}")
    loaded: fleet.Fleet = _typed(document.get("fleet"), fleet.Fleet, "fleet")
    return loaded


def encode(record: Any) -> Any:
    """Any record of the model as dicts, lists, texts and numbers."""
    return _plain(record)


def decode(document: object, kind: type[T], place: str) -> T:
    """Read what `encode` wrote; raises DumpError that names `place` and the fault in it."""
    found: T = _typed(document, kind, place)
    return found


def camel(name: str) -> str:
    """`ready_since` -> `readySince`."""
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def _plain(value: Any) -> Any:
    if isinstance(value, topology.Topology):
        return str(value)
    if isinstance(value, datetime.datetime):
        return value.astimezone(datetime.UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, enum.Enum):
        return value.value
    kind: Any = type(value)
    fields = _fields(kind)
    if fields:
        return {camel(name): _plain(getattr(value, name)) for name in fields}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


@functools.cache
def _fields(kind: type[object]) -> Mapping[str, Any]:
    """Field name -> type for the model's records; empty for anything else."""
    if dataclasses.is_dataclass(kind):
        names = [field.name for field in dataclasses.fields(kind)]
    else:
        names = list(getattr(kind, "_fields", ()))
    hints = typing.get_type_hints(kind) if names else {}
    return {name: hints[name] for name in names}


def _typed(value: Any, wanted: Any, place: str) -> Any:
    origin = typing.get_origin(wanted)
    if origin in (types.UnionType, typing.Union):
        (inner,) = (option for option in typing.get_args(wanted) if option is not type(None))
        return None if value is None else _typed(value, inner, place)
    if origin is tuple:
        return _typed_tuple(value, typing.get_args(wanted)[0], place)
    if wanted is topology.Topology:
        return _topology(value, place)
    if wanted is datetime.datetime:
        return _time(value, place)
    if issubclass(wanted, enum.Enum):
        return _enum(value, wanted, place)
    fields = _fields(wanted)
    if fields:
        return _record(value, wanted, fields, place)
    if wanted is float and type(value) is int:
        return float(value)
    # bool is an int to Python, and a count that says "true" is a damaged file.
    if type(value) is not wanted:
        raise DumpError(f"{place}: expected {wanted.__name__}, found {value!r}")
    return value


def _typed_tuple(value: Any, inner: Any, place: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise DumpError(f"{place}: expected a list, found {value!r}")
    return tuple(_typed(item, inner, f"{place}[{index}]") for index, item in enumerate(value))


def _record(value: Any, kind: Any, fields: Mapping[str, Any], place: str) -> Any:
    if not isinstance(value, dict):
        raise DumpError(f"{place}: expected a mapping, found {value!r}")
    names = {camel(name): name for name in fields}
    unknown = sorted(str(key) for key in value if key not in names)
    if unknown:
        raise DumpError(f"{place}: unknown key '{unknown[0]}'")
    added = _ADDED_LATER.get(kind, frozenset())
    names = {key: name for key, name in names.items() if key in value or name not in added}
    missing = sorted(key for key in names if key not in value)
    if missing:
        raise DumpError(f"{place}: key '{missing[0]}' is missing")
    return kind(**{name: _typed(value[key], fields[name], f"{place}.{key}") for key, name in names.items()})


def _topology(value: Any, place: str) -> topology.Topology:
    try:
        return topology.parse(str(value))
    except topology.TopologyError as error:
        raise DumpError(f"{place}: {error.message}") from error


def _time(value: Any, place: str) -> datetime.datetime:
    # YAML reads an unquoted time stamp as a datetime by itself.
    if isinstance(value, datetime.datetime):
        return value if value.tzinfo else value.replace(tzinfo=datetime.UTC)
    try:
        parsed = datetime.datetime.fromisoformat(str(value))
    except ValueError as error:
        raise DumpError(f"{place}: '{value}' is not a time") from error
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=datetime.UTC)


def _enum(value: Any, wanted: type[enum.Enum], place: str) -> enum.Enum:
    try:
        return wanted(value)
    except ValueError as error:
        raise DumpError(
            f"{place}: '{value}' is not one of {', '.join(str(m.value) for m in wanted)}"
        ) from error

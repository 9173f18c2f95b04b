"""Kinds of values in the file, each with its JSON schema.

A reader raises ValueError with what was expected, as those of `config_file` do.
"""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import pydantic_core

from tpuctl.cli import config_file, durations, kinds
from tpuctl.model import names, topology

if TYPE_CHECKING:
    from collections.abc import Callable

_T = TypeVar("_T")

DAY_S = 86_400.0
LONGEST_SPAN_S = 3650 * DAY_S
LONGEST_WINDOW_S = 7 * DAY_S
"""A window begins anew at the latest a week later."""
LONGEST_HOOK_S = 600.0
"""A hook tells somebody something; work that takes longer belongs into a service of its own."""
MAX_COUNT = 100_000
"""Hosts of the largest fleet: no more sub-slices of one host can be wanted."""
MAX_PRIORITY = 1_000_000_000
"""As Kubernetes has it for its priority classes."""
MAX_PREFIX = 20

_RESOURCE = r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?"
_RESOURCE_NAME = re.compile(_RESOURCE, re.ASCII)
_RESERVATION = rf"(?:projects/[^/\s]+/reservations/)?{_RESOURCE}"
_RESERVATION_NAME = re.compile(_RESERVATION, re.ASCII)
_PREFIX = rf"[a-z](?:[-a-z0-9]{{0,{MAX_PREFIX - 2}}}[a-z0-9])?"
_POOL_PREFIX = re.compile(_PREFIX, re.ASCII)
_CLOCK = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]"
_CLOCK_TIME = re.compile(_CLOCK, re.ASCII)
# Multiples of 4 up to 576, the edge of the longest slice: one cube wide and high, 144 long.
_EDGE = "(?:[48]|[2468][048]|[13579][26]|[1-5](?:[02468][048]|[13579][26]))"


def _matching(form: re.Pattern[str], expected: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if not isinstance(value, str) or not form.fullmatch(value):
            raise ValueError(f"expected {expected}")
        return value

    return read


def _clock(value: Any) -> int:
    """Minutes after midnight."""
    if not isinstance(value, str) or not _CLOCK_TIME.fullmatch(value):
        raise ValueError('expected a time of day in UTC, for example "02:00"')
    hours, minutes = value.split(":")
    return int(hours) * 60 + int(minutes)


def _gang(value: Any) -> str | bool:
    if isinstance(value, bool):
        return value
    if not isinstance(value, str) or not value.strip():
        raise ValueError("expected true (a gang of its own), or a word that the entries of one gang share")
    return value


def _spans(least_s: float, most_s: float) -> Callable[[Any], float]:
    def read(value: Any) -> float:
        found = kinds.span(value)
        if not least_s <= found <= most_s:
            raise ValueError(f"expected from {durations.short(least_s)} to {durations.short(most_s)}")
        return found

    return read


def _upgrades(value: Any) -> bool:
    if config_file.flag(value):
        raise ValueError(
            "must be false or left out: an upgrade of nodes under an active slice makes the slice FAILED "
            "(upgrade by hand while no slice is on the cube)"
        )
    return False


def _surge(value: Any) -> int:
    if kinds.whole(value) != 0:
        raise ValueError(
            "must be 0: a cube has no host to spare for one more node, and its slice would break"
        )
    return 0


@dataclasses.dataclass(frozen=True, eq=False)  # typing needs a hash, and a schema has none
class _Kind:
    """How pydantic reads and describes a value."""

    reader: Callable[[Any], Any]
    schema: dict[str, Any]

    def __get_pydantic_core_schema__(self, *_: object) -> pydantic_core.CoreSchema:
        return pydantic_core.core_schema.no_info_plain_validator_function(self.reader)

    def __get_pydantic_json_schema__(self, *_: object) -> dict[str, Any]:
        return dict(self.schema)


class _Said:
    """A value that may be left out; a key with nothing behind it is no way to say so."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> pydantic_core.CoreSchema:
        inner: pydantic_core.CoreSchema = handler(source)["schema"]
        return inner


def _text_schema(pattern: str, *examples: str) -> dict[str, Any]:
    return {"type": "string", "pattern": f"^{pattern}$", **({"examples": [*examples]} if examples else {})}


_SPAN_SCHEMA = {
    "type": ["string", "number"],
    "pattern": r"^[0-9]+(\.[0-9]+)?[smhd]?$",
    "minimum": 0,
    "examples": ["90s", "10m", "2h", "1d"],
}
_SUB_SLICES = "|".join(str(shape) for shape in topology.SUB_SLICE_SHAPES)

Unsaid = Annotated[_T | None, _Said()]
Text = Annotated[str, _Kind(config_file.text, {"type": "string", "pattern": r"\S"})]
Name = Annotated[str, _Kind(config_file.context_name, _text_schema("[A-Za-z0-9][A-Za-z0-9._@-]*"))]
ResourceName = Annotated[
    str,
    _Kind(
        _matching(_RESOURCE_NAME, "a name of at most 63 small letters, digits and '-'"),
        _text_schema(_RESOURCE),
    ),
]
ReservationName = Annotated[
    str,
    _Kind(
        _matching(_RESERVATION_NAME, "a reservation: its name, or projects/PROJECT/reservations/NAME"),
        _text_schema(_RESERVATION),
    ),
]
PoolPrefix = Annotated[
    str,
    _Kind(
        _matching(_POOL_PREFIX, f"a beginning of at most {MAX_PREFIX} small letters, digits and '-'"),
        _text_schema(_PREFIX),
    ),
]
SliceName = Annotated[
    str,
    _Kind(
        kinds.slice_name,
        _text_schema("[a-z]([-a-z0-9]*[a-z0-9])?") | {"maxLength": names.MAX_SLICE_NAME},
    ),
]
Shape = Annotated[
    topology.Topology,
    _Kind(
        kinds.shape, _text_schema(f"(?:{_SUB_SLICES}|{_EDGE}x{_EDGE}x{_EDGE})", "2x2x4", "4x4x8", "8x8x16")
    ),
]
Chips = Annotated[
    topology.Topology,
    _Kind(kinds.chips, {"type": "integer", "minimum": 4, "maximum": 9216, "multipleOf": 4}),
]
Gang = Annotated[str | bool, _Kind(_gang, {"type": ["boolean", "string"], "pattern": r"\S"})]
ClockTime = Annotated[int, _Kind(_clock, _text_schema(_CLOCK, "02:00"))]
Span = Annotated[float, _Kind(_spans(0.0, LONGEST_SPAN_S), _SPAN_SCHEMA)]
PositiveSpan = Annotated[float, _Kind(_spans(1.0, LONGEST_SPAN_S), _SPAN_SCHEMA)]
WindowSpan = Annotated[float, _Kind(_spans(60.0, LONGEST_WINDOW_S), _SPAN_SCHEMA)]
HookSpan = Annotated[float, _Kind(_spans(1.0, LONGEST_HOOK_S), _SPAN_SCHEMA)]
NoUpgrades = Annotated[bool, _Kind(_upgrades, {"const": False})]
NoSurge = Annotated[int, _Kind(_surge, {"const": 0})]

"""Strict reading of JSON request bodies against a declared shape.

The real services bind JSON to protocol buffers: an unknown name is an error, null means "not set", names may
be written in lower camel or in snake case, enumerations may be words or numbers, 64-bit integers are strings.
A field which the service has and the simulator does not act upon is refused as unimplemented, never ignored.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from typing import Any

from tpuctl.sim.googleapis import errors

Reader = Callable[[Any, str], Any]
"""Takes a JSON value and the path to it; returns the value to keep, or raises ApiError."""

_SNAKE = re.compile(r"_([a-z0-9])")
_INT32_MAX = 2**31 - 1


def camel(name: str) -> str:
    """Return `name` in lower camel case; a name already in that form stays as it is."""
    return _SNAKE.sub(lambda match: match.group(1).upper(), name)


def _mismatch(path: str, kind: str, value: Any) -> errors.ApiError:
    return errors.invalid(f"Invalid value at '{path}' ({kind}), {str(value)[:100]!r}")


def _whole(value: Any) -> bool:
    """True for a JSON integer; Python counts true and false among its integers."""
    return isinstance(value, int) and not isinstance(value, bool)


def text(value: Any, path: str) -> str:
    if not isinstance(value, str):
        raise _mismatch(path, "TYPE_STRING", value)
    return value


def flag(value: Any, path: str) -> bool:
    if not isinstance(value, bool):
        raise _mismatch(path, "TYPE_BOOL", value)
    return value


def integer(value: Any, path: str) -> int:
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,19}", value):
        value = int(value)
    if not _whole(value) or abs(value) > _INT32_MAX:
        raise _mismatch(path, "TYPE_INT32", value)
    return int(value)


def int64_text(value: Any, path: str) -> str:
    """Read a 64-bit integer: a number or a numeric string in, the string that JSON carries out."""
    return str(integer(value, path))


def word(numbers: Mapping[str, int]) -> Reader:
    """Return a reader of an enumeration given as word or number; it returns the word."""
    words = {number: name for name, number in numbers.items()}

    def read(value: Any, path: str) -> str:
        found = words.get(value) if _whole(value) else value
        if not isinstance(found, str) or found not in numbers:
            raise _mismatch(path, "TYPE_ENUM", value)
        return found

    return read


def list_of(reader: Reader) -> Reader:
    """Return a reader of a list whose items `reader` reads."""

    def read(value: Any, path: str) -> list[Any]:
        if not isinstance(value, list):
            raise _mismatch(path, "TYPE_LIST", value)
        return [reader(item, f"{path}[{index}]") for index, item in enumerate(value)]

    return read


def text_map(value: Any, path: str) -> dict[str, str]:
    """Read an object whose values are strings."""
    if not isinstance(value, dict):
        raise _mismatch(path, "TYPE_MAP", value)
    return {key: text(item, f"{path}.{key}") for key, item in value.items()}


@dataclasses.dataclass(frozen=True)
class Message:
    """The shape of one JSON object."""

    readers: Mapping[str, Reader]
    """Field name in lower camel case -> how to read it."""
    refused: frozenset[str] = frozenset()
    """Fields that the service has and the simulator does not act upon."""

    def __call__(self, value: Any, path: str = "") -> dict[str, Any]:
        """Return the object with canonical field names and without nulls; ApiError if it does not fit."""
        if not isinstance(value, dict):
            raise _mismatch(path, "TYPE_MESSAGE", value)
        read: dict[str, Any] = {}
        for given, item in value.items():
            name = camel(given)
            if name not in self.readers and name not in self.refused:
                raise self._unknown(given, path)
            if item is None:
                continue
            read[name] = self._read(name, item, f"{path}.{name}" if path else name)
        return read

    def _read(self, name: str, item: Any, path: str) -> Any:
        if name in self.refused:
            raise errors.unimplemented(f"the field {path}")
        return self.readers[name](item, path)

    @staticmethod
    def _unknown(name: str, path: str) -> errors.ApiError:
        where = f" at '{path}'" if path else ""
        return errors.invalid(
            f'Invalid JSON payload received. Unknown name "{name}"{where}: Cannot find field.',
        )

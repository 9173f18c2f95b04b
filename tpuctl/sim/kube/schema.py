"""Check an object of a custom type against the schema of its definition.

Implements the keywords the simulator's definitions may use; a definition with others is refused when it is
created (`definition_causes`), so that no rule is silently skipped.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tpuctl.sim.kube import errors

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SUPPORTED = frozenset(
    {
        "additionalProperties",
        "default",
        "description",
        "enum",
        "example",
        "externalDocs",
        "format",
        "items",
        "maxItems",
        "maxLength",
        "maximum",
        "minItems",
        "minLength",
        "minimum",
        "nullable",
        "pattern",
        "properties",
        "required",
        "title",
        "type",
        "x-kubernetes-int-or-string",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-list-type",
        "x-kubernetes-map-type",
        "x-kubernetes-preserve-unknown-fields",
    }
)
TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}
NAMES = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}
DATE_TIME = r"\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[+-]\d{2}:\d{2})"
Schema = dict[str, Any]


def definition_causes(schema: Schema, path: str) -> Iterator[errors.Cause]:
    """What is wrong with a schema itself: rules this module does not check, or cannot understand."""
    for keyword in sorted(schema.keys() - SUPPORTED):
        yield _cause("Forbidden", "Forbidden: the simulator does not check this keyword", f"{path}.{keyword}")
    kind = schema.get("type")
    if kind is None and not schema.keys() & UNTYPED:
        yield _cause(
            "Required", "Required value: must not be empty for specified object fields", f"{path}.type"
        )
    elif kind is not None and kind not in TYPES:
        yield _cause("NotSupported", f'Unsupported value: "{kind}"', f"{path}.type")
    if "pattern" in schema and not _compiles(schema["pattern"]):
        yield _cause("Invalid", "Invalid value: must be a valid regular expression", f"{path}.pattern")
    for name, below in (schema.get("properties") or {}).items():
        yield from definition_causes(below, f"{path}.properties[{name}]")
    for keyword in ("items", "additionalProperties"):
        below = schema.get(keyword, True)
        if isinstance(below, dict):
            yield from definition_causes(below, f"{path}.{keyword}")
        elif not isinstance(below, bool):
            yield _cause("Invalid", "Invalid value: must be a schema", f"{path}.{keyword}")


UNTYPED = frozenset({"x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields"})
"""Keywords with which a schema needs no type."""


def _compiles(pattern: str) -> bool:
    try:
        re.compile(pattern)
    except re.error:
        return False
    return True


def with_defaults(value: Any, schema: Schema) -> Any:
    """A copy of `value` in which absent fields have their default."""
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        return [with_defaults(each, schema["items"]) for each in value]
    if not isinstance(value, dict):
        return value
    filled = dict(value)
    for name, below in schema.get("properties", {}).items():
        if "default" in below and filled.get(name) is None:
            filled[name] = below["default"]
        if name in filled:
            filled[name] = with_defaults(filled[name], below)
    return filled


def causes(value: Any, schema: Schema, path: str = "") -> Iterator[errors.Cause]:
    """What in `value` breaks the schema."""
    if value is None and schema.get("nullable"):
        return
    if schema.get("x-kubernetes-int-or-string"):
        kinds: tuple[type, ...] = (int, str)
    else:
        kinds = TYPES.get(schema.get("type", ""), (object,))
    if not isinstance(value, kinds) or (isinstance(value, bool) and int in kinds):
        yield _wrong_type(value, schema, path)
        return
    yield from _enum(value, schema, path)
    if isinstance(value, dict):
        yield from _fields(value, schema, path)
    elif isinstance(value, list):
        yield from _items(value, schema, path)
    elif isinstance(value, str):
        yield from _text(value, schema, path)
    elif isinstance(value, int | float):
        yield from _number(value, schema, path)


def _cause(reason: str, message: str, path: str) -> errors.Cause:
    return errors.Cause(f"FieldValue{reason}", message, path)


def _wrong_type(value: Any, schema: Schema, path: str) -> errors.Cause:
    found = NAMES.get(type(value), "null")
    wanted = schema.get("type", "integer or string")
    text = f'Invalid value: "{found}": {path} in body must be of type {wanted}: "{found}"'
    return _cause("TypeInvalid", text, path)


def _enum(value: Any, schema: Schema, path: str) -> Iterator[errors.Cause]:
    allowed = schema.get("enum")
    if allowed is not None and value not in allowed:
        shown = ", ".join(f'"{item}"' for item in allowed)
        yield _cause("NotSupported", f'Unsupported value: "{value}": supported values: {shown}', path)


def _fields(value: dict[str, Any], schema: Schema, path: str) -> Iterator[errors.Cause]:
    for name in schema.get("required", ()):
        if name not in value:
            yield _cause("Required", "Required value", _below(path, name))
    properties = schema.get("properties", {})
    extra = schema.get("additionalProperties")
    for name, each in value.items():
        below = properties.get(name, extra)
        if isinstance(below, dict):
            yield from causes(each, below, _below(path, name))


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _items(value: list[Any], schema: Schema, path: str) -> Iterator[errors.Cause]:
    low, high = schema.get("minItems", 0), schema.get("maxItems")
    if len(value) < low:
        text = f"Invalid value: {len(value)}: {path} in body should have at least {low} items"
        yield _cause("Invalid", text, path)
    if high is not None and len(value) > high:
        yield _cause("TooMany", f"Too many: {len(value)}: must have at most {high} items", path)
    yield from _duplicates(value, schema, path)
    if isinstance(schema.get("items"), dict):
        for place, each in enumerate(value):
            yield from causes(each, schema["items"], f"{path}[{place}]")


def _duplicates(value: list[Any], schema: Schema, path: str) -> Iterator[errors.Cause]:
    listing = schema.get("x-kubernetes-list-type")
    if listing not in {"set", "map"}:
        return
    seen: list[Any] = []
    for place, each in enumerate(value):
        mark = _key_of(each, schema["x-kubernetes-list-map-keys"]) if listing == "map" else each
        if mark in seen:
            yield _cause("Duplicate", f"Duplicate value: {_shown(mark)}", f"{path}[{place}]")
        seen.append(mark)


def _key_of(item: Any, keys: Iterable[str]) -> Any:
    return {key: item.get(key) for key in keys} if isinstance(item, dict) else item


def _shown(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


def _text(value: str, schema: Schema, path: str) -> Iterator[errors.Cause]:
    low, high, pattern = schema.get("minLength", 0), schema.get("maxLength"), schema.get("pattern")
    if len(value) < low:
        text = f'Invalid value: "{value}": {path} in body should be at least {low} chars long'
        yield _cause("Invalid", text, path)
    if high is not None and len(value) > high:
        yield _cause("TooLong", f"Too long: may not be more than {high} bytes", path)
    if pattern is not None and not re.search(_python_pattern(pattern), value, re.ASCII):
        text = f"Invalid value: \"{value}\": {path} in body should match '{pattern}'"
        yield _cause("Invalid", text, path)
    if schema.get("format") == "date-time" and not re.fullmatch(DATE_TIME, value):
        text = f'Invalid value: "{value}": {path} in body must be of type date-time: "{value}"'
        yield _cause("Invalid", text, path)


def _python_pattern(pattern: str) -> str:
    """Go's `$` matches at the very end only; Python's also before a last newline."""
    return pattern[:-1] + r"\Z" if pattern.endswith("$") and not pattern.endswith(r"\$") else pattern


def _number(value: float, schema: Schema, path: str) -> Iterator[errors.Cause]:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and value < low:
        text = f"Invalid value: {value}: {path} in body should be greater than or equal to {low}"
        yield _cause("Invalid", text, path)
    if high is not None and value > high:
        text = f"Invalid value: {value}: {path} in body should be less than or equal to {high}"
        yield _cause("Invalid", text, path)

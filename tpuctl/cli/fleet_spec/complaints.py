"""What pydantic found wrong with a value, in the words of our other files."""

from __future__ import annotations

import re
import types
import typing
from typing import TYPE_CHECKING, Any

from tpuctl.cli import config_file
from tpuctl.cli.fleet_spec import form
from tpuctl.cli.fleet_spec.document import Fault, Loc

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pydantic
    from pydantic_core import ErrorDetails

_NUMBER = "expected a number"
_WHOLE = "expected a whole number"
_EXPECTED: Mapping[str, str] = {
    "int_type": _WHOLE,
    "int_from_float": _WHOLE,
    "float_type": _NUMBER,
    "finite_number": _NUMBER,
    "bool_type": "expected true or false",
    "list_type": "expected a list",
    "dict_type": "expected keys",
    "model_type": "expected keys",
    "greater_than": "expected more than {gt:,.12g}",
    "greater_than_equal": "expected at least {ge:,.12g}",
    "less_than_equal": "expected at most {le:,.12g}",
    "too_short": "expected at least {min_length}",
}
_COMMAND = "expected a list: the program, then its arguments (no shell takes it apart)"


def faults(error: pydantic.ValidationError) -> list[Fault]:
    """One fault for each thing that is wrong."""
    return [_fault(found) for found in error.errors(include_url=False)]


def _fault(found: ErrorDetails) -> Fault:
    # A key of a mapping that anything may stand in is told by a mark behind it.
    loc: Loc = tuple(step for step in found["loc"] if step != "[key]")
    match found["type"]:
        case "extra_forbidden":
            key = str(loc[-1])
            text = f"unknown key '{key}' {config_file.under(_last_key(loc[:-1]))}".rstrip()
            return Fault(loc, text, config_file.near(key, _keys_at(loc[:-1])))
        case "missing":
            text = f"key '{loc[-1]}' is missing {config_file.under(_last_key(loc[:-1]))}".rstrip()
            return Fault(loc, text)
        case "enum" | "literal_error":
            return _not_one_of(loc, found)
    # Below 'teams' the keys are the user's own.
    what = ".".join(map(str, loc)) if loc[:1] == ("teams",) else _last_key(loc)
    return Fault(loc, f"{what}: {_expected(what, found)}" if what else _expected(what, found))


def _not_one_of(loc: Loc, found: ErrorDetails) -> Fault:
    allowed = re.findall(r"'([^']+)'", found["ctx"]["expected"])
    text = f"{_last_key(loc)}: expected one of {', '.join(allowed)}"
    hint = config_file.near(str(found["input"]), allowed)
    return Fault(loc, text, hint if hint.startswith("did you mean") else None)


def _expected(what: str, found: ErrorDetails) -> str:
    if what == "command" and found["type"] == "list_type":
        return _COMMAND
    context: dict[str, Any] = found.get("ctx", {})
    if found["type"] == "value_error":
        return str(context["error"])
    return _EXPECTED[found["type"]].format(**context) if found["type"] in _EXPECTED else found["msg"]


def _last_key(loc: Loc) -> str:
    return next((step for step in reversed(loc) if isinstance(step, str)), "")


def _keys_at(loc: Loc) -> list[str]:
    """The keys that may stand there."""
    kind: Any = form.Fleet
    for step in loc:
        if isinstance(step, str):
            kind = next(field.annotation for field in kind.model_fields.values() if field.alias == step)
        kind = _inner(kind)
    return [str(field.alias) for field in kind.model_fields.values()]


def _inner(kind: Any) -> Any:
    """What a list or an optional part is made of."""
    while typing.get_origin(kind) in (list, types.UnionType, typing.Union):
        kind = typing.get_args(kind)[0]
    return kind

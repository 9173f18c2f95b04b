"""The causes of a refused object, in the words of a real server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tpuctl.sim.kube import errors

if TYPE_CHECKING:
    from collections.abc import Iterable

IMMUTABLE = "field is immutable"


def required(field: str, why: str = "") -> errors.Cause:
    return errors.Cause("FieldValueRequired", f"Required value: {why}" if why else "Required value", field)


def bad(value: Any, why: str, field: str) -> errors.Cause:
    shown = f'"{value}"' if isinstance(value, str) else value
    return errors.Cause("FieldValueInvalid", f"Invalid value: {shown}: {why}", field)


def unsupported(value: Any, allowed: Iterable[str], field: str) -> errors.Cause:
    shown = ", ".join(f'"{item}"' for item in allowed)
    text = f'Unsupported value: "{value}": supported values: {shown}'
    return errors.Cause("FieldValueNotSupported", text, field)


def forbidden(why: str, field: str) -> errors.Cause:
    return errors.Cause("FieldValueForbidden", f"Forbidden: {why}", field)


def not_found(value: str, field: str) -> errors.Cause:
    return errors.Cause("FieldValueNotFound", f'Not found: "{value}"', field)


def too_long(limit: int, field: str) -> errors.Cause:
    return errors.Cause("FieldValueTooLong", f"Too long: may not be more than {limit} bytes", field)

"""The JSON schema of the form."""

from __future__ import annotations

from typing import Any

from pydantic import json_schema

from tpuctl.cli.fleet_spec import form


class _Generator(json_schema.GenerateJsonSchema):
    """Without a title for each key: it would only repeat the key."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        del schema
        return False


def schema() -> dict[str, Any]:
    """As `fleet_spec.schema`."""
    found = _without_nulls(form.Fleet.model_json_schema(schema_generator=_Generator))
    return {"$schema": json_schema.GenerateJsonSchema.schema_dialect, **found, "title": "tpuctl fleet"}


def _without_nulls(part: Any) -> Any:
    """`part` without defaults that only mean "not said", which editors would offer."""
    if isinstance(part, list):
        return [_without_nulls(item) for item in part]
    if isinstance(part, dict):
        kept = {key: value for key, value in part.items() if key != "default" or value is not None}
        return {key: _without_nulls(value) for key, value in kept.items()}
    return part

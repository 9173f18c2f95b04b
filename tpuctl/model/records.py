"""Operations, holds and repairs as text, and back.

A record that cannot be read is an error and stops whoever needed it: read as "nothing", it would free cubes
that an unfinished operation claims.
"""

from __future__ import annotations

import json
from typing import Any, TypeVar

from tpuctl.model import codec, errors, operations

T = TypeVar("T")

OPERATION = "operation"
HOLD = "hold"
RECONCILE = "reconcile"
"""What the reconcile loop remembers."""
PAUSE = "pause"
HISTORY = "history"
PLAN = "plan"
"""Marks a plan file as used."""
REPAIR = "repair"
"""One open repair; a reboot that runs keeps its cube."""
REPAIR_LEDGER = "repair-ledger"
WITHOUT_CLAIMS = frozenset({RECONCILE, PAUSE, HISTORY, PLAN, REPAIR_LEDGER})
"""Kinds that keep no cube from placement. Of a kind that is not known here it cannot be told."""


class DamagedRecord(errors.TpuctlError):
    """A record of tpuctl's in the cluster is not what tpuctl writes."""


def write_operation(operation: operations.Operation) -> str:
    return json.dumps(codec.encode(operation), sort_keys=True)


def read_operation(text: str, name: str) -> operations.Operation:
    """Raises DamagedRecord; a record of a newer form is one too."""
    return read(text, name, operations.Operation, schema=operations.SCHEMA)


def write_hold(hold: operations.Hold) -> str:
    return json.dumps(codec.encode(hold), sort_keys=True)


def read_hold(text: str, name: str) -> operations.Hold:
    """Raises DamagedRecord."""
    return _decoded(_parsed(text, name), operations.Hold, name)


def write(value: object) -> str:
    """Any record of the model as text, the same for the same value."""
    return json.dumps(codec.encode(value), sort_keys=True)


def read(text: str, name: str, kind: type[T], *, schema: int | None = None) -> T:
    """Read what `write` wrote; `schema` is the form that it must carry. Raises DamagedRecord."""
    document = _parsed(text, name)
    if schema is not None and document.get("schema") != schema:
        raise DamagedRecord(
            f"record {name} has form {document.get('schema')!r}, this tpuctl reads {schema}",
            hint="use the version of tpuctl that wrote it, or a newer one",
        )
    return _decoded(document, kind, name)


def _parsed(text: str, name: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except ValueError as error:
        raise _damaged(name, "it is not JSON") from error
    if not isinstance(document, dict):
        raise _damaged(name, "it is no mapping")
    return document


def _decoded(document: dict[str, Any], kind: type[T], name: str) -> T:
    try:
        return codec.decode(document, kind, name)
    except codec.DumpError as error:
        raise _damaged(name, error.message) from error


def _damaged(name: str, why: str) -> DamagedRecord:
    return DamagedRecord(
        f"record {name} is damaged: {why}; nothing was done",
        hint=f"look at it: kubectl -n tpuctl-system get configmap {name} -o yaml; restore it if you can, "
        "else make sure that its slice and cubes are as they should be and delete it with kubectl",
    )

"""The state of a Slice: the reason of its condition `Ready`. Reasons and their statuses are published."""

from __future__ import annotations

from typing import Any

RETRY_ANNOTATION = "slice.gke.io/retry-on-failure"

NOT_CREATED, CREATION_FAILED = "SliceNotCreated", "SliceCreationFailed"
ACTIVATING, ACTIVE, ACTIVE_DEGRADED = "ACTIVATING", "ACTIVE", "ACTIVE_DEGRADED"
FAILED, DEACTIVATING, INCOMPLETE = "FAILED", "DEACTIVATING", "INCOMPLETE"
READY = frozenset({ACTIVE, ACTIVE_DEGRADED})


def reason_of(obj: dict[str, Any]) -> str:
    """The state of a Slice object: the reason of its Ready condition, or "" if it has none."""
    conditions = obj.get("status", {}).get("conditions", [])
    return next((str(one["reason"]) for one in conditions if one["type"] == "Ready"), "")


def wants_retry(obj: dict[str, Any]) -> bool:
    return bool(obj["metadata"].get("annotations", {}).get(RETRY_ANNOTATION) == "true")


def set_ready(obj: dict[str, Any], reason: str, message: str, now: str) -> None:
    """Set the Ready condition in place.

    `lastTransitionTime` moves with the reason: the published sample shows a FAILED slice whose status was
    False all along and whose time is later than its creation.
    """
    conditions = obj.setdefault("status", {}).setdefault("conditions", [])
    old = next((one for one in conditions if one["type"] == "Ready"), None)
    changed = old is None or old["reason"] != reason
    new = {
        "type": "Ready",
        "status": "True" if reason in READY else "False",
        "reason": reason,
        "message": message,
        "lastTransitionTime": now if changed or old is None else old["lastTransitionTime"],
    }
    conditions[:] = [one for one in conditions if one["type"] != "Ready"] + [new]

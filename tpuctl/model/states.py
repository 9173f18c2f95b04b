"""Closed lists of states, with one word for whatever the service may say tomorrow.

Sources: the Slice resource reference (reasons of the `Ready` condition), the dynamic slicing guide (partition
state labels), google.container.v1 NodePool.Status. An unknown word is kept as text beside `UNKNOWN` and is
never taken for healthy, free or gone.
"""

from __future__ import annotations

import enum


class SliceState(enum.StrEnum):
    """The reason of a Slice's `Ready` condition."""

    CREATED = "CREATED"
    """No condition yet: the controller has not looked at it."""
    NOT_CREATED = "SliceNotCreated"
    CREATION_FAILED = "SliceCreationFailed"
    ACTIVATING = "ACTIVATING"
    ACTIVE = "ACTIVE"
    ACTIVE_DEGRADED = "ACTIVE_DEGRADED"
    FAILED = "FAILED"
    DEACTIVATING = "DEACTIVATING"
    INCOMPLETE = "INCOMPLETE"
    UNKNOWN = "UNKNOWN"

    @property
    def is_ready(self) -> bool:
        return self in (SliceState.ACTIVE, SliceState.ACTIVE_DEGRADED)

    @property
    def is_failed(self) -> bool:
        """If true, it will not become ready by waiting (a retry annotation apart)."""
        return self in (SliceState.FAILED, SliceState.CREATION_FAILED)

    @property
    def may_run(self) -> bool:
        """If true, work may run on it: where nobody knows, that is assumed."""
        return self.is_ready or self is SliceState.UNKNOWN


class PartitionState(enum.StrEnum):
    """The value of a node label `cloud.google.com/gke-tpu-partition-<shape>-state`."""

    HEALTHY = "HEALTHY"
    DEGRADED = "DEGRADED"
    """Usable with lower performance (a node label; in the Compute API the same word means not usable)."""
    UNHEALTHY = "UNHEALTHY"
    UNSET = "UNSET"
    INCOMPLETE = "INCOMPLETE"
    UNKNOWN = "UNKNOWN"

    @property
    def is_usable(self) -> bool:
        return self in (PartitionState.HEALTHY, PartitionState.DEGRADED)


class PoolStatus(enum.StrEnum):
    """NodePool.status; judge a pool by its nodes, since ERROR may be left over from the first attempt."""

    PROVISIONING = "PROVISIONING"
    RUNNING = "RUNNING"
    RUNNING_WITH_ERROR = "RUNNING_WITH_ERROR"
    RECONCILING = "RECONCILING"
    STOPPING = "STOPPING"
    ERROR = "ERROR"
    UNKNOWN = "UNKNOWN"


class Verdict(enum.StrEnum):
    """The one health judgement for a cube."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"
    UNHEALTHY = "unhealthy"
    INCOMPLETE = "incomplete"
    UNKNOWN = "unknown"


def slice_state(reason: str | None) -> SliceState:
    """The state for a reason word; no reason is CREATED, a word not on the list is UNKNOWN."""
    if reason is None:
        return SliceState.CREATED
    return _SLICE_STATES.get(reason, SliceState.UNKNOWN)


def partition_state(label: str | None) -> PartitionState:
    """The state for a label value; a missing label is UNKNOWN, not healthy."""
    return _PARTITION_STATES.get(label or "", PartitionState.UNKNOWN)


def pool_status(word: str) -> PoolStatus:
    """The status for a word; one not on the list is UNKNOWN."""
    return _POOL_STATUSES.get(word, PoolStatus.UNKNOWN)


_SLICE_STATES = {state.value: state for state in SliceState}
_PARTITION_STATES = {state.value: state for state in PartitionState}
_POOL_STATUSES = {status.value: status for status in PoolStatus}

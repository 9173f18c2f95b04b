"""Kubernetes objects, as JSON, turned into the model's records.

Fields that are missing or unknown become "unknown", never a good state. Sources of the keys: the Slice
resource reference and the dynamic slicing guide of GKE; owner marks as Kueue's slice controller, the TPU
provisioner and OME write them. This is the code that a large list spends its time in: keys are made once,
states are looked up in tables, and records are built by position.
"""

from __future__ import annotations

import datetime
import functools
import operator
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from tpuctl.model import fleet, states, topology

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ACCELERATOR = "tpu7x"
TPU = "google.com/tpu"
SLICE_LABEL = "cloud.google.com/gke-tpu-slice"
MANAGED_BY = "app.kubernetes.io/managed-by"
OURS = "tpuctl"

_ACCELERATOR_LABEL = "cloud.google.com/gke-tpu-accelerator"
_MODE_LABEL = "cloud.google.com/gke-accelerator-topology-mode"
_BLOCK_LABEL = "cloud.google.com/gce-topology-block"
_SUB_BLOCK_LABEL = "cloud.google.com/gce-topology-subblock"
_POOL_LABEL = "cloud.google.com/gke-nodepool"
_MAINTENANCE_LABEL = "cloud.google.com/scheduled-maintenance-time"
_ONGOING_LABEL = "cloud.google.com/active-node-maintenance"
PRIORITY_ANNOTATION = "tpuctl.dev/priority"
_RETRY_ANNOTATION = "slice.gke.io/retry-on-failure"
_ID_LABELS = tuple(f"cloud.google.com/gke-tpu-partition-{shape}-id" for shape in topology.PARTITION_SHAPES)
_STATE_LABELS = tuple(
    f"cloud.google.com/gke-tpu-partition-{shape}-state" for shape in topology.PARTITION_SHAPES
)
_USUAL_LABELS = (*_ID_LABELS, *_STATE_LABELS, _SUB_BLOCK_LABEL, _POOL_LABEL)
_usual_labels = operator.itemgetter(*_USUAL_LABELS)
"""All at once: the waits for main memory overlap then, and they are most of the time of a large list."""
_SHAPES = len(topology.PARTITION_SHAPES)
_CUBE_LABEL = _ID_LABELS[topology.PARTITION_SHAPES.index(topology.CUBE)]
_READY = {"True": True, "False": False}
_COUNTS = {str(count): count for count in range(topology.CHIPS_PER_HOST + 1)}
_LONGEST_MESSAGE = 400
_WHOLE = re.compile(r"-?[0-9]{1,10}", re.ASCII)
_NOTHING: Mapping[str, Any] = {}


class PlacedHost(NamedTuple):
    """A host, and the labels that say where it is."""

    host: fleet.Host
    block: str
    sub_block: str


def node(document: dict[str, Any]) -> PlacedHost | fleet.Stray | None:
    """A host of a cube; a Stray if it has TPU7x chips but its place is not known; None for any other node."""
    metadata = document["metadata"]
    labels = metadata.get("labels") or _NOTHING
    cube_id = labels.get(_CUBE_LABEL)
    name: str = metadata["name"]
    if not cube_id:
        return _homeless(document, labels)
    block = labels.get(_BLOCK_LABEL)
    if not block:
        return _stray(document, f"it has no label {_BLOCK_LABEL}")
    spec = document.get("spec") or _NOTHING
    status = document.get("status") or _NOTHING
    ready, since, conditions = _conditions(status.get("conditions") or ())
    taints = [taint for taint in spec.get("taints") or () if taint["key"] != TPU]
    maintenance = labels.get(_MAINTENANCE_LABEL)
    get = labels.get
    try:
        found = _usual_labels(labels)
    except KeyError:
        found = tuple([get(key, "") for key in _USUAL_LABELS])
    # By position: keyword arguments cost a third of the time of a large list.
    host = fleet.Host(
        name,
        cube_id,
        found[:_SHAPES],
        _partition_states(found[_SHAPES:-2]),
        ready,
        since,
        not spec.get("unschedulable"),
        get(SLICE_LABEL, ""),
        found[-1],
        metadata.get("uid", ""),
        tuple(taint["key"] for taint in taints) if taints else (),
        _from_epoch(maintenance) if maintenance else None,
        get(_ONGOING_LABEL) == "ONGOING",
        _moment_of_many(metadata.get("creationTimestamp")),
        conditions,
        _chips(status),
        spec.get("providerID") or "",
        tuple(taint.get("effect", "") for taint in taints) if taints else (),
    )
    return PlacedHost(host, block, found[-2])


def slice_(document: dict[str, Any], observed_at: datetime.datetime) -> fleet.Slice:
    """A Slice resource; `observed_at` stands in for a creation time that is missing."""
    metadata = document["metadata"]
    spec = document.get("spec") or _NOTHING
    created_at = moment(metadata.get("creationTimestamp")) or observed_at
    condition = _slice_condition(document.get("status") or _NOTHING)
    raw_topology = _text(spec.get("topology"))
    annotations = metadata.get("annotations") or _NOTHING
    return fleet.Slice(
        name=metadata["name"],
        uid=metadata.get("uid") or "",
        topology=_topology(raw_topology),
        raw_topology=raw_topology,
        partition_ids=tuple(sorted(_text(item) for item in spec.get("partitionIds") or ())),
        state=condition.state,
        reason=condition.reason,
        ready=condition.ready,
        message=condition.message,
        created_at=created_at,
        since=condition.since or created_at,
        deleting=bool(metadata.get("deletionTimestamp")),
        owner=owner(metadata),
        revision=metadata.get("resourceVersion") or "",
        retries=annotations.get(_RETRY_ANNOTATION) == "true",
        priority=_priority(annotations.get(PRIORITY_ANNOTATION)),
    )


def pod(document: dict[str, Any]) -> fleet.Pod | None:
    """A pod that asks for TPU chips; None for any other."""
    metadata = document["metadata"]
    spec = document.get("spec") or _NOTHING
    asked = [_asked(container) for container in spec.get("containers") or ()]
    asked_first = [_asked(container) for container in spec.get("initContainers") or ()]
    if not any(chips is not None for chips in (*asked, *asked_first)):
        return None
    status = document.get("status") or _NOTHING
    return fleet.Pod(
        namespace=metadata.get("namespace") or "",
        name=metadata["name"],
        uid=metadata.get("uid") or "",
        node=spec.get("nodeName") or "",
        phase=status.get("phase") or "",
        # Containers run together, initial ones one after the other before them.
        chips=max(sum(chips or 0 for chips in asked), *(chips or 0 for chips in asked_first), 0),
        owner=_controller(metadata),
        started_at=moment(status.get("startTime")),
    )


def event(document: dict[str, Any]) -> tuple[datetime.datetime, str]:
    """When an event last happened, and its `Reason: message`."""
    series = document.get("series") or _NOTHING
    metadata = document["metadata"]
    times = (
        series.get("lastObservedTime"),
        document.get("lastTimestamp"),
        document.get("eventTime"),
        metadata.get("creationTimestamp"),
    )
    when = next((found for text in times if (found := moment(text))), _LONG_AGO)
    return when, f"{document.get('reason') or 'Event'}: {document.get('message') or ''}".strip()


def owner(metadata: Mapping[str, Any]) -> fleet.Owner | None:
    """Who made a Slice, by the marks of known controllers; None for tpuctl, BY_HAND if nobody left a mark.

    Field managers are no evidence: they name the program that sent a field, for example kubectl.
    """
    labels = metadata.get("labels") or _NOTHING
    annotations = metadata.get("annotations") or _NOTHING
    if workload := annotations.get("accelerator.gke.io/owner-workload-name"):
        namespace = annotations.get("accelerator.gke.io/owner-workload-namespace", "")
        return fleet.Owner("kueue", "Workload", namespace, workload)
    if named := labels.get("tpu-provisioner.cloud.google.com/owner-name"):
        prefix = "tpu-provisioner.cloud.google.com/owner"
        kind, namespace = labels.get(f"{prefix}-kind", ""), labels.get(f"{prefix}-namespace", "")
        return fleet.Owner("tpu-provisioner", kind, namespace, named)
    if named := labels.get("cloud.google.com/slice-owner-name"):
        return fleet.Owner("ome", labels.get("cloud.google.com/slice-owner-kind", ""), "", named)
    manager = annotations.get("cloud.google.com/managed-by") or labels.get(MANAGED_BY)
    if manager and manager != OURS:
        return fleet.Owner(manager, "", "", "")
    for reference in metadata.get("ownerReferences") or ():
        if reference.get("controller"):
            group = _text(reference.get("apiVersion")).partition("/")[0]
            return fleet.Owner(group, _text(reference.get("kind")), "", _text(reference.get("name")))
    return None if manager == OURS else fleet.BY_HAND


def moment(text: object) -> datetime.datetime | None:
    """A time stamp of Kubernetes or Google Cloud; None if there is none that can be read."""
    if not isinstance(text, str):
        return None
    try:
        found = datetime.datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=datetime.UTC)


class _Condition(NamedTuple):
    state: states.SliceState
    reason: str
    ready: str
    message: str
    since: datetime.datetime | None


_LONG_AGO = datetime.datetime.fromtimestamp(0, datetime.UTC)
_NO_CONDITION = _Condition(states.SliceState.CREATED, "", "", "", None)
_FAILED_TYPE = states.SliceState.CREATION_FAILED.value


def _slice_condition(status: Mapping[str, Any]) -> _Condition:
    conditions = {item.get("type"): item for item in status.get("conditions") or ()}
    ready = conditions.get("Ready")
    # Older controllers had a condition type for what is a reason of Ready today.
    failed = conditions.get(_FAILED_TYPE)
    is_ready = ready is not None and ready.get("status") == "True"
    if failed is not None and failed.get("status") == "True" and not is_ready:
        return _condition(failed, states.SliceState.CREATION_FAILED, "False")._replace(reason=_FAILED_TYPE)
    if ready is None:
        return _NO_CONDITION
    state = states.slice_state(_text(ready.get("reason")))
    # Unknown beside ACTIVE is a hiccup of health checks; False beside ACTIVE contradicts itself.
    if state.is_ready and ready.get("status") not in ("True", "Unknown"):
        state = states.SliceState.UNKNOWN
    return _condition(ready, state, _text(ready.get("status")))


def _condition(document: Mapping[str, Any], state: states.SliceState, ready: str) -> _Condition:
    reason, message = _text(document.get("reason")), _text(document.get("message"))
    return _Condition(state, reason, ready, message, moment(document.get("lastTransitionTime")))


def _homeless(document: dict[str, Any], labels: Mapping[str, Any]) -> fleet.Stray | None:
    accelerator = labels.get(_ACCELERATOR_LABEL)
    if accelerator is None:
        capacity = (document.get("status") or _NOTHING).get("capacity") or _NOTHING
        why = f"it has TPU chips, but no label {_ACCELERATOR_LABEL}"
        return _stray(document, why) if TPU in capacity else None
    if accelerator != ACCELERATOR:
        return None
    mode = labels.get(_MODE_LABEL)
    if mode != "PROVISION_ONLY":
        why = f"its node pool is not for dynamic slicing (topology mode {mode or 'not told'})"
        return _stray(document, why, is_static=mode is not None)
    return _stray(document, f"it has no label {_CUBE_LABEL}")


def _stray(document: dict[str, Any], why: str, *, is_static: bool = False) -> fleet.Stray:
    """With everything that the node still tells of where it belongs."""
    metadata = document["metadata"]
    labels = metadata.get("labels") or _NOTHING
    return fleet.Stray(
        node=metadata["name"],
        why=why,
        pool=_text(labels.get(_POOL_LABEL)),
        slice_name=_text(labels.get(SLICE_LABEL)),
        partition_ids=tuple(found for key in _ID_LABELS if (found := _text(labels.get(key)))),
        uid=_text(metadata.get("uid")),
        created_at=_moment_of_many(metadata.get("creationTimestamp")),
        schedulable=not (document.get("spec") or _NOTHING).get("unschedulable"),
        is_static=is_static,
    )


def _conditions(
    documents: Iterable[Any],
) -> tuple[bool | None, datetime.datetime | None, tuple[fleet.NodeCondition, ...]]:
    """Ready and since when, and the other conditions that are not False: of a sound node there are none."""
    ready, since = None, None
    others: list[fleet.NodeCondition] = []
    for item in documents:
        if item["type"] == "Ready":
            ready, since = _READY.get(item.get("status")), _moment_of_many(item.get("lastTransitionTime"))
        elif item.get("status") != "False":
            others.append(_node_condition(item))
    return ready, since, tuple(others)


def _node_condition(document: Mapping[str, Any]) -> fleet.NodeCondition:
    return fleet.NodeCondition(
        type=_text(document["type"]),
        status=_text(document.get("status")),
        reason=_text(document.get("reason")),
        message=_text(document.get("message"))[:_LONGEST_MESSAGE],
        since=moment(document.get("lastTransitionTime")),
    )


def _moment_of_many(text: object) -> datetime.datetime | None:
    """As `moment`; the nodes of a pool share their seconds."""
    return _parsed_moment(text) if isinstance(text, str) else None


_parsed_moment = functools.lru_cache(maxsize=4096)(moment)


def _chips(status: Mapping[str, Any]) -> int | None:
    """Chips that pods can use: a chip that fails leaves `allocatable` first. None if nothing is told."""
    resources = status.get("allocatable") or status.get("capacity")
    if not resources:
        return None
    return _COUNTS.get(_text(resources.get(TPU, "0")))


@functools.lru_cache(maxsize=4096)
def _partition_states(words: tuple[str | None, ...]) -> tuple[states.PartitionState, ...]:
    """A table of the combinations that occur: a handful in a fleet of any size."""
    return tuple(states.partition_state(word) for word in words)


def _from_epoch(text: str) -> datetime.datetime | None:
    try:
        return datetime.datetime.fromtimestamp(int(text), datetime.UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _priority(text: object) -> int:
    """0 for what is no whole number that a person would write."""
    return int(text) if isinstance(text, str) and _WHOLE.fullmatch(text) else 0


@functools.lru_cache(maxsize=1024)
def _topology(text: str) -> topology.Topology | None:
    try:
        return topology.parse(text)
    except (topology.TopologyError, ValueError):  # ValueError: a number of thousands of digits
        return None


def _asked(container: Mapping[str, Any]) -> int | None:
    """Chips that a container asks for; None if it does not mention them."""
    resources = container.get("resources") or _NOTHING
    amounts = [(resources.get(kind) or _NOTHING).get(TPU) for kind in ("requests", "limits")]
    found = [_text(amount) for amount in amounts if amount is not None]
    return max((int(text) for text in found if text.isdecimal()), default=0) if found else None


def _controller(metadata: Mapping[str, Any]) -> str:
    for reference in metadata.get("ownerReferences") or ():
        if reference.get("controller"):
            return f"{reference.get('kind', '')}/{reference.get('name', '')}"
    return ""


def _text(value: object) -> str:
    return "" if value is None else str(value)

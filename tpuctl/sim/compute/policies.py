"""Resource policies of one region; only workload policies exist here."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Any

from tpuctl.sim import partitions
from tpuctl.sim.compute import operations
from tpuctl.sim.googleapis import errors, fields, times

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tpuctl.sim import clock as clocks

_TYPES = ("HIGH_AVAILABILITY", "HIGH_THROUGHPUT")
_MODES = ("AUTO_CONNECT", "PROVISION_ONLY")
_DISTANCES = ("BLOCK", "CLUSTER", "SUBBLOCK")
_NAME = re.compile(r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?")
_TOPOLOGY = re.compile(r"[1-9]\d*x[1-9]\d*(?:x[1-9]\d*)?")

SHAPE = fields.Message(
    {
        "name": fields.text,
        "description": fields.text,
        "region": fields.text,
        "workloadPolicy": fields.Message(
            {
                "type": fields.text,
                "acceleratorTopology": fields.text,
                "acceleratorTopologyMode": fields.text,
                "maxTopologyDistance": fields.text,
            }
        ),
    },
    frozenset(
        {
            "diskConsistencyGroupPolicy",
            "groupPlacementPolicy",
            "instanceSchedulePolicy",
            "snapshotSchedulePolicy",
            "creationTimestamp",
            "id",
            "kind",
            "resourceStatus",
            "selfLink",
            "status",
        }
    ),
)
"""The body of an insert."""


@dataclasses.dataclass(eq=False)
class Policy:
    """One resource policy."""

    name: str
    id: str
    request: dict[str, Any]
    created_s: float
    status: str = "CREATING"


class Policies:
    """The policies of one region. One policy serves any number of node pools."""

    def __init__(self, clock: clocks.Clock, place: operations.Place, *, seed: int) -> None:
        self._clock = clock
        self._place = place
        self._seed = seed
        self._made = 0
        self._all: dict[str, Policy] = {}

    def find(self, name: str) -> dict[str, Any] | None:
        """Return a policy that is ready for use, as JSON; None if there is none of that name."""
        policy = self._all.get(name)
        return self.view(policy) if policy is not None and policy.status == "READY" else None

    def get(self, name: str) -> Policy:
        """Return a policy in any state; ApiError (404) if there is none of that name."""
        policy = self._all.get(name)
        if policy is None:
            raise errors.ApiError(404, f"The resource '{self._path(name)}' was not found")
        return policy

    def __iter__(self) -> Iterator[Policy]:
        return iter(self._all.values())

    def insert(self, request: dict[str, Any]) -> Policy:
        """Begin a policy; it is ready when `ready` is called."""
        name = request.get("name", "")
        _check(request, name)
        if name in self._all:
            raise errors.ApiError(409, f"The resource '{self._path(name)}' already exists")
        self._made += 1
        identity = partitions.numeric_id(self._seed, "policy", self._made)
        policy = self._all[name] = Policy(name, identity, request, self._clock.now_s)
        return policy

    def ready(self, policy: Policy) -> None:
        policy.status = "READY"

    def check_deletable(self, policy: Policy, users: Iterable[str]) -> None:
        """ApiError unless the policy is ready and no node pool (paths in `users`) uses it."""
        if policy.status != "READY":
            raise errors.ApiError(
                400, f"The resource '{self._path(policy.name)}' is not ready", reason="resourceNotReady"
            )
        for user in users:
            raise errors.ApiError(
                400,
                f"The resource_policy resource '{self._path(policy.name)}' is already being used by '{user}'",
                reason="resourceInUseByAnotherResource",
            )

    def remove(self, policy: Policy) -> None:
        del self._all[policy.name]

    def view(self, policy: Policy) -> dict[str, Any]:
        """Return a policy as JSON."""
        return {
            **policy.request,
            "creationTimestamp": times.rfc3339(self._clock, policy.created_s),
            "id": policy.id,
            "kind": "compute#resourcePolicy",
            "name": policy.name,
            "region": self._place.link,
            "selfLink": f"{operations.COMPUTE}/{self._path(policy.name)}",
            "status": policy.status,
        }

    def _path(self, name: str) -> str:
        return f"{self._place.path}/resourcePolicies/{name}"


def bad_value(field: str, value: object, why: str) -> errors.ApiError:
    """The error for a value that is never right."""
    return errors.ApiError(400, f"Invalid value for field '{field}': '{value}'. {why}", reason="invalid")


def _check(request: dict[str, Any], name: str) -> None:
    if not _NAME.fullmatch(name):
        raise bad_value("resource.name", name, f"Must be a match of regex '{_NAME.pattern}'")
    workload = request.get("workloadPolicy")
    if workload is None:
        raise errors.ApiError(
            400, "Required field 'resource.workloadPolicy' not specified", reason="required"
        )
    if workload.get("type") not in _TYPES:
        raise bad_value("resource.workloadPolicy.type", workload.get("type"), f"Must be one of {_TYPES}.")
    _check_word(workload, "acceleratorTopologyMode", _MODES)
    _check_word(workload, "maxTopologyDistance", _DISTANCES)
    topology = workload.get("acceleratorTopology")
    if topology is not None and not _TOPOLOGY.fullmatch(topology):
        raise bad_value("resource.workloadPolicy.acceleratorTopology", topology, "Must be of the form AxBxC.")
    if topology is not None and "maxTopologyDistance" in workload:
        raise bad_value(
            "resource.workloadPolicy.maxTopologyDistance",
            workload["maxTopologyDistance"],
            "It cannot be combined with an accelerator topology.",
        )


def _check_word(workload: dict[str, Any], field: str, words: tuple[str, ...]) -> None:
    if field in workload and workload[field] not in words:
        raise bad_value(f"resource.workloadPolicy.{field}", workload[field], f"Must be one of {words}.")

"""What must hold after every operation of a soak, whatever was going on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.e2e.crash_stage import MARK, Stage
from tpuctl.model import fleet, invariants, operations, states, topology
from tpuctl.ops import journal

if TYPE_CHECKING:
    from collections.abc import Iterator

Object = dict[str, Any]


class Checks:
    """Remembers what there was, and what was promised."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.dead_hosts: set[str] = set()
        """Hosts that have died since everything was last repaired: their pods are no one's fault."""
        self._owed: set[str] = set()
        """Slices that must be there, or be known to an open operation."""
        self._members: dict[str, set[str]] = {}
        self._leaving: set[str] = set()
        """Cubes that the swaps which were open before the operation take out: their pods restart."""
        self._pods: dict[str, tuple[str, str]] = {}
        self._claims: list[str] = []
        self._pods_go = False
        self._taken_back: set[str] = set()

    # -- what the run tells ------------------------------------------------------------------------------

    def formed(self, name: str, shape: str) -> None:
        """A command said that this slice is there."""
        self._owed.add(name)
        self._taken_back.discard(name)
        item = self._stage.ports.slices.get(name)
        if item is None or item.topology != topology.parse(shape):
            self._claims.append(f"success was claimed, but slice {name} is {item}")

    def deformed(self, name: str) -> None:
        """A command said that this slice is gone."""
        self._owed.discard(name)
        if self._stage.ports.slices.get(name) is not None:
            self._claims.append(f"success was claimed, but slice {name} is there")

    def may_go(self, name: str) -> None:
        """A command that takes this slice away was begun; what it came to is not known."""
        self._owed.discard(name)

    def pods_may_go(self) -> None:
        """A Job was ended by its owner."""
        self._pods_go = True

    def was_taken_back(self, name: str) -> None:
        """A swap was aborted: if the old cubes do not form, the slice stays as it is on them."""
        self._taken_back.add(name)

    # -- around one operation ----------------------------------------------------------------------------

    def before(self) -> None:
        self._pods = self._running()
        self._pods_go = False
        self._claims = []
        self._members = self._members_now()
        self._leaving = self._exchanged()

    def after(self, *, at_rest: bool = False) -> list[str]:
        """What is wrong; `at_rest`: everything was given the time and the means to end."""
        snapshot = self._stage.whole()
        open_now = {
            entry.operation.slice_name: entry.operation for entry in journal.list_open(self._stage.ports)
        }
        wrong = [*self._claims, *self._stage.broken_promises(), *invariants.check_invariants(snapshot)]
        wrong += self._lost(snapshot, open_now)
        wrong += self._stray_marks(open_now)
        wrong += self._lost_pods(snapshot)
        if at_rest:
            wrong += [f"{name} is open at rest: {found.id}" for name, found in open_now.items()]
            wrong += [
                f"slice {item.name} is {item.state} at rest"
                for item in snapshot.slices
                if not self._may_rest(item)
            ]
        return wrong

    def _may_rest(self, item: fleet.Slice) -> bool:
        """A host that died breaks a slice for good; one that never formed is nobody's wish."""
        if item.state is states.SliceState.CREATION_FAILED:
            return item.name in self._taken_back
        return item.state in (states.SliceState.ACTIVE, states.SliceState.FAILED)

    def _exchanged(self) -> set[str]:
        entries = journal.list_open(self._stage.ports)
        return {exchange.old for entry in entries for exchange in entry.operation.exchanges}

    def _members_now(self) -> dict[str, set[str]]:
        return {item.name: set(item.partition_ids) for item in self._stage.whole().slices}

    def _lost(self, snapshot: fleet.Fleet, open_now: dict[str, operations.Operation]) -> Iterator[str]:
        there = {item.name for item in snapshot.slices}
        for name in sorted(self._owed - there - set(open_now)):
            self._owed.discard(name)
            yield f"slice {name} is lost: nothing is written down about it"

    def _stray_marks(self, open_now: dict[str, operations.Operation]) -> Iterator[str]:
        owners = {found.id: set(found.cordons) for found in open_now.values()}
        for node in self._stage.objects("nodes"):
            name, mark = node["metadata"]["name"], node["metadata"].get("annotations", {}).get(MARK)
            if mark is not None and name not in owners.get(mark, ()):
                yield f"node {name} carries the mark of {mark}, which is not open or does not know of it"
            if mark is None and node["spec"].get("unschedulable") and name != self._stage.cordoned:
                yield f"node {name} is cordoned and nobody says why"

    def _lost_pods(self, snapshot: fleet.Fleet) -> Iterator[str]:
        """Pods on healthy cubes that nobody took out of a slice keep their uid."""
        if self._pods_go:
            return
        cube_of = {host.name: cube.id for cube in snapshot.cubes for host in cube.hosts}
        members, now = self._members_now(), self._running()
        left = self._leaving | self._exchanged()
        for name, before in self._members.items():
            left |= before - members[name] if name in members else set()
        for uid, (node, start) in self._pods.items():
            if node in self.dead_hosts or cube_of.get(node) in left:
                continue
            if now.get(uid) != (node, start):
                yield f"pod {uid} on healthy node {node} is gone or was started again"

    def _running(self) -> dict[str, tuple[str, str]]:
        return {
            pod["metadata"]["uid"]: (pod["spec"]["nodeName"], pod["status"].get("startTime", ""))
            for pod in self._stage.pods()
            if pod["spec"].get("nodeName")
            and pod["status"].get("phase") == "Running"
            and "deletionTimestamp" not in pod["metadata"]
        }

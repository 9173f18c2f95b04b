"""Carry out an operation: ask what follows, do it, ask again, until nothing follows.

Every step is safe to repeat, and what is intended is written down before what cannot be taken back. So it
does not matter where an earlier run ended, or on which machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuctl.engine import second_choice, swapping
from tpuctl.model import errors, fleet, operations, states
from tpuctl.model import health as health_values
from tpuctl.ops import journal, locking, waiting
from tpuctl.ops import ports as ports_module

if TYPE_CHECKING:
    from collections.abc import Sequence

SOURCES = (fleet.SourceName.NODES, fleet.SourceName.SLICES, fleet.SourceName.CLAIMS)
SETTLE_S = 15.0
"""Pause before partitions of a slice that is just gone are used again; from a field note, not documented."""
SAME_AGAIN = 2
"""How often SliceCreationFailed is answered by the same cubes again, when no other slice explains it."""
SETS_OF_SPARES = 3
"""How many sets of spare cubes a swap tries, the one that it began with among them, before it goes back to
the old cubes. Where only some cubes of a set are exchanged again, they count as that part of one."""
_Step = swapping.StepName
_Intent = operations.Intent


class NotFormed(errors.TpuctlError):
    """The service did not form a slice. It was taken back."""

    def __init__(self, item: fleet.Slice, why: str) -> None:
        super().__init__(
            f"slice {item.name} was not formed: {why}; it was taken back, nothing was left behind",
            hint="look at the cubes with: tpuctl cube list; name other ones with --cubes",
        )
        self.partition_ids = item.partition_ids


class Stopped(errors.PartlyDone):
    """The operation cannot go on by itself; its record stays open."""


class Runner:
    """One run of one operation. `ports` are fenced by the locks that the caller holds."""

    def __init__(
        self,
        ports: ports_module.Ports,
        reporter: ports_module.Reporter,
        entry: journal.Entry,
        *,
        timeout_s: float = waiting.DEFAULT_TIMEOUT_S,
        policy: health_values.HealthPolicy = health_values.DEFAULT_POLICY,
        gives_in: bool = False,
    ) -> None:
        """`policy` judges the cubes of a second choice.

        `gives_in`: end a way back whose old cubes do not form, rather than stop with the record open.
        """
        self._ports = ports
        self._reporter = reporter
        self._entry = entry
        self._timeout_s = timeout_s
        self._policy = policy
        self._gives_in = gives_in
        self._same_again = 0
        self._has_created = False
        self._must_settle = entry.operation.intent is not _Intent.PLANNED
        self._labels_off = 0
        """Hosts whose labels were waited for in vain: so many are missing, or if negative, left behind."""
        self.ready: fleet.Slice | None = None
        """The slice when it was last seen ready."""

    @property
    def entry(self) -> journal.Entry:
        """The operation's record as last written."""
        return self._entry

    @property
    def operation(self) -> operations.Operation:
        return self._entry.operation

    def run(self) -> None:
        """Go on until the operation is closed.

        Raises Stopped (exit 7) with the record left open if a person must decide, Conflict if somebody else
        got in between and everything was taken back, TimedOut with the record left open.
        """
        while self.advance():
            pass

    def advance(self) -> bool:
        """Do the next step; False if that was the last."""
        world = self._observe()
        step = swapping.next_step(self.operation, world)
        self._reporter.going_on(self._how_to_go_on(world.slice))
        if step.name is _Step.STOP:
            raise self._stopped(step.why)
        if step.name is _Step.CLOSE:
            self._close()
            return False
        self._perform(step, world)
        return True

    def close_if_done(self) -> bool:
        """Close the operation if nothing is left to do; false, and nothing done, otherwise."""
        if swapping.next_step(self.operation, self._observe()).name is not _Step.CLOSE:
            return False
        self._close()
        return True

    def _perform(self, step: swapping.Step, world: swapping.World) -> None:
        item = world.slice
        if step.name is _Step.CORDON:
            self._cordon(world)
        elif step.name is _Step.CREATE:
            self._create()
        elif step.name is _Step.RESTART_PODS:
            self._restart_pods(world)
        elif step.name is _Step.UNCORDON:
            self._uncordon(world)
        elif step.name is _Step.WAIT_GONE:
            self._wait_gone(item)
        elif item is None:
            raise AssertionError(f"{step.name} without a slice")
        elif step.name is _Step.DELETE:
            self._delete(item)
        elif step.name is _Step.WAIT_READY:
            self._wait_ready(item)
        else:
            self._try_others(item, step.why)

    # -- looking -----------------------------------------------------------------------------------------

    def _observe(self) -> swapping.World:
        """What the next step can depend on; the rest is not read."""
        operation = self.operation
        item = self._ports.slices.get(operation.slice_name)
        is_ready = item is not None and item.state.is_ready and not item.deleting
        is_gone = operation.kind is operations.Kind.DEFORM and operation.intent is not _Intent.PLANNED
        is_planned = operation.intent is _Intent.PLANNED
        # No pod is restarted before the old slice is asked to go: until then nobody asks about them.
        restarts = (is_ready and not is_planned) or is_gone or operation.intent is _Intent.RESTARTING
        cordons = restarts or is_planned or operation.aborting
        marks = self._ports.workloads.marked(operation.cordons, operation.id) if cordons else {}
        replaced = [pod for pod in operation.pods if pod.replaced]
        if is_ready:
            self.ready = item
        return swapping.World(
            slice=item,
            labelled_hosts=self._ports.slices.labelled_hosts(operation.slice_name) + self._labels_off,
            cordoned=tuple(host for host, is_marked in marks.items() if is_marked),
            live_pods=self._ports.workloads.live_pods(replaced) if restarts and replaced else frozenset(),
            hosts=frozenset(marks),
        )

    # -- acting ------------------------------------------------------------------------------------------

    def _cordon(self, world: swapping.World) -> None:
        """Hosts that somebody else cordons meanwhile stay theirs: they are taken off our list."""
        operation = self.operation
        self._reporter.step(f"cordoning {len(operation.cordons)} hosts of the cubes that go")
        mine = [
            host
            for host in operation.cordons
            if host in world.hosts and self._ports.workloads.cordon(host, operation.id)
        ]
        self._amend(cordons=tuple(mine))

    def _uncordon(self, world: swapping.World) -> None:
        for host in world.cordoned:
            self._ports.workloads.uncordon(host, self.operation.id)

    def _delete(self, item: fleet.Slice) -> None:
        is_first = self.operation.intent is _Intent.PLANNED
        if is_first:
            self._amend(intent=_Intent.DELETING)
        try:
            self._ports.slices.delete(item.name, uid=item.uid)
        except (errors.NotPermitted, errors.UsageError):
            if is_first:
                self._take_intent_back(item)
            raise
        self._reporter.step(f"slice {item.name}: deletion asked for")
        self._must_settle = True

    def _take_intent_back(self, item: fleet.Slice) -> None:
        """The server refused the first thing to be done: nothing was, and nobody else shall do it for us."""
        try:
            now = self._ports.slices.get(item.name)
            if now is None or now.uid != item.uid or now.deleting:
                return
            self._amend(intent=_Intent.PLANNED, aborting=True)
            while self.advance():
                pass
        except errors.TpuctlError as error:
            self._reporter.warn(f"operation {self.operation.id} is still open: {error.message}")

    def _wait_gone(self, item: fleet.Slice | None) -> None:
        name = self.operation.slice_name
        uid = item.uid if item is not None else ""
        self._labels_off = -waiting.until_gone(
            self._ports,
            self._reporter,
            name,
            uid=uid,
            timeout_s=self._timeout_s,
            how_to_go_on=self._how_to_go_on(item),
        )
        self._must_settle = True

    def _create(self) -> None:
        operation = self.operation
        self._amend(intent=_Intent.CREATING)
        if self._must_settle:
            self._ports.clock.sleep(SETTLE_S)
        spec = ports_module.SliceSpec(
            operation.slice_name, operation.topology, operation.partitions, operation.priority
        )
        self._ports.slices.create(spec)
        self._has_created = True
        count = len(spec.partition_ids)
        self._reporter.step(
            f"slice {spec.name} created with {count} {'partition' if count == 1 else 'partitions'}"
        )

    def _wait_ready(self, item: fleet.Slice) -> None:
        """A failure while waiting is not raised: the next look at the world names what follows."""
        # Pods wait for a swapped slice; a new one has none yet, and is not whole without its labels.
        is_swap = self.operation.kind is operations.Kind.SWAP
        try:
            self.ready = waiting.until_ready(
                self._ports,
                self._reporter,
                item.name,
                uid=item.uid,
                shape=self.operation.topology,
                timeout_s=self._timeout_s,
                labels_s=waiting.LABELS_S if is_swap else None,
                how_to_go_on=self._how_to_go_on(item),
            )
            if is_swap:
                labelled = self._ports.slices.labelled_hosts(item.name)
                self._labels_off = max(self.operation.topology.hosts - labelled, 0)
        except waiting.SliceFailed as failure:
            self._reporter.warn(failure.message)
        except locking.LostLock:
            raise
        except errors.Conflict as conflict:
            now = self._ports.slices.get(item.name)
            if now is not None and now.uid == item.uid and not now.deleting:
                raise  # the conflict was about something else
            # Somebody deleted it on purpose: making it again would be a fight, not a repair.
            if self.operation.kind is operations.Kind.FORM:
                self._close()
                raise
            raise self._stopped(conflict.message) from conflict

    def _restart_pods(self, world: swapping.World) -> None:
        self._amend(intent=_Intent.RESTARTING)
        self._reporter.step(f"restarting {len(world.live_pods)} pods of the cubes that went")
        for pod in self.operation.pods:
            if pod.uid in world.live_pods:
                self._ports.workloads.delete_pod(pod.namespace, pod.name, uid=pod.uid)

    # -- when formation fails ----------------------------------------------------------------------------

    def _try_others(self, item: fleet.Slice, why: str) -> None:
        snapshot = self._ports.fleet.observe(SOURCES)
        holders = second_choice.other_holders(snapshot, item)
        passing = item.state is states.SliceState.CREATION_FAILED and not holders
        if passing and self._same_again < SAME_AGAIN:
            self._same_again += 1
            self._reporter.warn(f"{why}; the same again ({self._same_again} of {SAME_AGAIN})")
            self._take_back(item)
            return
        if self.operation.kind is operations.Kind.FORM:
            self._give_up(item, why, holders)
        self._use_other_cubes(item, why)

    def _take_back(self, item: fleet.Slice) -> None:
        """Delete our attempt: a failed Slice would go on claiming its partitions."""
        if self.operation.kind is operations.Kind.FORM:
            # So that a run after a crash does not take it for somebody else's deletion.
            self._amend(intent=_Intent.DELETING)
        self._ports.slices.delete(item.name, uid=item.uid)
        self._labels_off = -waiting.until_gone(self._ports, self._reporter, item.name, uid=item.uid)
        self._must_settle = True

    def _give_up(self, item: fleet.Slice, why: str, holders: Sequence[str]) -> None:
        self._amend(aborting=True, note=why)
        self._take_back(item)
        self._close()
        if holders:
            named = ("slice " if len(holders) == 1 else "slices ") + ", ".join(holders)
            raise errors.Conflict(
                f"slice {item.name} was not formed: {named} took some of its partitions first",
                hint="nothing was left behind; run the command again to use other cubes",
            )
        raise NotFormed(item, why)

    def _use_other_cubes(self, item: fleet.Slice, why: str) -> None:
        """Other spares up to a limit, then the old cubes if they can form, else stop and say so."""
        # Nobody else may choose meanwhile: the record claims what is chosen.
        with locking.held(self._ports, self._reporter, locking.PLACEMENT) as choice:
            choosing = locking.fenced(self._ports, choice)
            snapshot = choosing.fleet.observe((*SOURCES, fleet.SourceName.PODS))
            following = self._second_choice(snapshot, why)
            if following is not None:
                self._entry = self._entry.replaced(choosing, following)
                return
        if not self._has_created and second_choice.can_form(
            snapshot, self.operation, self.operation.partitions, self._policy
        ):
            # An earlier run saw it fail. Whoever goes on now has mended something.
            self._reporter.warn(f"{why}; the same cubes again")
            self._take_back(item)
            return
        if not self.operation.exchanges or (self._gives_in and self.operation.aborting):
            self._end_broken(item, why)
        raise self._stopped(
            f"slice {item.name} does not form ({why}), and no other cubes are left to try",
            may_go_back=False,  # that was tried, or the old cubes cannot form
        )

    def _second_choice(self, snapshot: fleet.Fleet, why: str) -> operations.Operation | None:
        """The operation with what is to be tried next; None if nothing is left."""
        operation = self.operation
        if operation.aborting:
            return None
        # The cubes that it has now, which did not form either, are not among those tried yet.
        sets = len({*operation.tried}) // max(len(operation.exchanges), 1) + 1
        found = None
        if sets < SETS_OF_SPARES:
            found = second_choice.another_try(snapshot, operation, self._policy)
        if found is not None:
            self._reporter.warn(f"{why}; trying other cubes: {_listed(operation, found)}")
            return found
        if not operation.exchanges:
            return None  # it has its own cubes: there is nothing to go back to
        if second_choice.can_form(snapshot, operation, operation.old_partitions, self._policy):
            self._reporter.warn(f"{why}; no other cube will do, going back to the old ones")
            return second_choice.way_back(operation)
        return None

    def _end_broken(self, item: fleet.Slice, why: str) -> None:
        """The old cubes do not form either: so it was before, and nothing is kept for it any more."""
        for host in self.operation.cordons:
            self._ports.workloads.uncordon(host, self.operation.id)  # only if it carries our mark
        self._close()
        raise errors.PartlyDone(
            f"slice {item.name} has its old cubes again and does not form on them: {why}",
            hint=f"when there are spares or repaired hosts: tpuctl slice swap {item.name} --auto",
        )

    # -- the record --------------------------------------------------------------------------------------

    def _close(self) -> None:
        self._entry.close(self._ports)
        self._reporter.going_on("")

    def _amend(self, **changes: object) -> None:
        self._entry = self._entry.amended(self._ports, **changes)

    def _stopped(self, why: str, *, may_go_back: bool = True) -> Stopped:
        self._amend(note=why)
        operation = self.operation
        hint = f"when that is mended: tpuctl operation resume {operation.id}"
        if may_go_back and not operation.why_no_way_back and not operation.aborting:
            hint += f"; to go back: tpuctl operation abort {operation.id}"
        return Stopped(
            f"operation {operation.id} stopped: {why}",
            hint=hint,
            details=(f"it is at '{operation.intent}'; its record keeps {len(operation.claims)} partitions",),
        )

    def _how_to_go_on(self, item: fleet.Slice | None) -> str:
        operation = self.operation
        if operation.kind is operations.Kind.FORM and item is not None and not operation.aborting:
            name = operation.slice_name
            return f"slice {name} goes on forming; follow it with: tpuctl slice wait {name}"
        goes_on = ""
        if operation.kind is operations.Kind.DEFORM and operation.is_begun:
            goes_on = f"slice {operation.slice_name} goes on being taken apart; "
        return (
            f"{goes_on}operation {operation.id} is open and its cubes are kept; "
            f"finish it with: tpuctl operation resume {operation.id}"
        )


def _listed(before: operations.Operation, after: operations.Operation) -> str:
    new = [exchange for exchange in after.exchanges if exchange not in before.exchanges]
    return ", ".join(f"{exchange.old} -> {exchange.new}" for exchange in new)

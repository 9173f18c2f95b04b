"""One loop acts at a time: a Lease that its holder renews while it works and checks before every write.

It is renewed by the thread that does the work and by no other, so one that hangs or is dead does not renew.
What the loop has to say of itself (its last full cycle) rides on the renewals.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime  # noqa: TC003 - the codec resolves annotations at run time
import json
from typing import TYPE_CHECKING

from tpuctl.model import codec, errors
from tpuctl.ops import locking

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tpuctl.model import operations
    from tpuctl.ops import ports as ports_module

NAME = "tpuctl-reconcile"
STANDBY_S = 5.0
"""How often one who waits to lead looks."""
MAX_LISTED = 20
MAX_TEXT = 500


class LostLeadership(locking.LostLock):
    """Another loop may act now."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Told:
    """What the leader says of itself, as an annotation of its Lease."""

    cycle: str
    """Id of its last full cycle."""
    full_cycle_at: datetime.datetime
    """When that one saw the world, by the servers' clocks."""
    interval_s: float
    fleet: str
    spec_digest: str
    sentence: str
    pending: tuple[str, ...] = ()
    """Actions that are decided and not done, each with what stops it."""
    waiting: tuple[str, ...] = ()
    """Wanted slices that do not fit now."""
    stuck: tuple[str, ...] = ()
    """A declared state that cannot be read anew, and repairs that do not come forward."""
    paused: bool = False
    acting: bool = False
    """If true, a cycle after that one is at work: a swap or a formation takes its minutes."""


class Leader(locking.Lock):
    """The lock, held. `told` is what its next renewal says."""

    def check(self) -> None:
        """As a lock does; raises LostLeadership."""
        try:
            super().check()
        except LostLeadership:
            raise
        except locking.LostLock as lost:
            raise LostLeadership(lost.message, hint="another loop may act now") from lost

    _last: Told | None = None

    def tell(self, told: Told) -> None:
        """Say this with the next renewal; a renewal that is due happens now."""
        self._last = told
        self._told = _text(told)
        self.renew_if_due()

    def begins_to_act(self) -> None:
        """Say with the next renewal that this cycle takes longer than looking does."""
        if self._last is not None:
            self._told = _text(dataclasses.replace(self._last, acting=True))

    def release(self) -> None:
        """Take our name off and leave what was told, for whoever asks for the last cycle."""
        found = self._ports.leases.get(self._lease.name)
        if found is not None and found.uid == self._lease.uid and found.holder == self._holder:
            self._ports.leases.free(found._replace(told=self._told))


@contextlib.contextmanager
def lead(
    ports: ports_module.Ports,
    reporter: ports_module.Reporter,
    *,
    wait: bool = False,
    stop: Callable[[], bool] = lambda: False,
) -> Iterator[Leader | None]:
    """Be the one loop that acts.

    Raises Busy that names the holder; with `wait`, waits until the lock can be had, or yields None when
    `stop` says so. A lock that cannot be given back ends by itself.
    """
    leader = _standby(ports, reporter, stop) if wait else _take(ports, reporter)
    if leader is None:
        yield None
        return
    try:
        yield leader
    finally:
        # What went wrong inside is the news.
        with contextlib.suppress(errors.TpuctlError):
            leader.release()


def read(ports: ports_module.Ports) -> tuple[operations.Lease | None, Told | None]:
    """The lock as it is, and what its holder says; None for what cannot be read."""
    lease = ports.leases.get(NAME)
    if lease is None or not lease.told:
        return lease, None
    try:
        return lease, codec.decode(json.loads(lease.told), Told, NAME)
    except (ValueError, errors.UsageError):
        return lease, None  # of another version; it says nothing that anything depends on


def _take(ports: ports_module.Ports, reporter: ports_module.Reporter) -> Leader:
    holder = ports.identity.actor()
    try:
        lease = locking.acquire(ports, reporter, NAME, holder, 0.0)
    except errors.Conflict as conflict:
        found = ports.leases.get(NAME)
        who = found.holder if found is not None and found.holder else "another loop"
        raise errors.Busy(
            f"{who} leads: one loop acts at a time",
            hint="see: tpuctl reconcile status; if its process is dead it is free within a minute",
        ) from conflict
    return Leader(ports, lease, holder)


def _standby(
    ports: ports_module.Ports, reporter: ports_module.Reporter, stop: Callable[[], bool]
) -> Leader | None:
    said = ""
    while not stop():
        try:
            return _take(ports, reporter)
        except errors.Busy as busy:
            if busy.message != said:
                reporter.step(f"standing by: {busy.message}")
                said = busy.message
        except errors.TpuctlError as error:
            # A token or a role that is missing for a while is no reason to end: the others may need us then.
            reporter.warn(f"cannot tell who leads: {error.message}")
        ports.clock.sleep(STANDBY_S)
    return None


def _text(told: Told) -> str:
    return json.dumps(codec.encode(_short(told)), sort_keys=True)


def _short(told: Told) -> Told:
    """An annotation has room for little."""
    return dataclasses.replace(
        told,
        sentence=told.sentence[:MAX_TEXT],
        pending=tuple(text[:MAX_TEXT] for text in told.pending[:MAX_LISTED]),
        waiting=tuple(text[:MAX_TEXT] for text in told.waiting[:MAX_LISTED]),
        stuck=tuple(text[:MAX_TEXT] for text in told.stuck[:MAX_LISTED]),
    )

"""Waiting for a slice: level-triggered, finite, and honest about what goes on afterwards.

The object is read again and again rather than watched: a missed event cannot make us deaf, and a read that
fails is an error of the read, not news about the slice.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tpuctl.model import counts, errors, states

if TYPE_CHECKING:
    from tpuctl.model import fleet, topology
    from tpuctl.ops import ports as ports_module

POLL_S = 1.0
DEFAULT_TIMEOUT_S = 600.0
"""For forming. GKE publishes no limit of its own; Kueue's slice controller uses 3 to 6 minutes."""
DEFAULT_GONE_TIMEOUT_S = 900.0
"""For taking apart: Google's troubleshooting guide calls a deletion stuck after 10 to 15 minutes."""
LABELS_S = 120.0
"""Node labels that still differ from the state of their slice after this long are left behind. How fast they
follow is not published, and people are known to clear them by hand."""


class SliceFailed(errors.TpuctlError):
    """The slice reached a state from which it does not become ready by waiting."""

    def __init__(self, item: fleet.Slice) -> None:
        text = f"slice {item.name} is {item.reason or item.state}"
        super().__init__(f"{text}: {item.message}" if item.message else text)
        self.slice = item


@dataclasses.dataclass(frozen=True, kw_only=True)
class Deadline:
    """A moment on the context's clock."""

    clock: ports_module.Clock
    end_s: float
    timeout_s: float

    @classmethod
    def after(cls, clock: ports_module.Clock, timeout_s: float) -> Deadline:
        return cls(clock=clock, end_s=clock.monotonic_s() + timeout_s, timeout_s=timeout_s)

    @property
    def is_over(self) -> bool:
        return self.clock.monotonic_s() >= self.end_s

    def pause(self, seconds: float) -> bool:
        """Sleep, but not past the end; False if the end is reached."""
        left_s = self.end_s - self.clock.monotonic_s()
        if left_s <= 0:
            return False
        self.clock.sleep(min(seconds, left_s))
        return True


def until_ready(
    ports: ports_module.Ports,
    reporter: ports_module.Reporter,
    name: str,
    *,
    uid: str,
    shape: topology.Topology | None,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    labels_s: float | None = None,
    how_to_go_on: str = "",
) -> fleet.Slice:
    """Wait until slice `name` is ready: ACTIVE or ACTIVE_DEGRADED, and all its hosts carry its label.

    The labels count because workloads select nodes by them, and they may follow the state later. With
    `labels_s` the state alone counts once they have been waited for so long.
    Raises SliceFailed, Conflict if the object vanishes or is another one now, TimedOut.
    """
    deadline = Deadline.after(ports.clock, timeout_s)
    how_to_go_on = how_to_go_on or f"it goes on forming; follow it with: tpuctl slice wait {name}"
    reporter.going_on(how_to_go_on)
    said = _Changes(reporter)
    labels = None
    while True:
        item = ports.slices.get(name)
        if item is None or item.uid != uid:
            raise errors.Conflict(f"slice {name} was deleted by somebody else while it was forming")
        if item.state.is_ready and not item.deleting:
            labelled = ports.slices.labelled_hosts(name)
            if shape is None or labelled >= shape.hosts:
                return item
            told = f"slice {name} is {item.state}, {labelled} of {shape.hosts} hosts are labelled"
            if labels_s is not None:
                labels = labels or Deadline.after(ports.clock, labels_s)
                if labels.is_over:
                    reporter.warn(f"{told} after {labels_s:.0f} s; going on without the others")
                    return item
            said.tell(told)
        else:
            said.tell(f"slice {name} is {_shown(item)}")
            _raise_if_hopeless(item)
        if not deadline.pause(POLL_S):
            raise errors.TimedOut(
                f"slice {name} is still {_shown(item)} after {timeout_s:.0f} s",
                hint=how_to_go_on,
            )


def until_gone(
    ports: ports_module.Ports,
    reporter: ports_module.Reporter,
    name: str,
    *,
    uid: str,
    timeout_s: float = DEFAULT_GONE_TIMEOUT_S,
    how_to_go_on: str = "the service goes on",
) -> int:
    """Wait until the object is gone and no node carries its label any more.

    Another object of the same name (somebody formed it again) also means that this one is gone; its labels
    are then not ours to wait for. Labels that outlive the object by LABELS_S are left behind, and no reason
    to keep a slice from being formed again: returns on how many hosts. Raises TimedOut; a finalizer is never
    removed to speed things up.
    """
    deadline = Deadline.after(ports.clock, timeout_s)
    said = _Changes(reporter)
    labels = None
    while True:
        item = ports.slices.get(name)
        if item is not None and item.uid != uid:
            return 0
        if item is None:
            left = ports.slices.labelled_hosts(name)
            labels = labels or Deadline.after(ports.clock, LABELS_S)
            if left and labels.is_over:
                hosts = counts.of(left, "host")
                reporter.warn(
                    f"slice {name} is gone, and its label is still on {hosts} after {LABELS_S:.0f} s"
                )
            if not left or labels.is_over:
                return left
        said.tell(
            f"slice {name} is {_shown(item)}" if item else f"slice {name}: waiting for node labels to clear"
        )
        if not deadline.pause(POLL_S):
            raise errors.TimedOut(
                f"slice {name} is not gone after {timeout_s:.0f} s",
                hint=f"{how_to_go_on}; if it stays so for over 15 minutes, ask Google Cloud support. "
                "tpuctl does not remove finalizers: that can leave hardware orphaned",
            )


def _raise_if_hopeless(item: fleet.Slice) -> None:
    if item.deleting:
        raise errors.Conflict(f"slice {item.name} is being deleted by somebody else")
    if item.state is states.SliceState.CREATION_FAILED and item.retries:
        return  # GKE tries again by itself: annotation slice.gke.io/retry-on-failure
    if item.state.is_failed:
        raise SliceFailed(item)


def _shown(item: fleet.Slice) -> str:
    word = item.reason or str(item.state)
    return f"{word} (deletion asked for)" if item.deleting else word


class _Changes:
    """Passes a text on only when it differs from the last one."""

    def __init__(self, reporter: ports_module.Reporter) -> None:
        self._reporter = reporter
        self._last = ""

    def tell(self, text: str) -> None:
        if text != self._last:
            self._reporter.step(text)
            self._last = text

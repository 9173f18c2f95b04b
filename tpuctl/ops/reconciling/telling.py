"""Tell people and their programs: hooks, Kubernetes Events, history. None of it decides anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuctl.model import errors, reconciling
from tpuctl.ops import ports as ports_module
from tpuctl.ops.reconciling import history, leadership, outcomes

if TYPE_CHECKING:
    import datetime
    from collections.abc import Iterable, Sequence

    from tpuctl.model import declared, fleet
    from tpuctl.ops.reconciling import settings as settings_module
    from tpuctl.ops.repairs import values


_OBJECTS = {
    reconciling.ActionKind.FINISH: "operation",
    reconciling.ActionKind.CREATE_POOL: "nodepool",
    reconciling.ActionKind.RECREATE_POOL: "nodepool",
}


class Teller:
    """Tells what one cycle does."""

    def __init__(
        self,
        ports: ports_module.Ports,
        reporter: ports_module.Reporter,
        settings: settings_module.Settings,
        *,
        cycle: str,
        plan: str,
    ) -> None:
        self._ports = ports
        self._reporter = reporter
        self._hooks = settings.hooks
        self._about = settings.about
        self._cycle = cycle
        self._plan = plan
        self._events_fail = False

    def about(self, action: reconciling.Action) -> None:
        """What follows is about this action."""
        self._about({"cycle": self._cycle, "plan": self._plan, "object": object_of(action)})

    def hook(self, event: declared.HookEvent, **facts: str) -> None:
        self._hooks.run(event, {"cycle": self._cycle, "plan": self._plan, **facts})

    def of_slice(self, item: fleet.Slice, reason: str, message: str, *, warning: bool = False) -> None:
        self._emit(ports_module.About("Slice", item.name, item.uid), reason, message, warning=warning)

    def of_hosts(
        self, hosts: Iterable[fleet.Host], reason: str, message: str, *, warning: bool = False
    ) -> None:
        for host in hosts:
            self._emit(ports_module.About("Node", host.name, host.uid), reason, message, warning=warning)

    def _emit(self, about: ports_module.About, reason: str, message: str, *, warning: bool) -> None:
        """A failure is told once; what is done does not depend on anybody reading about it."""
        if self._events_fail:
            return
        try:
            self._ports.events.emit(about, reason, message, warning=warning)
        except leadership.LostLeadership:
            raise
        except errors.TpuctlError as error:
            self._events_fail = True
            self._reporter.warn(f"Kubernetes Events are not written: {error.message}")

    def remember(self, entries: Sequence[reconciling.Entry]) -> None:
        """Add to the history; a failure is told, and undoes nothing."""
        try:
            history.append(self._ports, entries)
        except leadership.LostLeadership:
            raise
        except errors.TpuctlError as error:
            self._reporter.warn(f"the history was not written: {error.message}")

    def repairs(
        self, at: datetime.datetime, actor: str, executed: Iterable[values.Executed]
    ) -> list[reconciling.Entry]:
        """Repairs that were carried out."""
        return [
            reconciling.Entry(at, self._cycle, "", actor, done.text, "done", f"repair/{done.item.id}")
            for done in executed
        ]

    def entries(
        self,
        at: datetime.datetime,
        actor: str,
        results: Iterable[outcomes.Result],
        before: reconciling.Memory,
        after: reconciling.Memory,
    ) -> list[reconciling.Entry]:
        """What is worth keeping of a cycle: what it changed or failed at, and what it found out."""

        def entry(text: str, result: str, subject: str) -> reconciling.Entry:
            return reconciling.Entry(at, self._cycle, self._plan, actor, text, result, subject)

        found = [
            entry(line(result.action, result.why), str(result.became), result.action.target)
            for result in results
        ]
        if after.tripped is not None and before.tripped is None:
            found.append(entry(f"breaker tripped: {after.tripped.why}", "stopped", "breaker"))
        known = {(item.subject, item.text) for item in before.recommendations}
        found += [
            entry(item.text, "told", item.subject)
            for item in after.recommendations
            if (item.subject, item.text) not in known
        ]
        return found


def facts_of(snapshot: fleet.Fleet, item: fleet.Slice) -> dict[str, str]:
    """What hooks are told of a slice."""
    ids = {cube.block for cube in snapshot.cubes_of(item)}
    labels = sorted(block.label for block in snapshot.blocks if block.id in ids)
    return {
        "slice": item.name,
        "topology": item.raw_topology,
        "chips": "" if item.topology is None else str(item.topology.chips),
        "block": ",".join(labels),
    }


def object_of(action: reconciling.Action) -> str:
    """What an action is about: `slice/NAME`, `nodepool/NAME` or `operation/ID`."""
    return f"{_OBJECTS.get(action.kind, 'slice')}/{action.target}"


def line(action: reconciling.Action, why: str = "") -> str:
    """An action as people read it: `~ train-a: cube c7 failed (the world moved)`."""
    text = f"{reconciling.SIGNS[action.kind]} {action.target}: {action.reason}"
    return f"{text} ({why})" if why else text

"""Form several slices of one shape together, or none; and work down through smaller shapes."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tpuctl.engine import forming as decisions
from tpuctl.engine import placement
from tpuctl.model import errors, fleet, states
from tpuctl.ops import forming, holding, journal, locking, naming, refusals, running, waiting

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tpuctl.model import topology
    from tpuctl.ops import ports as ports_module


def members(name: str, count: int) -> tuple[str, ...]:
    """Names of the slices: the name itself for one, numbered from 0 for several."""
    return (name,) if count == 1 else tuple(f"{name}-{number}" for number in range(count))


def shapes_to_try(
    ports: ports_module.Ports, names: Sequence[str], shapes: Sequence[topology.Topology]
) -> tuple[topology.Topology, ...]:
    """The shapes in order; only the one that is there, if an earlier run already made a slice of one."""
    if len(shapes) > 1:
        for name in names:
            there = ports.slices.get(name)
            for shape in shapes:
                if there is not None and there.topology == shape:
                    return (shape,)
    return tuple(shapes)


def prepare(
    ports: ports_module.Ports, names: Sequence[str], wish: placement.Request
) -> tuple[forming.Prepared, ...]:
    """Decide for all on one snapshot, each beside those before it.

    Raises what `forming.prepare` raises; DoesNotFit if not all of them fit together.
    """
    first = forming.prepare(ports, names[0], wish)
    resolved = naming.resolve(first.snapshot, wish)
    found = [first]
    snapshot = beside(first.snapshot, first)
    for name in names[1:]:
        plan = decisions.plan_form(snapshot, name, resolved)
        if isinstance(plan, placement.Refusal):
            refused = refusals.error_for(snapshot, plan, resolved, me=lambda: holding.owner_name(ports))
            raise errors.DoesNotFit(
                f"{len(found)} of {len(names)} slices {wish.topology} fit, and they are formed all or none",
                # What is named makes room for one more.
                hint=refused.hint if len(found) + 1 == len(names) else None,
                details=refused.details,
            )
        if isinstance(plan, decisions.Clash):
            raise refusals.clash(plan, snapshot)
        found.append(dataclasses.replace(first, slice_name=name, plan=plan))
        snapshot = beside(snapshot, found[-1])
    return tuple(found)


def form(
    ports: ports_module.Ports,
    reporter: ports_module.Reporter,
    names: Sequence[str],
    wish: placement.Request,
    *,
    wait: bool = True,
    timeout_s: float = waiting.DEFAULT_TIMEOUT_S,
) -> tuple[forming.Outcome, ...]:
    """Form all of `names` or none; those that are there as asked, or were begun by an earlier run, count.

    Raises what `forming.form` raises. What was created is taken back if a later one cannot be created.
    """
    if len(names) == 1:
        return (forming.form(ports, reporter, names[0], wish, wait=wait, timeout_s=timeout_s),)
    known = [name for name in names if ports.slices.get(name) or journal.of_slice(ports, name)]
    outcomes = {
        name: forming.form(ports, reporter, name, wish, wait=wait, timeout_s=timeout_s) for name in known
    }
    missing = [name for name in names if name not in outcomes]
    if missing:
        outcomes |= _form_missing(ports, reporter, missing, wish, wait=wait, timeout_s=timeout_s)
    return tuple(outcomes[name] for name in names)


def _form_missing(
    ports: ports_module.Ports,
    reporter: ports_module.Reporter,
    names: Sequence[str],
    wish: placement.Request,
    *,
    wait: bool,
    timeout_s: float,
) -> dict[str, forming.Outcome]:
    with locking.slices_held(ports, reporter, names, wait_s=locking.WAIT_S) as locks:
        fenced = locking.fenced(ports, *locks.values())
        for name in names:
            journal.refuse_if_open(fenced, name)
        with locking.held(fenced, reporter, locking.PLACEMENT) as choice:
            prepared = prepare(locking.fenced(ports, *locks.values(), choice), names, wish)
            started = start_all(ports, reporter, prepared, locks, choice, timeout_s=timeout_s)
        return _finish_all(ports, reporter, prepared, started, locks, wait=wait, timeout_s=timeout_s)


def start_all(
    ports: ports_module.Ports,
    reporter: ports_module.Reporter,
    prepared: Sequence[forming.Prepared],
    locks: Mapping[str, locking.Lock],
    choice: locking.Lock,
    *,
    beside: Iterable[locking.Lock] = (),
    timeout_s: float,
) -> list[forming.Started | None]:
    """Start all that was decided, or take back what was started and raise why.

    Each slice is written under its own lock and `choice`, so that the requests do not grow with the square of
    the slices; the locks of the others, and those `beside`, are kept meanwhile.
    """
    kept = (*locks.values(), *beside)
    started: list[forming.Started | None] = []
    back: list[tuple[ports_module.Ports, forming.Started]] = []
    try:
        for one in prepared:
            own = locking.fenced(ports, locks[one.slice_name], choice, beside=kept)
            begun = forming.start(own, reporter, one, timeout_s=timeout_s)
            started.append(begun)
            if begun is not None:
                back.append((own, begun))
    except errors.TpuctlError:
        if back:
            reporter.step(f"taking {len(back)} slices back: they are formed all or none")
        for own, done in reversed(back):
            entry = done.entry.amended(own, aborting=True, note="")
            running.Runner(own, reporter, entry, timeout_s=timeout_s).run()
        raise
    return started


def _finish_all(
    ports: ports_module.Ports,
    reporter: ports_module.Reporter,
    prepared: Sequence[forming.Prepared],
    started: Sequence[forming.Started | None],
    locks: Mapping[str, locking.Lock],
    *,
    wait: bool,
    timeout_s: float,
) -> dict[str, forming.Outcome]:
    """All are waited for; what the service cannot make is told with what it has made."""
    labels = prepared[0].snapshot.block_labels
    outcomes: dict[str, forming.Outcome] = {}
    failed: list[errors.TpuctlError] = []
    for one, begun in zip(prepared, started, strict=True):
        own = locking.fenced(ports, locks[one.slice_name], beside=locks.values())
        try:
            found = forming.finish(own, reporter, one, begun, wait=wait, timeout_s=timeout_s)
        except errors.TimedOut:
            raise
        except errors.TpuctlError as error:
            failed.append(error)
            continue
        outcomes[one.slice_name] = dataclasses.replace(found, block=labels.get(one.block or ""))
    if failed:
        formed = ", ".join(outcomes) or "none"
        raise errors.PartlyDone(
            f"{len(failed)} of {len(prepared)} slices were not formed; formed: {formed}",
            hint="run the command again, or take apart what was formed with: tpuctl slice deform NAME",
            details=tuple(error.message for error in failed),
        ) from failed[0]
    return outcomes


def beside(snapshot: fleet.Fleet, prepared: forming.Prepared) -> fleet.Fleet:
    """The snapshot as it will be when this slice exists."""
    if isinstance(prepared.plan, decisions.Unchanged):
        return snapshot
    shape = prepared.plan.placement.topology
    item = fleet.Slice(
        name=prepared.slice_name,
        uid="",
        topology=shape,
        raw_topology=str(shape),
        partition_ids=prepared.partition_ids,
        state=states.SliceState.CREATED,
        reason="",
        ready="",
        message="",
        created_at=snapshot.observed_at,
        since=snapshot.observed_at,
        deleting=False,
        owner=None,
        revision="",
        priority=prepared.priority,
    )
    return dataclasses.replace(snapshot, slices=(*snapshot.slices, item))

"""`tpuctl operation`: operations that were begun and have not ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tpuctl.cli import commands, health_policy, options, output, session, swap_views, wiring
from tpuctl.model.exit_status import ExitStatus
from tpuctl.ops import journal, operating, retreating, swapping

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tpuctl.model import operations

app = commands.App(help="Finish or take back operations that were interrupted.")

IdArgument = Annotated[
    str,
    typer.Argument(
        metavar="ID", help="Operation, as `tpuctl operation list` shows it.", parser=options.plain_name
    ),
]


@app.command("list")
def list_operations(fmt: output.FormatOption = None, no_headers: output.NoHeadersOption = False) -> int:
    """List open operations: what was begun on which slice, by whom, and how far it got.

    Examples:
      tpuctl operation list
    """
    entries, damaged = journal.list_readable(wiring.ports())
    found: Sequence[operations.Operation] = [entry.operation for entry in entries]
    column = output.Column
    output.render_list(
        "Operation",
        found,
        columns=[
            column("OPERATION", lambda item: item.id),
            column("SLICE", lambda item: item.slice_name),
            column("AT", lambda item: item.stage),
            column("BY", lambda item: item.actor),
            column("STARTED", lambda item: output.timestamp(item.started_at)),
            column("NOTE", lambda item: item.note),
        ],
        to_plain=_plain,
        name_of=lambda item: f"operation/{item.id}",
        fmt=fmt,
        no_headers=no_headers,
        partial=bool(damaged),
        empty="No open operations that can be read." if damaged else "No open operations.",
    )
    for sentence in damaged:
        session.current().terminal.warn(sentence)
    return ExitStatus.FAILED if damaged else ExitStatus.OK


@app.command()
def show(operation: IdArgument, fmt: output.FormatOption = None) -> None:
    """Show what an open operation intends and how far it got.

    Examples:
      tpuctl operation show swap-train-a
    """
    found = journal.find(wiring.ports(), operation).operation
    output.render_one(
        "Operation",
        _plain(found),
        rows=[
            ("Operation", found.id),
            ("Slice", f"{found.slice_name} ({found.topology})"),
            ("At", found.stage),
            ("By", found.actor),
            ("Started", output.timestamp(found.started_at)),
            ("Exchanges", "\n".join(f"{old} -> {new}" for old, new in found.exchanges) or None),
            ("Keeps", f"{len(found.claims)} partitions"),
            (
                "Pods",
                f"{sum(pod.replaced for pod in found.pods)} restart, "
                f"{sum(not pod.replaced for pod in found.pods)} stay"
                if found.pods
                else None,
            ),
            ("Note", found.note or None),
            ("Next", journal.ways_to_end(found)),
        ],
        name=f"operation/{found.id}",
        fmt=fmt,
    )


@app.command()
def resume(
    operation: IdArgument,
    timeout: options.TimeoutOption = options.TEN_MINUTES,
    fmt: output.FormatOption = None,
) -> int:
    """Finish an operation that was interrupted, on this machine or another.

    Examples:
      tpuctl operation resume swap-train-a
    """
    reporter = session.current().terminal.reporter()
    found = operating.resume(
        wiring.ports(), reporter, operation, timeout_s=timeout, policy=health_policy.chosen(None)
    )
    if isinstance(found, swapping.Outcome):
        return swap_views.show_outcome(found, fmt)
    _show_end(found, "finished", fmt)
    return 0


@app.command()
def abort(
    operation: IdArgument,
    yes: options.YesOption = False,
    accept_failure: Annotated[
        bool,
        typer.Option(
            "--accept-failure", help="Also to old cubes that do not form: the slice is then left failed."
        ),
    ] = False,
    timeout: options.TimeoutOption = options.TEN_MINUTES,
    fmt: output.FormatOption = None,
) -> None:
    """Go back to what was before an operation, as far as that is still possible.

    A swap makes the slice again on its old cubes, if these can form; a forming takes its slice away. A taking
    apart that has begun, and a swap whose pods are being restarted, can only be finished. What will be done
    is shown first, and nothing is done without a yes.

    Examples:
      tpuctl operation abort swap-train-a
    """
    wiring.require_named_context("aborting an operation")
    screen = session.current().terminal
    screen.require_answers(yes=yes, what="aborting an operation needs a confirmation")
    ports = wiring.ports()
    rules = health_policy.chosen(None)
    shown = retreating.look(ports, operation, rules)
    retreating.check(shown, accept_failure=accept_failure)
    _confirm_abort(shown, yes=yes)
    ended = operating.abort(
        ports,
        screen.reporter(),
        operation,
        timeout_s=timeout,
        policy=rules,
        accept_failure=accept_failure,
        shown=shown,
    )
    _show_end(ended, "taken back", fmt)


def _confirm_abort(shown: retreating.Retreat, *, yes: bool) -> None:
    screen, found = session.current().terminal, shown.operation
    screen.note(f"going back from operation {found.id} in context {wiring.context().name}:")
    for line in shown.steps:
        screen.note(f"  {line}")
    for line in shown.obstacles:
        screen.warn(line)
    if shown.radius is not None:
        screen.note(f"blast radius: {shown.radius}")
    if shown.radius is not None and shown.radius.is_disruptive:
        screen.confirm_name("The pods lose their fabric.", found.slice_name, yes=yes)
    else:
        screen.confirm(f"Take back {found.id} (it is at '{found.intent}')?", yes=yes)


def _plain(item: operations.Operation) -> dict[str, Any]:
    return {
        "id": item.id,
        "kind": str(item.kind),
        "slice": item.slice_name,
        "topology": str(item.topology),
        "intent": str(item.intent),
        "aborting": item.aborting,
        "actor": item.actor,
        "startedAt": item.started_at,
        "oldPartitionIds": list(item.old_partitions),
        "partitionIds": list(item.partitions),
        "exchanges": [{"old": old, "new": new} for old, new in item.exchanges],
        "podsToRestart": sum(pod.replaced for pod in item.pods),
        "podsToKeep": sum(not pod.replaced for pod in item.pods),
        "note": item.note,
    }


def _show_end(item: operations.Operation, verb: str, fmt: output.Format | None) -> None:
    subject = f"operation/{item.id}"
    document = {**_plain(item), "result": verb}
    output.render_line("Operation", document, f"{subject} {verb}", name=subject, fmt=fmt)

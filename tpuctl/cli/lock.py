"""`tpuctl lock`: who is at work, and taking a lock from a dead holder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tpuctl.cli import commands, durations, options, output, session, wiring
from tpuctl.model import errors
from tpuctl.ops import locking

if TYPE_CHECKING:
    from tpuctl.model import operations

app = commands.App(help="See who is at work, and free a lock whose holder is dead.")


@app.command()
def show(fmt: output.FormatOption = None, no_headers: output.NoHeadersOption = False) -> None:
    """List locks with their holders.

    A lock that its holder has not renewed in time is free for the next who asks.

    Examples:
      tpuctl lock show
    """
    column = output.Column
    output.render_list(
        "Lock",
        wiring.ports().leases.list(),
        columns=[
            column("LOCK", lambda lease: lease.name),
            column("HOLDER", lambda lease: lease.holder),
            column("HELD", _held),
            column("RENEWED", lambda lease: durations.age(lease.observed_at, lease.renewed_at)),
        ],
        to_plain=lambda lease: {
            "name": lease.name,
            "holder": lease.holder or None,
            "held": lease.is_held,
            "renewedAt": lease.renewed_at,
            "durationSeconds": lease.duration_s,
        },
        name_of=lambda lease: f"lock/{lease.name}",
        fmt=fmt,
        no_headers=no_headers,
        empty="No locks: nobody is at work.",
    )


def _held(lease: operations.Lease) -> str:
    if not lease.holder:
        return "free"
    return "yes" if lease.is_held else "expired"


@app.command("break")
def break_lock(
    name: Annotated[
        str,
        typer.Argument(metavar="LOCK", help="As `tpuctl lock show` names it.", parser=options.plain_name),
    ],
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; it is recorded.")],
    yes: options.YesOption = False,
) -> None:
    """Take a lock from its holder, who stops before its next write.

    A lock that nobody holds is `unchanged`.

    Examples:
      tpuctl lock break tpuctl-slice-train-a --reason "laptop of jo died"
    """
    if not reason.strip():
        raise errors.UsageError("--reason must say why")
    screen = session.current().terminal
    ports = wiring.ports()
    found = locking.find(ports, name)
    if not found.holder:
        screen.out(_free_already(name))
        return
    screen.require_answers(yes=yes, what="breaking a lock needs a confirmation")
    age = durations.age(found.observed_at, found.renewed_at)
    renewed = f"renewed {age} ago" if age else "never renewed"
    held = "is held" if found.is_held else "has expired; it was held"
    screen.note(f"lock {name} {held} by {found.holder}, {renewed}")
    screen.confirm_name("Its holder will stop before its next write.", name, yes=yes)
    broken = locking.break_lock(ports, name, reason=reason.strip())
    # It may have been given back while the question was open.
    screen.out(
        f"lock/{name} broken, it was held by {broken.holder}" if broken.holder else _free_already(name)
    )


def _free_already(name: str) -> str:
    return f"lock/{name} unchanged: it is free already"

"""`tpuctl repair`: what is proposed against faults, and what people say to it."""

from __future__ import annotations

from typing import Annotated

import typer

from tpuctl.cli import commands, completion, options, output, repair_views, session, wiring
from tpuctl.model import repairs
from tpuctl.model.exit_status import ExitStatus
from tpuctl.ops import repairs as repair_ops

app = commands.App(help="See what is proposed against faults, and say yes or no to it.")

IdArgument = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        help="Repair, as `tpuctl repair list` shows it.",
        parser=options.plain_name,
        autocompletion=completion.complete_repairs,
    ),
]
ReasonOption = Annotated[
    str, typer.Option("--reason", metavar="TEXT", help="Why; whoever reads the history sees it.")
]


@app.command("list")
def list_repairs(
    everything: Annotated[
        bool, typer.Option("--all", help="Also those that are over, as far as they are kept.")
    ] = False,
    fmt: output.FormatOption = None,
    no_headers: output.NoHeadersOption = False,
) -> int:
    """List repairs that are proposed, approved or under way.

    The reconcile loop proposes them; it carries out what was approved, or what the fleet file allows.

    Examples:
      tpuctl repair list
      tpuctl repair list --all -o json
    """
    ports = wiring.ports()
    readable, damaged = repair_ops.list_readable(ports)
    found = {item.id: item for item in readable if everything or item.is_open}
    if everything:
        found = {item.id: item for item in repair_ops.list_closed(ports)} | found
    completion.remember(wiring.context().name, {"repairs": [item.id for item in readable if item.is_open]})
    output.render_list(
        "Repair",
        sorted(found.values(), key=lambda item: (not item.is_open, item.proposed_at, item.id)),
        columns=repair_views.columns(),
        to_plain=repair_views.plain,
        name_of=lambda item: f"repair/{item.id}",
        fmt=fmt,
        no_headers=no_headers,
        partial=bool(damaged),
        empty="No repairs that can be read." if damaged else "No repairs.",
    )
    for sentence in damaged:
        session.current().terminal.warn(sentence)
    return ExitStatus.FAILED if damaged else ExitStatus.OK


@app.command()
def show(repair: IdArgument, fmt: output.FormatOption = None) -> None:
    """Show one repair: all evidence, what it hits and costs, what was tried before, who said what.

    Examples:
      tpuctl repair show r-6d71ae11
    """
    repair_views.show(repair_ops.find(wiring.ports(), repair), fmt)


@app.command()
def approve(
    repair: IdArgument,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Why, for whoever reads the history.")
    ] = "",
    yes: options.YesOption = False,
    fmt: output.FormatOption = None,
) -> None:
    """Say yes to a repair, in your own authenticated name.

    The reconcile loop carries it out after another look, and withdraws it if the fault has cleared by then.
    Where the fleet file asks for a second approver, another person has to say yes too.

    Examples:
      tpuctl repair approve r-6d71ae11
      tpuctl repair approve r-6d71ae11 --reason "seen on the console too" --yes
    """
    wiring.require_named_context("approving a repair")
    screen = session.current().terminal
    ports = wiring.ports()
    item = repair_ops.find(ports, repair)
    if item.state is repairs.State.PROPOSED:
        screen.require_answers(yes=yes, what=f"approving repair {item.id} needs a confirmation")
        screen.note(f"in context {wiring.context().name}:")
        for line in repair_views.summary(item):
            screen.note(line)
        if item.case.blast.slices or item.case.blast.pods:
            screen.confirm_name("It interrupts what runs there.", item.id, yes=yes)
        else:
            screen.confirm(f"Approve {item.case.remedy} of {item.case.target}?", yes=yes)
    answer = repair_ops.approve(ports, screen.reporter(), repair, reason=reason)
    repair_views.show_answer(answer, repair_views.approved(answer), fmt)
    if answer.changed and answer.item.state is repairs.State.APPROVED:
        screen.note(
            "the reconcile loop carries it out after another look; follow it with: "
            f"tpuctl repair show {answer.item.id}"
        )


@app.command()
def reject(repair: IdArgument, reason: ReasonOption, fmt: output.FormatOption = None) -> None:
    """Say no to a repair; it is not proposed again for a while, unless something worse turns up.

    Examples:
      tpuctl repair reject r-6d71ae11 --reason "under investigation by the vendor"
    """
    ports, reporter = wiring.ports(), session.current().terminal.reporter()
    answer = repair_ops.reject(ports, reporter, repair, reason=reason)
    repair_views.show_answer(answer, "rejected" if answer.changed else "unchanged", fmt)


@app.command()
def cancel(repair: IdArgument, reason: ReasonOption, fmt: output.FormatOption = None) -> None:
    """Stop a repair before its next step that cannot be taken back, and say what was done already.

    Examples:
      tpuctl repair cancel r-6d71ae11 --reason "the host is needed for a test"
    """
    ports, reporter = wiring.ports(), session.current().terminal.reporter()
    answer = repair_ops.cancel(ports, reporter, repair, reason=reason)
    repair_views.show_answer(answer, "cancelled" if answer.changed else "unchanged", fmt)
    session.current().terminal.note(answer.item.note)


@app.command()
def rules(fmt: output.FormatOption = None, no_headers: output.NoHeadersOption = False) -> None:
    """Show the rules from what is wrong to what is done about it.

    Remedies are tried from left to right, each as often as the fleet file says (`remediation.attempts`).

    Examples:
      tpuctl repair rules
    """
    output.render_list(
        "RepairRule",
        list(repair_ops.RULES.values()),
        columns=repair_views.rule_columns(),
        to_plain=repair_views.rule_plain,
        name_of=lambda rule: f"rule/{rule.ailment}",
        fmt=fmt,
        no_headers=no_headers,
    )
    for text in repair_ops.NOTHING:
        session.current().terminal.note(f"left alone, and told: {text}")

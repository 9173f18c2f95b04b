"""`tpuctl sim inject` and `tpuctl sim faults`: break the simulated fleet and its APIs, and mend them."""

# ruff: noqa: PLC0415 - the faults bring the whole server with them; help and most commands do without

from __future__ import annotations

from typing import Annotated, Any

import typer

from tpuctl.cli import commands, durations, options, output, sim_link
from tpuctl.model import errors

app = commands.App(help="List and clear the faults put into the simulator.")

_OPTIONS = {
    "hosts": "--hosts",
    "times": "--times",
    "afterSeconds": "--after",
    "forSeconds": "--for",
    "everySeconds": "--every",
    "api": "--api",
    "verb": "--verb",
    "resource": "--resource",
    "path": "--path",
    "method": "--method",
    "page": "--page",
    "call": "--call",
    "probability": "--probability",
    "seed": "--seed",
    "code": "--code",
    "retryAfterSeconds": "--retry-after",
    "when": "--when",
    "delaySeconds": "--delay",
    "holdSeconds": "--hold",
    "offsetSeconds": "--offset",
    "how": "--how",
    "form": "--form",
    "events": "--events",
}
"""Field of the request -> option, in the order of the help page."""

_Whole = int | None
_Real = float | None
_Span = durations.Duration | None
_Text = str | None


def _seconds(span: durations.Duration | None) -> float | None:
    """A span as a plain number, which can be sent."""
    return None if span is None else float(span)


def _complete_fault() -> list[str]:
    from tpuctl.sim import faults

    return sorted(faults.NAMES)


def _complete_api() -> list[str]:
    from tpuctl.sim import api_faults

    return [*api_faults.APIS]


def _complete_verb() -> list[str]:
    from tpuctl.sim import api_faults

    return sorted({verb for verbs in api_faults.VERBS.values() for verb in verbs})


def inject(  # noqa: PLR0917 - typer takes each option as a parameter; hence its length too
    fault: Annotated[
        str,
        typer.Argument(
            metavar="FAULT",
            help="What goes wrong, see `tpuctl sim faults kinds`.",
            autocompletion=_complete_fault,
        ),
    ],
    target: Annotated[
        str | None,
        typer.Argument(metavar="TARGET", help="Node, cube (id, pool, sub-block), block or slice."),
    ] = None,
    after_s: Annotated[_Span, options.span("--after", "Later, by so much simulated time.")] = None,
    for_s: Annotated[_Span, options.span("--for", "Mended after so much simulated time.")] = None,
    every_s: Annotated[
        _Span, options.span("--every", "For flapping: simulated time between down and up.")
    ] = None,
    hosts: Annotated[_Whole, typer.Option("--hosts", help="For partial: hosts that are left.")] = None,
    times: Annotated[_Whole, typer.Option("--times", help="It happens so often.")] = None,
    api: Annotated[
        _Text,
        typer.Option("--api", help="kubernetes, container or compute.", autocompletion=_complete_api),
    ] = None,
    verb: Annotated[
        _Text,
        typer.Option("--verb", help="Calls with this verb: list, create, ...", autocompletion=_complete_verb),
    ] = None,
    resource: Annotated[
        _Text, typer.Option("--resource", help="Calls on this resource: nodes, nodePools, ...")
    ] = None,
    path: Annotated[_Text, typer.Option("--path", help="Calls whose path matches this expression.")] = None,
    method: Annotated[_Text, typer.Option("--method", help="Calls with this HTTP method.")] = None,
    page: Annotated[_Whole, typer.Option("--page", help="This page of a list.")] = None,
    call: Annotated[_Whole, typer.Option("--call", help="From this matching call on.")] = None,
    probability: Annotated[_Real, typer.Option("--probability", help="Chance of each matching call.")] = None,
    seed: Annotated[_Whole, typer.Option("--seed", help="Decides which calls chance hits.")] = None,
    code: Annotated[_Whole, typer.Option("--code", help="HTTP status of the error.")] = None,
    retry_after_s: Annotated[
        _Whole, typer.Option("--retry-after", metavar="SECONDS", help="Header Retry-After.")
    ] = None,
    when: Annotated[
        _Text,
        typer.Option(
            "--when",
            help="before or after the work is done.",
            autocompletion=lambda: ["before", "after"],
        ),
    ] = None,
    delay_s: Annotated[_Span, options.span("--delay", "For api-slow; real time.")] = None,
    hold_s: Annotated[_Span, options.span("--hold", "Silence lasts so long; real time.")] = None,
    offset_s: Annotated[
        _Real, typer.Option("--offset", metavar="SECONDS", help="For api-clock-skew; may be negative.")
    ] = None,
    how: Annotated[_Text, typer.Option("--how", help="For api-truncated: connection or json.")] = None,
    form: Annotated[
        _Text, typer.Option("--form", help="For api-expired on a watch: response or event.")
    ] = None,
    events: Annotated[
        _Whole, typer.Option("--events", help="For api-silent-watch: events before the silence.")
    ] = None,
    fmt: output.FormatOption = None,
) -> None:
    """Break or mend something, now or later.

    Faults of hosts, cubes, maintenance and slices have a TARGET; faults of the APIs (api-...) have none and
    hit the calls that the options select. `tpuctl sim faults kinds` lists all with what they take.

    Examples:
      tpuctl sim inject host-down NODE           a node, as `tpuctl cube show` lists it
      tpuctl sim inject host-repair NODE --for 5d
      tpuctl sim inject maintenance cube-0001-0002 --after 1h --for 2h
      tpuctl sim inject api-error --api kubernetes --verb list --resource nodes --code 503 --call 3
      tpuctl sim inject api-reset --when after --verb create --probability 0.1 --seed 1
    """
    given = {
        "hosts": hosts,
        "times": times,
        "afterSeconds": _seconds(after_s),
        "forSeconds": _seconds(for_s),
        "everySeconds": _seconds(every_s),
        "api": api,
        "verb": verb,
        "resource": resource,
        "path": path,
        "method": method,
        "page": page,
        "call": call,
        "probability": probability,
        "seed": seed,
        "code": code,
        "retryAfterSeconds": retry_after_s,
        "when": when,
        "delaySeconds": _seconds(delay_s),
        "holdSeconds": _seconds(hold_s),
        "offsetSeconds": offset_s,
        "how": how,
        "form": form,
        "events": events,
    }
    body = {field: value for field, value in given.items() if value is not None}
    _check(fault, target, body)
    named = {} if target is None else {"target": target}
    _show(sim_link.ask(sim_link.running(), "POST", "inject", {"fault": fault, **named, **body}), fmt)


def _check(fault: str, target: str | None, body: dict[str, Any]) -> None:
    """Raise UsageError, in the words of the command line, for what does not belong together."""
    from tpuctl.sim import faults

    try:
        accepted = faults.accepted(fault)
    except faults.UnknownFault as error:
        guess = f"did you mean {', '.join(error.near)}?" if error.near else "see: tpuctl sim faults kinds"
        raise errors.UsageError(str(error), hint=guess) from error
    unwanted = [_OPTIONS[field] for field in body if field not in accepted]
    if unwanted:
        raise errors.UsageError(
            f"{fault} takes no {', '.join(unwanted)}",
            hint=f"it takes {', '.join(_OPTIONS[field] for field in accepted)}",
        )
    if faults.is_api_fault(fault):
        if target is not None:
            raise errors.UsageError(f"{fault} takes no target", hint="select calls with --api, --verb, ...")
    elif target is None:
        raise errors.UsageError(f"{fault} needs a target: {faults.FAULTS[fault].target}")


def _show(found: dict[str, Any], fmt: output.Format | None) -> None:
    output.render_one(
        "Fault",
        found,
        rows=[
            ("Fault", found["fault"]),
            ("Id", found["id"]),
            ("State", found["state"]),
            ("What", _what(found)),
        ],
        name=f"fault/{found['id']}",
        fmt=fmt,
    )


def _what(found: dict[str, Any]) -> str:
    """What an entry did, or which calls it waits for."""
    if "message" in found:
        return str(found["message"])
    return ", ".join(f"{name}={value}" for name, value in found["parameters"].items()) or "every call"


@app.command("list")
def list_faults(fmt: output.FormatOption = None, no_headers: output.NoHeadersOption = False) -> None:
    """List the faults in place and those to come.

    CALLS are the calls an API fault was meant for, HITS those that it changed.

    Examples:
      tpuctl sim faults list
      tpuctl sim faults list -o json
    """
    found = sim_link.ask(sim_link.running(), "GET", "faults")
    columns: list[output.Column[dict[str, Any]]] = [
        output.Column("ID", lambda one: one["id"]),
        output.Column("FAULT", lambda one: one["fault"]),
        output.Column("TARGET", lambda one: one.get("target")),
        output.Column("STATE", lambda one: one["state"]),
        output.Column("CALLS", lambda one: one.get("calls")),
        output.Column("HITS", lambda one: one.get("hits")),
        output.Column("ENDS", lambda one: one.get("endsAt")),
        output.Column("WHAT", _what),
    ]
    output.render_list(
        "Fault",
        found["faults"],
        columns=columns,
        to_plain=lambda one: one,
        name_of=lambda one: f"fault/{one['id']}",
        fmt=fmt,
        no_headers=no_headers,
    )


@app.command()
def kinds(fmt: output.FormatOption = None, no_headers: output.NoHeadersOption = False) -> None:
    """List all faults there are, with their targets and options.

    Examples:
      tpuctl sim faults kinds
    """
    from tpuctl.sim import faults

    columns: list[output.Column[dict[str, Any]]] = [
        output.Column("FAULT", lambda one: one["fault"]),
        output.Column("TARGET", lambda one: one["target"]),
        output.Column("UNDONE BY", lambda one: one["undoneBy"]),
        output.Column("WHAT", lambda one: one["summary"]),
        output.Column("OPTIONS", lambda one: " ".join(one["options"]), wide=True),
    ]
    output.render_list(
        "FaultKind",
        [_kind(name) for name in faults.NAMES],
        columns=columns,
        to_plain=lambda one: one,
        name_of=lambda one: f"fault-kind/{one['fault']}",
        fmt=fmt,
        no_headers=no_headers,
    )


def _kind(name: str) -> dict[str, Any]:
    from tpuctl.sim import api_faults, faults

    fault = faults.FAULTS.get(name)
    return {
        "fault": name,
        "target": fault.target if fault else None,
        "undoneBy": (fault.undone_by or None) if fault else None,
        "summary": fault.summary if fault else api_faults.EFFECTS[name].summary,
        "options": [_OPTIONS[field] for field in faults.accepted(name)],
    }


@app.command()
def clear(
    ids: Annotated[list[str] | None, typer.Argument(metavar="ID", help="Which; all without.")] = None,
    fmt: output.FormatOption = None,
) -> None:
    """Take faults back: hardware is mended, calls are answered as they should be.

    Examples:
      tpuctl sim faults clear
      tpuctl sim faults clear f3 a1
    """
    body = {"ids": ids} if ids else {}
    found = sim_link.ask(sim_link.running(), "POST", "clear", body)
    cleared = ", ".join(found["cleared"]) or "nothing"
    output.render_one("Faults", found, rows=[("Cleared", cleared)], name="faults/cleared", fmt=fmt)


@app.command("next")
def next_call(
    id: Annotated[str, typer.Argument(metavar="ID", help="An API fault.")],  # noqa: A002 - its name in the help
    fmt: output.FormatOption = None,
) -> None:
    """Let an API fault begin again, one matching call later: a fault at every call in turn.

    Run the same scenario after each step; once it ends without a hit, no call is left.

    Examples:
      tpuctl sim faults next a1
    """
    _show(sim_link.ask(sim_link.running(), "POST", "next", {"id": id}), fmt)

"""`tpuctl context`: choose which cluster and reservation to work on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from tpuctl.cli import commands, completion, config, directories, output, session

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tpuctl.cli.config_file import Value
    from tpuctl.ops import context as ops_context

app = commands.App(help="Choose which cluster and reservation to work on.")


class _Entry(NamedTuple):
    """A context as configured: it may lack values, and is listed all the same."""

    name: str
    current: bool
    values: Mapping[str, Value]
    origin: str

    def text(self, key: str) -> Any:
        value = self.values.get(key)
        return None if value is None else value.value


_COLUMNS = (
    output.Column[_Entry]("CURRENT", lambda entry: "*" if entry.current else ""),
    output.Column[_Entry]("NAME", lambda entry: entry.name),
    output.Column[_Entry]("PROJECT", lambda entry: entry.text("project")),
    output.Column[_Entry]("LOCATION", lambda entry: entry.text("location")),
    output.Column[_Entry]("CLUSTER", lambda entry: entry.text("cluster")),
    output.Column[_Entry]("ZONE", lambda entry: entry.text("zone"), wide=True),
    output.Column[_Entry](
        "RESERVATIONS", lambda entry: ",".join(entry.text("reservations") or ()), wide=True
    ),
    output.Column[_Entry]("ORIGIN", lambda entry: entry.origin, wide=True),
)


@app.command("list")
def list_contexts(fmt: output.FormatOption = None, no_headers: output.NoHeadersOption = False) -> None:
    """List the contexts; `*` marks the one that commands work on.

    Examples:
      tpuctl context list
      tpuctl context list -o name
    """
    settings = session.current().settings
    entries = [
        _Entry(name, name == settings.current_name, settings.context_values(name), values[""].origin)
        for name, values in sorted(settings.contexts.items())
    ]
    output.render_list(
        "Context",
        entries,
        columns=_COLUMNS,
        to_plain=_plain_entry,
        name_of=lambda entry: f"context/{entry.name}",
        fmt=fmt,
        no_headers=no_headers,
        empty="No contexts found. `tpuctl sim start --detach` makes one.",
    )


@app.command("use")
def use(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The context.", autocompletion=completion.complete_contexts)
    ],
) -> None:
    """Work on another context from now on.

    The choice is kept in tpuctl's own state folder; kubeconfig, gcloud settings and your configuration file
    stay as they are. A `currentContext` in ./tpuctl.yaml, TPUCTL_CONTEXT and --context are stronger.

    Examples:
      tpuctl context use prod
    """
    current = session.current()
    current.settings.context(name)
    config.write_current(directories.Directories(current.env), name)
    chosen = config.load(current).values["currentContext"]
    if chosen.value == name:
        current.terminal.note(f"Commands work on context '{name}' now.")
    else:
        current.terminal.warn(f"stored, but {chosen.origin} is stronger and says '{chosen.value}'")


@app.command("show")
def show(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="The context.", autocompletion=completion.complete_contexts),
    ] = None,
    fmt: output.FormatOption = None,
) -> None:
    """Show a context, the current one if none is named.

    Examples:
      tpuctl context show
      KUBECONFIG=$(tpuctl context show -o json | jq -r .kubeconfig) kubectl get nodes
    """
    found = session.current().settings.context(name)
    plain = _plain(found)
    endpoints = [f"{key}: {url}" for key, url in plain["endpoints"].items() if url]
    rows = (
        ("Name", found.name),
        ("Project", found.project),
        ("Location", found.location),
        ("Zone", found.zone),
        ("Cluster", found.cluster),
        ("Reservations", "\n".join(found.reservations) or None),
        ("Policy", found.policy),
        ("Policy file", found.policy_file),
        ("Kubeconfig", found.kubeconfig),
        ("Kubeconfig context", found.kubeconfig_context),
        ("Endpoints", "\n".join(endpoints) or None),
        ("Token file", found.token_file),
        ("Clock scale", f"{found.clock_scale:g}"),
        ("Protected", found.protected),
    )
    output.render_one("Context", plain, rows=rows, name=f"context/{found.name}", fmt=fmt)


def _plain(found: ops_context.Context) -> dict[str, Any]:
    return {
        "name": found.name,
        "project": found.project,
        "location": found.location,
        "zone": found.zone,
        "cluster": found.cluster,
        "reservations": list(found.reservations),
        "policy": found.policy,
        "policyFile": found.policy_file,
        "kubeconfig": found.kubeconfig,
        "kubeconfigContext": found.kubeconfig_context,
        "endpoints": {
            "kubernetes": found.endpoint_kubernetes,
            "container": found.endpoint_container,
            "compute": found.endpoint_compute,
        },
        "tokenFile": found.token_file,
        "clockScale": found.clock_scale,
        "protected": found.protected,
    }


def _plain_entry(entry: _Entry) -> dict[str, Any]:
    keys = ("project", "location", "zone", "cluster")
    return {
        "name": entry.name,
        "current": entry.current,
        **{key: entry.text(key) for key in keys},
        "reservations": list(entry.text("reservations") or ()),
        "origin": entry.origin,
    }

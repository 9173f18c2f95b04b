"""`tpuctl sim`: a simulated fleet on this machine."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tpuctl.cli import commands, config, directories, output, session
from tpuctl.model import errors
from tpuctl.sim import faults, process, simulator

if TYPE_CHECKING:
    import pathlib

app = commands.App(help="Run a simulated fleet on this machine.")

DEFAULT_SPEED = 60.0


@app.command()
def start(
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Return, and let it run.")] = False,
    blocks: Annotated[int, typer.Option("--blocks", min=1, help="Blocks of hardware.")] = 1,
    cubes: Annotated[int, typer.Option("--cubes", min=1, max=144, help="Cubes in each block.")] = 144,
    seed: Annotated[int, typer.Option("--seed", help="Decides ids and chance.")] = 0,
    speed: Annotated[
        float,
        typer.Option("--speed", min=0, help="Simulated seconds a second; 0: only `sim advance` moves it."),
    ] = DEFAULT_SPEED,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port on 127.0.0.1; 0: any.")] = 0,
    ready_cubes: Annotated[
        int, typer.Option("--ready-cubes", min=0, help="So many cubes have node pools at the start.")
    ] = 0,
    fmt: output.FormatOption = None,
) -> None:
    """Start a simulated GKE: cluster, reservation, hardware, and the three APIs on 127.0.0.1.

    A context `sim` works on it. No file of yours is touched: kubeconfig and token are its own.

    Examples:
      tpuctl sim start --detach
      tpuctl sim start --blocks 2 --cubes 16 --speed 300
      tpuctl sim start --detach --ready-cubes 144
    """
    settings = simulator.Settings(
        blocks=blocks,
        cubes=cubes,
        seed=seed,
        speed=speed,
        port=port,
        slice_controller=ready_cubes > 0,
        ready_cubes=ready_cubes,
    )
    if ready_cubes > blocks * cubes:
        raise errors.UsageError(
            f"--ready-cubes {ready_cubes} is more than the {blocks * cubes} cubes there are"
        )
    folder = _folder()
    try:
        state = process.spawn(settings, folder)
    except process.AlreadyRunningError as error:
        raise errors.Conflict(str(error), hint="stop it with: tpuctl sim stop") from error
    except process.ProcessError as error:
        raise errors.TpuctlError(str(error)) from error
    _show_started(state, fmt)
    if not detach:
        _stay(folder)


@app.command()
def status(fmt: output.FormatOption = None) -> None:
    """Show the running simulator.

    Examples:
      tpuctl sim status -o json
    """
    state = _running()
    found = _ask(state, "GET", "status")
    output.render_one(
        "Simulator",
        {"url": state.url, "pid": state.pid, "kubeconfig": state.context["kubeconfig"], **found},
        rows=[
            ("URL", state.url),
            ("Process", state.pid),
            ("Kubeconfig", state.context["kubeconfig"]),
            ("Time", f"{found['time']} ({found['speed']:g} times real time)"),
            ("Cubes", f"{found['cubes']}, {found['completeNodePools']} with all nodes"),
            ("Nodes", found["nodes"]),
            ("Slices", found["slices"]),
            ("Pods", found["pods"]),
        ],
        name="simulator/sim",
        fmt=fmt,
    )


@app.command()
def stop() -> None:
    """Stop the simulator and remove its files; all it simulated is gone.

    Examples:
      tpuctl sim stop
    """
    try:
        stopped = process.stop(_folder())
    except process.ProcessError as error:
        raise errors.TpuctlError(str(error)) from error
    session.current().terminal.out("simulator stopped" if stopped else "no simulator is running")


@app.command()
def advance(
    seconds: Annotated[float, typer.Argument(metavar="SECONDS", min=0, help="Simulated seconds.")],
    fmt: output.FormatOption = None,
) -> None:
    """Move simulated time forward.

    Examples:
      tpuctl sim advance 3600
    """
    found = _ask(_running(), "POST", "advance", {"seconds": seconds})
    output.render_one("Simulator", found, rows=[("Time", found["time"])], name="simulator/sim", fmt=fmt)


@app.command()
def inject(
    fault: Annotated[
        str,
        typer.Argument(metavar="FAULT", help="What breaks.", autocompletion=lambda: sorted(faults.FAULTS)),
    ],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="A node, or a cube (id, pool, sub-block).")],
    hosts: Annotated[int | None, typer.Option("--hosts", help="For `partial`: hosts that are left.")] = None,
    fmt: output.FormatOption = None,
) -> None:
    """Break or repair something.

    Faults: host-down NODE, host-up NODE, cube-degraded CUBE, cube-restored CUBE, partial CUBE --hosts N
    (before the cube has a node pool).

    Examples:
      tpuctl sim inject host-down gke-sim-cube-0001-3
      tpuctl sim inject partial sim-reservation-block-0001-subblock-0007 --hosts 15
    """
    body: dict[str, Any] = {"fault": fault, "target": target}
    if hosts is not None:
        body["hosts"] = hosts
    found = _ask(_running(), "POST", "inject", body)
    output.render_one("Fault", found, rows=[("Done", found["message"])], name=f"fault/{fault}", fmt=fmt)


def _folder() -> pathlib.Path:
    return directories.Directories(session.current().env).simulator


def _running() -> process.State:
    try:
        state = process.read(_folder()) if process.is_running(_folder()) else None
    except process.ProcessError as error:
        raise errors.TpuctlError(str(error)) from error
    if state is None:
        raise errors.NotFound("no simulator is running", hint="start one with: tpuctl sim start --detach")
    return state


def _ask(state: process.State, method: str, call: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    try:
        found = process.request(state, method, call, body)
    except process.ProcessError as error:
        raise errors.Unavailable(str(error)) from error
    if "error" in found:
        near = ", ".join(found.get("near", ()))
        known = f"faults: {', '.join(sorted(faults.FAULTS))}" if "fault" in found["error"] else None
        hint = f"did you mean {near}?" if near else known
        if "unknown node" in found["error"] or "unknown cube" in found["error"]:
            raise errors.NotFound(found["error"], hint=hint)
        raise errors.UsageError(found["error"], hint=hint)
    return found


def _show_started(state: process.State, fmt: output.Format | None) -> None:
    kubeconfig = state.context["kubeconfig"]
    output.render_one(
        "Simulator",
        {"url": state.url, "pid": state.pid, "kubeconfig": kubeconfig, "context": config.SIMULATOR},
        rows=[
            ("Simulator", f"{state.url} (process {state.pid})"),
            ("Context", f"{config.SIMULATOR}; the default one as long as you have configured no other"),
            ("kubectl", f"KUBECONFIG={kubeconfig} kubectl get nodes"),
            (
                "Next",
                "tpuctl nodepool setup" if not state.settings.get("ready_cubes") else "tpuctl cube list",
            ),
        ],
        name="simulator/sim",
        fmt=fmt,
    )


def _stay(folder: pathlib.Path) -> None:
    """Keep the foreground until Ctrl-C, then take the simulator down with us."""
    session.current().terminal.note("running; Ctrl-C stops it")
    try:
        signal.pause()
    finally:
        process.stop(folder)

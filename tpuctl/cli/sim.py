"""`tpuctl sim`: a simulated fleet on this machine."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Annotated

import typer

from tpuctl.cli import commands, config, durations, output, session, sim_faults, sim_link
from tpuctl.model import errors
from tpuctl.sim import process

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
    from tpuctl.sim import simulator  # noqa: PLC0415 - the server costs a quarter of a second

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
    folder = sim_link.folder()
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
    state = sim_link.running()
    found = sim_link.ask(state, "GET", "status")
    output.render_one(
        "Simulator",
        {"url": state.url, "pid": state.pid, "kubeconfig": state.context["kubeconfig"], **found},
        rows=[
            ("URL", state.url),
            ("Process", str(state.pid)),
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
        stopped = process.stop(sim_link.folder())
    except process.ProcessError as error:
        raise errors.TpuctlError(str(error)) from error
    session.current().terminal.out("simulator stopped" if stopped else "no simulator is running")


@app.command()
def advance(
    by: Annotated[
        durations.Duration,
        typer.Argument(
            metavar="TIME",
            parser=durations.parse,
            help="So much simulated time: 90, 90s, 10m, 2h or 1d.",
        ),
    ],
    fmt: output.FormatOption = None,
) -> None:
    """Move simulated time forward.

    Examples:
      tpuctl sim advance 1h
    """
    found = sim_link.ask(sim_link.running(), "POST", "advance", {"seconds": float(by)})
    output.render_one("Simulator", found, rows=[("Time", found["time"])], name="simulator/sim", fmt=fmt)


app.command("inject")(sim_faults.inject)
app.add_typer(sim_faults.app, name="faults")


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

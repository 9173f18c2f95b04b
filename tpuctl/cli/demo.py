"""`tpuctl demo`: the whole tour on a simulated fleet, nothing to set up, nothing left behind."""

from __future__ import annotations

import contextlib
import io
import time
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TextIO

import typer

from tpuctl.cli import commands, durations, layout, main, output, rehearsal, session, terminal
from tpuctl.model import errors, fleet, topology
from tpuctl.model.exit_status import ExitStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

app = commands.App()

CUBES = 144
SHAPE = topology.Topology(8, 16, 16)
_JOB = "train"
_MANIFEST = "configs/kubernetes/train-job.yaml"
"""The same Job for readers to use; a test compares the two."""
_POD_TIMEOUT_S = 600.0
_LEGACY = {
    "setup": "hours",
    "form": "10-30 min",
    "list": "",
    "map": "weeks of trials",
    "job": "",
    "deform": "10-30 min",
}
"""What the same step cost with static node pools, from the published case study of dynamic slicing."""


class Step(NamedTuple):
    """One step of the tour."""

    command: str
    simulated_s: float
    wall_s: float
    result: str
    legacy: str


@app.command()
def demo(
    seed: Annotated[int, typer.Option("--seed", help="Decides ids and chance.")] = 0,
    fmt: Annotated[
        output.Format | None, typer.Option("-o", "--output", metavar="FORMAT", help="table or json.")
    ] = None,
) -> None:
    """See the whole tour on a simulated fleet: 144 cubes, a 2,048-chip slice, a 512-pod job.

    Everything happens in this process against a simulator of its own; no configuration is read or written.
    Times in the table are simulated seconds: time passes there exactly while a command waits.

    Examples:
      tpuctl demo
      tpuctl demo -o json
    """
    from tpuctl.sim import simulator  # noqa: PLC0415 - help and Tab do without the server

    wanted = fmt or output.Format.TABLE
    tour = _Tour(quiet=wanted.is_document)
    settings = simulator.Settings(cubes=CUBES, seed=seed)
    with rehearsal.rehearse(settings) as scene:
        _break_one_host(scene)
        tour.tell("A reservation of 144 sub-blocks; in one of them only 15 of 16 hosts are healthy.")
        tour.run(scene, "setup", "nodepool", "setup")
        tour.run(scene, "form", "slice", "form", "train-a", "--topology", str(SHAPE))
        tour.run(scene, "form", "slice", "form", "serve-b", "--topology", "4x4x8")
        tour.run(scene, "list", "slice", "list")
        tour.run(scene, "map", "cube", "list", "--map")
        tour.run_job(scene)
        tour.run(scene, "deform", "slice", "deform", "serve-b", "--yes")
    _show(tour, wanted)


class _Tour:
    """Runs commands, echoes them, and keeps the times."""

    def __init__(self, *, quiet: bool) -> None:
        self.steps: list[Step] = []
        self._quiet = quiet

    def tell(self, text: str) -> None:
        if not self._quiet:
            screen = session.current().terminal
            screen.out(screen.styled(text, "dim"))

    def run(self, scene: rehearsal.Rehearsal, kind: str, *arguments: str) -> None:
        """One tpuctl command, as if typed."""
        command = " ".join(("tpuctl", *arguments))
        with self._measured(scene, kind, command) as result:
            result.append(self._invoke(scene, arguments))

    def run_job(self, scene: rehearsal.Rehearsal) -> None:
        """The job that the slice was made for; submitted as kubectl would, since tpuctl runs no jobs."""
        with self._measured(scene, "job", f"kubectl apply -f {_MANIFEST}") as result:
            scene.submit("/apis/batch/v1/namespaces/default/jobs", _job("train-a"))
            running = _wait_for_pods(scene, SHAPE.hosts)
            result.append(f"job/{_JOB} {running} of {SHAPE.hosts} pods running on slice train-a")
            self._show(result[-1])

    @contextlib.contextmanager
    def _measured(self, scene: rehearsal.Rehearsal, kind: str, command: str) -> Iterator[list[str]]:
        if not self._quiet:
            screen = session.current().terminal
            screen.out(screen.styled(f"\n$ {command}", "bold"))
        wall_s, simulated_s = time.perf_counter(), scene.ports.clock.monotonic_s()
        result: list[str] = []
        yield result
        self.steps.append(
            Step(
                command=command,
                simulated_s=round(scene.ports.clock.monotonic_s() - simulated_s, 3),
                wall_s=round(time.perf_counter() - wall_s, 3),
                result=result[-1],
                legacy=_LEGACY[kind],
            )
        )

    def _invoke(self, scene: rehearsal.Rehearsal, arguments: tuple[str, ...]) -> str:
        current = session.current()
        streams = current.terminal.streams
        loud = streams.stdout is not None and not self._quiet
        captured = _Tee(streams.stdout) if loud and streams.stdout else io.StringIO()
        told = io.StringIO()
        status = main.main(
            arguments,
            env=_environment(current.env, scene),
            cwd=scene.kubeconfig.parent,
            stdin=streams.stdin,
            stdout=captured,
            stderr=told if self._quiet else streams.stderr,
        )
        if status == ExitStatus.INTERRUPTED:
            raise KeyboardInterrupt
        if status == ExitStatus.TERMINATED:
            raise terminal.Terminated
        if status:
            raise errors.TpuctlError(
                f"the demo's command `tpuctl {' '.join(arguments)}` ended with {status}",
                details=tuple(told.getvalue().splitlines()[-3:]),
            )
        return captured.getvalue().strip()

    def _show(self, text: str) -> None:
        if not self._quiet:
            session.current().terminal.out(text)


def _environment(env: Mapping[str, str], scene: rehearsal.Rehearsal) -> dict[str, str]:
    """The user's environment without anything that configures tpuctl: the demo is the same for everybody."""
    folder = str(scene.kubeconfig.parent)
    kept = {name: value for name, value in env.items() if not name.startswith("TPUCTL_")}
    return {**kept, "XDG_CONFIG_HOME": folder, "XDG_STATE_HOME": folder, "XDG_CACHE_HOME": folder}


class _Tee(io.StringIO):
    """Keeps what it passes on to a stream; as much of a terminal as that stream is."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream

    def write(self, text: str) -> int:
        super().write(text)
        return self._stream.write(text)

    def flush(self) -> None:
        self._stream.flush()

    def isatty(self) -> bool:
        return self._stream.isatty()

    def fileno(self) -> int:
        return self._stream.fileno()


def _break_one_host(scene: rehearsal.Rehearsal) -> None:
    hardware = scene.simulator.world.hardware

    def cripple() -> None:
        *_, last = hardware.subblocks()
        hardware.partial(last, hosts=topology.HOSTS_PER_CUBE - 1)

    scene.simulator.call(cripple)


def _job(slice_name: str) -> dict[str, Any]:
    """An Indexed Job with a pod for each host of the slice, as the dynamic slicing guide lays one out."""
    chips = {"google.com/tpu": str(topology.CHIPS_PER_HOST)}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": _JOB},
        "spec": {
            "completions": SHAPE.hosts,
            "parallelism": SHAPE.hosts,
            "completionMode": "Indexed",
            "backoffLimitPerIndex": 5,
            "template": {
                "metadata": {"annotations": {"cloud.google.com/gke-tpu-slice-topology": str(SHAPE)}},
                "spec": {
                    "restartPolicy": "Never",
                    "nodeSelector": {
                        "cloud.google.com/gke-tpu-accelerator": "tpu7x",
                        "cloud.google.com/gke-tpu-topology": str(SHAPE),
                        "cloud.google.com/gke-tpu-slice": slice_name,
                    },
                    "containers": [
                        {
                            "name": "worker",
                            "image": "python:3.12",
                            "env": [{"name": "TPU_ACCELERATOR_TYPE", "value": SHAPE.accelerator_type}],
                            "resources": {"requests": chips, "limits": chips},
                        }
                    ],
                },
            },
        },
    }


def _wait_for_pods(scene: rehearsal.Rehearsal, wanted: int) -> int:
    """Wait until so many pods of the job run."""
    deadline_s = scene.ports.clock.monotonic_s() + _POD_TIMEOUT_S
    while True:
        pods = scene.ports.fleet.observe((fleet.SourceName.PODS,)).pods
        running = sum(pod.phase == "Running" for pod in pods)
        if running == wanted:
            return running
        if scene.ports.clock.monotonic_s() > deadline_s:
            raise errors.TimedOut(f"only {running} of {wanted} pods run")
        scene.ports.clock.sleep(1.0)


def _show(tour: _Tour, fmt: output.Format) -> None:
    screen = session.current().terminal
    if fmt.is_document:
        steps = [
            {
                "command": step.command,
                "simulatedSeconds": step.simulated_s,
                "wallSeconds": step.wall_s,
                "result": step.result,
            }
            for step in tour.steps
        ]
        screen.out(output.encode({"steps": steps}, fmt))
        return
    cells = [[step.command, durations.short(step.simulated_s), step.legacy or "-"] for step in tour.steps]
    titles = ["COMMAND", "SIMULATED", "BEFORE"]
    plain: list[list[str | None]] = [[None, "green", None] for _ in cells]
    paint: Callable[[str, str | None], str] = screen.styled
    screen.out("\n".join(("", *layout.lines(cells, titles, plain, paint))))
    wall_s = sum(step.wall_s for step in tour.steps)
    screen.out("\nBEFORE: the same with static node pools, from the published case study of dynamic slicing.")
    screen.out(
        f"All of it took {durations.short(wall_s)} of your time. Next: `tpuctl sim start --detach`,\n"
        "then try the commands above yourself."
    )

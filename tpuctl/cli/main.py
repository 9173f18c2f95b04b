"""The way in and the way out of the program.

Importing this module must stay cheap: `--version` and a Tab press pay for everything named at the top.
"""

# ruff: noqa: PLC0415 - what is imported inside functions here is what a fast path does without

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, NoReturn, TextIO

import tpuctl
from tpuctl.cli import session, terminal

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Mapping, Sequence

GROUPS: dict[str, tuple[str, str]] = {
    "slice": ("tpuctl.cli.slice", "Form, list, follow and take apart slices."),
    "cube": ("tpuctl.cli.cube", "Show cubes: hosts, state, and which slice holds them."),
    "operation": ("tpuctl.cli.operation", "Finish or take back operations that were interrupted."),
    "repair": ("tpuctl.cli.repair", "See what is proposed against faults, and say yes or no to it."),
    "lock": ("tpuctl.cli.lock", "See who is at work, and free a lock whose holder is dead."),
    "health": ("tpuctl.cli.health", "Check and follow health, and report faulty hosts."),
    "nodepool": ("tpuctl.cli.nodepool", "Turn reserved sub-blocks into cubes, one node pool each."),
    "reconcile": (
        "tpuctl.cli.reconcile",
        "Keep a fleet at its declared state: plan, apply, run the loop.",
    ),
    "capacity": ("tpuctl.cli.capacity", "See what fits, why something does not, and what would help."),
    "fleet": ("tpuctl.cli.fleet", "Look at everything at once, or save it to a file."),
    "topology": ("tpuctl.cli.topology", "Explain slice shapes: chips, hosts, cubes, and the rules."),
    "context": ("tpuctl.cli.contexts", "Choose which cluster and reservation to work on."),
    "config": ("tpuctl.cli.config_view", "Show settings and where each value came from."),
    "sim": ("tpuctl.cli.sim", "Run a simulated fleet on this machine."),
}
"""Name -> (module with `app`, one-line help); the module is imported when the group is used."""

COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("tpuctl.cli.demo", "See the whole tour on a simulated fleet, nothing to set up."),
    "completion": ("tpuctl.cli.completion_scripts", "Print the completion script for bash, zsh or fish."),
    "version": ("tpuctl.cli.version", "Show the version of this program."),
    "help": ("tpuctl.cli.help_pages", "Show help on a command, or `tpuctl help exit-codes`."),
}
"""The same for commands that stand alone."""

COMPLETE_VARIABLE = "_TPUCTL_COMPLETE"
"""Set by the completion scripts; its value is `complete_bash`, `complete_zsh` or `complete_fish`."""


def run() -> NoReturn:
    """Run as the console scripts `tpuctl` and `kubectl-tpu`, and leave with the exit status."""
    _prepare_process()
    program = os.path.basename(sys.argv[0])  # noqa: PTH119 - pathlib costs more than `--version` itself
    status = main(sys.argv[1:], program="kubectl tpu" if program == "kubectl-tpu" else "tpuctl")
    _leave(status)


def main(
    arguments: Sequence[str],
    *,
    program: str = "tpuctl",
    env: Mapping[str, str] | None = None,
    cwd: pathlib.Path | None = None,
    stdin: TextIO | None = None,
    stdout: TextIO | None = None,
    stderr: TextIO | None = None,
) -> int:
    """Run one command line and return its exit status; nothing but the status leaves this function.

    Whatever is not given is the process's own. Tests give all of it.
    """
    current = session.Session(
        arguments=tuple(arguments),
        program=program,
        env=os.environ if env is None else env,
        cwd=cwd,
        streams=terminal.Streams(stdin or sys.stdin, stdout or sys.stdout, stderr or sys.stderr),
    )
    with session.active(current):
        try:
            return _dispatch(current)
        # The last line of defence: no fault of any kind may show a traceback to a user.
        except (Exception, KeyboardInterrupt, terminal.Terminated) as error:  # noqa: BLE001
            from tpuctl.cli import failures

            return failures.report(current, error)


def _dispatch(current: session.Session) -> int:
    if current.arguments == ("--version",):
        current.terminal.out(version_line())
        return 0
    if current.env.get(COMPLETE_VARIABLE):
        from tpuctl.cli import tab

        return tab.answer(current)
    from tpuctl.cli import commands

    return commands.invoke(current)


def version_line() -> str:
    """What `--version` prints."""
    return f"tpuctl {tpuctl.__version__}"


def _prepare_process() -> None:
    """Settle what belongs to the process and not to one command line."""
    signal.signal(signal.SIGTERM, _on_terminate)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # A name that the locale cannot write is shown escaped instead of ending the run.
            stream.reconfigure(errors="backslashreplace")
    if not sys.warnoptions and "--debug" not in sys.argv:
        # The client libraries warn about Python versions and the like; an admin can do nothing about it.
        import warnings

        warnings.simplefilter("ignore")


def _on_terminate(_number: int, _frame: object) -> NoReturn:
    raise terminal.Terminated


def _leave(status: int) -> NoReturn:
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            # The reader is gone. Python would flush once more at exit, complain, and change the status.
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    if status in (130, 143):
        # A worker thread may sit in a network read for half a minute; nobody waits for it after Ctrl-C.
        os._exit(status)
    sys.exit(status)

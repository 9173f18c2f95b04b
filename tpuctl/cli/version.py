"""`tpuctl version`: of this program only; nothing is asked over the network."""

from __future__ import annotations

import platform

import tpuctl
from tpuctl.cli import commands, main, output, session

app = commands.App()


@app.command("version")
def version(fmt: output.FormatOption = None) -> None:
    """Show the version of this program and of the Python that runs it.

    Examples:
      tpuctl version
      tpuctl version -o json
    """
    wanted = fmt or output.Format.TABLE
    if not wanted.is_document:
        # The same line as --version, so that either can be cut the same way.
        session.current().terminal.out(main.version_line())
        return
    plain = {"version": tpuctl.__version__, "python": platform.python_version()}
    output.render_one("Version", plain, rows=(), name="version/tpuctl", fmt=wanted)

"""The running simulator, as the commands of `tpuctl sim` reach it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tpuctl.cli import directories, session
from tpuctl.model import errors
from tpuctl.sim import process

if TYPE_CHECKING:
    import pathlib

_MISSING = re.compile(r"unknown (node|cube|block|slice)|no (API )?fault has the id")


def folder() -> pathlib.Path:
    """Where a detached simulator leaves its files."""
    return directories.Directories(session.current().env).simulator


def running() -> process.State:
    """The simulator that runs. Raises NotFound if none does."""
    try:
        state = process.read(folder()) if process.is_running(folder()) else None
    except process.ProcessError as error:
        raise errors.TpuctlError(str(error)) from error
    if state is None:
        raise errors.NotFound("no simulator is running", hint="start one with: tpuctl sim start --detach")
    return state


def ask(state: process.State, method: str, call: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """Ask its admin API. Raises Unavailable, NotFound (nothing of that name) or UsageError."""
    try:
        found = process.request(state, method, call, body)
    except process.ProcessError as error:
        raise errors.Unavailable(str(error)) from error
    if "error" in found:
        near = ", ".join(found.get("near", ()))
        hint = f"did you mean {near}?" if near else None
        if _MISSING.match(found["error"]):
            raise errors.NotFound(found["error"], hint=hint)
        raise errors.UsageError(found["error"], hint=hint)
    return found

"""Where tpuctl keeps things, by the XDG base directory specification: its own folders and no others."""

from __future__ import annotations

import os
import pathlib
import tempfile
from typing import TYPE_CHECKING

from tpuctl.model import errors

if TYPE_CHECKING:
    from collections.abc import Mapping


class Directories:
    """The folders for one environment; none is made before something is written there."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        self.home = pathlib.Path(env.get("HOME") or pathlib.Path("~").expanduser())

    @property
    def config(self) -> pathlib.Path:
        return self._base("XDG_CONFIG_HOME", ".config")

    @property
    def state(self) -> pathlib.Path:
        return self._base("XDG_STATE_HOME", ".local/state")

    @property
    def cache(self) -> pathlib.Path:
        return self._base("XDG_CACHE_HOME", ".cache")

    @property
    def simulator(self) -> pathlib.Path:
        """What a detached simulator keeps: its state, its kubeconfig, its log."""
        return self.state / "sim"

    @property
    def current_context(self) -> pathlib.Path:
        return self.state / "current-context"

    def _base(self, variable: str, default: str) -> pathlib.Path:
        named = self._env.get(variable, "")
        # The specification says to ignore relative paths.
        base = pathlib.Path(named) if os.path.isabs(named) else self.home / default  # noqa: PTH117 - `` is not
        return base / "tpuctl"


def write_whole(path: pathlib.Path, text: str) -> None:
    """Replace a file of the user's own (mode 0600) so that a reader sees the old text or the new one.

    Raises TpuctlError if it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                stream.write(text)
            pathlib.Path(temporary).replace(path)
        except BaseException:
            pathlib.Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise errors.TpuctlError(f"cannot write {path}: {error.strerror}") from error

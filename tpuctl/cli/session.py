"""What one run of the program has at hand: arguments, environment, terminal, global flags, settings."""

from __future__ import annotations

import contextlib
import contextvars
import pathlib
from typing import TYPE_CHECKING

from tpuctl.cli import terminal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tpuctl.cli import config
    from tpuctl.ops import context

_current: contextvars.ContextVar[Session] = contextvars.ContextVar("session")


class Flags:
    """Global options; they may stand before or after the command, the later one wins."""

    def __init__(self) -> None:
        self.context: str | None = None
        self.config: str | None = None
        self.color: str | None = None
        self.debug = False


class Session:
    """One run. Commands get it with `session.current()`."""

    def __init__(
        self,
        *,
        arguments: tuple[str, ...],
        program: str,
        env: Mapping[str, str],
        streams: terminal.Streams,
        cwd: pathlib.Path | None = None,
    ) -> None:
        self.arguments = arguments
        self.program = program
        """How the user calls it: `tpuctl` or `kubectl tpu`."""
        self.env = env
        self.cwd = cwd or pathlib.Path()
        self.flags = Flags()
        self.terminal = terminal.Terminal(streams, env)
        self._settings: config.Settings | None = None

    @property
    def settings(self) -> config.Settings:
        """Settings from flags, environment and files; raises ConfigError for a bad one."""
        if self._settings is None:
            from tpuctl.cli import config  # noqa: PLC0415 - reads YAML; `version` and help do without

            self._settings = config.load(self)
            self.terminal.configured_color = self._settings.color
            self.terminal.no_input = self._settings.no_input
            self.terminal.configured_log_format = self._settings.log_format
        return self._settings

    def context(self) -> context.Context:
        """The chosen context; raises UsageError with a way out if there is none."""
        return self.settings.context()

    def wants_debug(self) -> bool:
        """If true, a failure shows its traceback; looked up before the arguments were parsed, too."""
        return self.flags.debug or "--debug" in self.arguments


def current() -> Session:
    """The session of the running command."""
    return _current.get()


@contextlib.contextmanager
def active(session: Session) -> Iterator[None]:
    """Make `session` the current one, and its streams the ones that `print` would use."""
    token = _current.set(session)
    streams = session.terminal.streams
    try:
        with contextlib.redirect_stdout(streams.stdout), contextlib.redirect_stderr(streams.stderr):
            yield
    finally:
        session.terminal.close()
        _current.reset(token)

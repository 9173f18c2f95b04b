"""Progress on stderr: one live line on a terminal, one plain line per change anywhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import rich.progress

    from tpuctl.cli import terminal

HEARTBEAT_S = 60.0
"""Real seconds after which a log without a terminal repeats what is being waited for."""


class Reporter(Protocol):
    """The same methods as `ops.ports.Reporter`."""

    def step(self, text: str) -> None: ...

    def progress(self, done: int, total: int, text: str) -> None: ...

    def warn(self, text: str) -> None: ...

    def going_on(self, text: str) -> None: ...


class _Reporter:
    """What all of them do alike."""

    def __init__(self, screen: terminal.Terminal) -> None:
        self._terminal = screen

    def warn(self, text: str) -> None:
        self._terminal.warn(text)

    def going_on(self, text: str) -> None:
        """Keep it for the message about an interruption or a timeout."""
        self._terminal.interrupt_note = text or None


class QuietReporter(_Reporter):
    """`--quiet`: warnings only."""

    def step(self, text: str) -> None:
        """Say nothing."""

    def progress(self, done: int, total: int, text: str) -> None:
        """Say nothing."""


class PlainReporter(_Reporter):
    """One line per change; the same state again is repeated only as a heartbeat."""

    def __init__(self, screen: terminal.Terminal) -> None:
        super().__init__(screen)
        self._last = ""
        self._written_s = 0.0

    def step(self, text: str) -> None:
        self._tell(text)

    def progress(self, done: int, total: int, text: str) -> None:
        self._tell(f"{text} ({done}/{total})")

    def _tell(self, text: str, **fields: object) -> None:
        now_s = self._terminal.monotonic_s()
        if text == self._last and now_s - self._written_s < HEARTBEAT_S:
            return
        self._terminal.note(f"still: {text}" if text == self._last else text, **fields)
        self._last, self._written_s = text, now_s


class JsonReporter(PlainReporter):
    """The same for a JSON log: counts are keys of their own."""

    def progress(self, done: int, total: int, text: str) -> None:
        self._tell(f"{text} ({done}/{total})", done=done, total=total)


class LiveReporter(_Reporter):
    """One line at the bottom of the terminal that changes in place and leaves nothing behind."""

    def __init__(self, screen: terminal.Terminal) -> None:
        super().__init__(screen)
        self._bar: rich.progress.Progress | None = None
        self._task: rich.progress.TaskID | None = None

    def step(self, text: str) -> None:
        self._update(text, None, 0)

    def progress(self, done: int, total: int, text: str) -> None:
        self._update(text, total, done)

    def stop(self) -> None:
        """Remove the line; the next `step` or `progress` draws it anew."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = self._task = None

    def _update(self, text: str, total: int | None, done: int) -> None:
        if self._bar is None or self._task is None:
            self._bar = self._make_bar()
            self._task = self._bar.add_task(text, total=None)
            self._bar.start()
        self._bar.update(self._task, description=text, total=total, completed=done)

    def _make_bar(self) -> rich.progress.Progress:
        import rich.progress as bars  # noqa: PLC0415 - only a terminal that waits needs it

        return bars.Progress(
            bars.SpinnerColumn(),
            bars.TextColumn("{task.description}", markup=False),
            bars.BarColumn(bar_width=24),
            _Count(),
            console=self._terminal.console(stderr=True),
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )


def _Count() -> rich.progress.ProgressColumn:  # noqa: N802 - stands where rich has classes
    """`12/144` for a task that has a total, nothing for one that has none."""
    import rich.progress as bars  # noqa: PLC0415
    import rich.text  # noqa: PLC0415

    class Count(bars.ProgressColumn):
        def render(self, task: bars.Task) -> rich.text.Text:
            shown = "" if task.total is None else f"{int(task.completed)}/{int(task.total)}"
            return rich.text.Text(shown)

    return Count()

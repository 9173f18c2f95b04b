"""What went wrong, told once: lines on stderr, an object on stdout for `-o json|yaml`, an exit status."""

from __future__ import annotations

import contextlib
import re
import traceback
from typing import TYPE_CHECKING, Any, NamedTuple

from tpuctl.cli import terminal
from tpuctl.model import errors
from tpuctl.model.exit_status import ExitStatus

if TYPE_CHECKING:
    from tpuctl.cli import session


class Failure(NamedTuple):
    """A failure as users and programs see it."""

    status: int
    code: str
    """A closed word: the name of a TpuctlError, or `Interrupted`, `Terminated`, `InternalError`."""
    message: str
    hint: str | None = None
    retryable: bool = False
    details: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """The error object of `-o json` and `-o yaml`."""
        return {
            "apiVersion": "tpuctl/v1",
            "kind": "Error",
            "code": self.code,
            "message": self.message,
            "hint": self.hint,
            "retryable": self.retryable,
            "details": list(self.details),
        }


def report(current: session.Session, error: BaseException) -> int:
    """Show `error` and return the exit status."""
    if isinstance(error, terminal.OutputClosed):
        return ExitStatus.OK
    current.terminal.close()
    status = _plain_exit(error)
    if status is not None:
        return status
    failure = describe(error, program=current.program, note=current.terminal.interrupt_note)
    if current.wants_debug():
        current.terminal.problem("".join(traceback.format_exception(error)).rstrip())
    _show_page_of(current, error)
    _show(current, failure)
    return failure.status


def _show_page_of(current: session.Session, error: BaseException) -> None:
    """A group called without a command shows what there is, on stderr since it was not asked for."""
    from tpuctl.cli import commands  # noqa: PLC0415

    if commands.is_missing_command(error):
        current.terminal.problem(f"{commands.page_of(error)}\n")


def describe(error: BaseException, *, program: str = "tpuctl", note: str | None = None) -> Failure:
    """`error` as a failure; `note` says what goes on, or stays open, although the command ends."""
    if isinstance(error, errors.TpuctlError):
        hint, details = _with_note(error, note)
        return Failure(error.exit_status, error.code, error.message, hint, error.retryable, details)
    if isinstance(error, KeyboardInterrupt):
        return Failure(ExitStatus.INTERRUPTED, "Interrupted", "interrupted", note)
    if isinstance(error, terminal.Terminated):
        return Failure(ExitStatus.TERMINATED, "Terminated", "terminated", note)
    if isinstance(error, EOFError):
        return Failure(ExitStatus.DECLINED, "Declined", "the input ended before an answer was given")
    return _usage(error, program) or Failure(
        ExitStatus.FAILED,
        "InternalError",
        f"internal error: {type(error).__name__}: {_one_line(str(error))} (run with --debug for the trace)",
    )


def _with_note(error: errors.TpuctlError, note: str | None) -> tuple[str | None, tuple[str, ...]]:
    """Hint and details of an error, with what was begun and is not ended, unless it says so itself."""
    details = tuple(error.details)
    command = (note or "").rpartition(": ")[2]
    if not note or any(command in text for text in (error.message, error.hint or "", *details)):
        return error.hint, details
    return (note, details) if error.hint is None else (error.hint, (*details, note))


def _plain_exit(error: BaseException) -> int | None:
    """The status of `typer.Exit`, which is no failure."""
    import typer  # noqa: PLC0415 - only a run that fails pays for it here

    return error.exit_code if isinstance(error, typer.Exit) else None


def _usage(error: BaseException, program: str) -> Failure | None:
    """A complaint of the command-line parser in our words; None if `error` is something else."""
    import typer  # noqa: PLC0415

    from tpuctl.cli import commands  # noqa: PLC0415

    if isinstance(error, typer.Abort):
        return Failure(ExitStatus.DECLINED, "Declined", "nothing was confirmed")
    if not isinstance(error, typer.TyperException):
        return None
    # typer shows the class of the exception that a parser raised.
    message = _in_our_words(error.format_message().rstrip(".").replace(": Value error, ", ": "))
    path = commands.path_of(error) or program
    if commands.is_missing_command(error):
        message = "a command is needed"
    return Failure(ExitStatus.USAGE, "UsageError", message[:1].lower() + message[1:], f"see `{path} --help`")


_PARSER_WORDS = (
    (re.compile(r"Input should be a valid integer\b.*"), "expected a whole number"),
    (re.compile(r"Input should be a valid number\b.*"), "expected a number"),
    (re.compile(r"Input should be greater than or equal to (\S+)"), r"expected \1 or more"),
    (re.compile(r"Input should be less than or equal to (\S+)"), r"expected \1 or less"),
)
"""What the parser below typer says of a number -> what people are told."""


def _in_our_words(message: str) -> str:
    for theirs, ours in _PARSER_WORDS:
        message = theirs.sub(ours, message)
    return message


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _show(current: session.Session, failure: Failure) -> None:
    from tpuctl.cli import output  # noqa: PLC0415 - only a run that fails pays for it here

    wanted = output.asked_format(current.arguments, current.env)
    # One document on stdout at most: a result that is there already has told about the failure.
    if wanted in (output.Format.JSON, output.Format.YAML) and not current.terminal.wrote_result:
        # If stdout is gone, stderr below still tells, and the status is that of the failure.
        with contextlib.suppress(terminal.OutputClosed, errors.TpuctlError):
            current.terminal.out(output.encode(failure.document(), wanted))
    current.terminal.error(failure.message, details=failure.details, hint=failure.hint)

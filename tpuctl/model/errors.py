"""Errors that tpuctl raises on purpose.

    TpuctlError
      Unavailable      the server could not be reached, or answered nonsense     1
      Declined         the user said no, or nobody was there to ask              3
      NotPermitted     401, 403, no credentials                                  4
      NotFound         an object that was named does not exist                   5
      Conflict         the world moved, a name or a partition is taken           6
      PartlyDone       some items of a batch failed                              7
      DoesNotFit       there is no room                                          8
      GuardStopped     a budget, breaker, hold or stale view forbids it          9
      TimedOut         waiting ended; the work goes on remotely                 10
      TroubleFound     a check ran and found something                          11
      UsageError       the request makes no sense as written                    64
      Busy             somebody else works on it; try again later               75

An expected "no" inside `model` and `engine` is a returned value, not one of these. `cloud` turns the
errors of the client libraries into these once, with the cause chained; `cli` shows them once.
"""

from __future__ import annotations

from tpuctl.model.exit_status import ExitStatus


class TpuctlError(Exception):
    """Something a user can read and act on: a message, and what to do next."""

    exit_status = ExitStatus.FAILED
    retryable = False

    def __init__(self, message: str, *, hint: str | None = None, details: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details = details
        """Further lines, one fact each."""

    @property
    def code(self) -> str:
        """The closed word for programs, for example `Conflict`."""
        return type(self).__name__


class Unavailable(TpuctlError):
    retryable = True


class Declined(TpuctlError):
    exit_status = ExitStatus.DECLINED


class NotPermitted(TpuctlError):
    exit_status = ExitStatus.NOT_PERMITTED


class NotFound(TpuctlError):
    exit_status = ExitStatus.NOT_FOUND


class Conflict(TpuctlError):
    exit_status = ExitStatus.CONFLICT


class PartlyDone(TpuctlError):
    exit_status = ExitStatus.PARTLY_DONE


class DoesNotFit(TpuctlError):
    exit_status = ExitStatus.DOES_NOT_FIT


class GuardStopped(TpuctlError):
    exit_status = ExitStatus.GUARD


class TimedOut(TpuctlError):
    exit_status = ExitStatus.TIMED_OUT


class TroubleFound(TpuctlError):
    exit_status = ExitStatus.TROUBLE_FOUND


class UsageError(TpuctlError):
    exit_status = ExitStatus.USAGE


class Busy(TpuctlError):
    exit_status = ExitStatus.TRY_AGAIN
    retryable = True

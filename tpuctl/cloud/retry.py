"""The one retry policy.

    read     idempotent: repeated on listed faults until a deadline
    write    after a fault that leaves open whether the server acted, looks before it writes again or gives up

Libraries' own retries are off, so that layers do not multiply. Deadlines count, not attempts; sleeping goes
through the injected clock. What may be repeated is decided by a `Classify` function for each library.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import tenacity

if TYPE_CHECKING:
    from tpuctl.ops import ports

T = TypeVar("T")


class Fault(NamedTuple):
    """What a failed attempt means for the next one."""

    again: bool = False
    """If true, the server did not act on it, or the fault may pass: an idempotent request can be repeated."""
    ambiguous: bool = False
    """If true, a write may have been carried out."""
    after_s: float | None = None
    """The server's Retry-After, in seconds."""


FINAL = Fault()
Classify = Callable[[BaseException], Fault]
Told = Callable[[BaseException], None]
"""Hears of a failed attempt that is repeated."""


class Telling:
    """Tells people that a service is tried again: once, until it has answered."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._lock = threading.Lock()
        self._is_told = False

    def failed(self, text: str) -> None:
        """An attempt failed, as `text` says, and is repeated."""
        with self._lock:
            is_news, self._is_told = not self._is_told, True
        if is_news:
            self._tell(f"{text}; trying again")

    def answered(self) -> None:
        """The service is there: the next trouble is news."""
        self._is_told = False


def untold(_text: str) -> None:
    """For whoever has nobody to tell."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Policy:
    """How long and how often; seconds of the context's clock."""

    deadline_s: float = 20.0
    """No new attempt begins later than this after the first one began.

    Twice the time that an answer is waited for, so that a lost one leaves time to look and to try again. A
    lock that was checked just before still has two thirds of its minute: the last attempt ends within it.
    """
    first_delay_s: float = 0.25
    longest_delay_s: float = 5.0
    jitter_s: float = 0.25


STANDARD = Policy()


def read(
    clock: ports.Clock,
    classify: Classify,
    attempt: Callable[[], T],
    *,
    policy: Policy = STANDARD,
    told: Told | None = None,
) -> T:
    """The result of `attempt`, repeated while its fault may pass; the last error is raised as it is."""
    return _retrying(clock, lambda error: classify(error).again, classify, policy, told)(attempt)


def write(
    clock: ports.Clock,
    classify: Classify,
    attempt: Callable[[], T],
    *,
    look: Callable[[], T | None],
    policy: Policy = STANDARD,
    told: Told | None = None,
) -> T:
    """The result of `attempt`, or what `look` finds after an attempt with an open outcome.

    `look` returns None if the write has not happened. It makes single requests: this loop repeats it.
    An error is never raised before one look, if an attempt may have been carried out.
    """
    end_s = clock.monotonic_s() + policy.deadline_s
    is_open = has_been_open = False
    last: Exception | None = None

    def look_then_write() -> T:
        nonlocal is_open, has_been_open, last
        if is_open:
            found = look()
            if found is not None:
                return found
            is_open = False
            if last is not None and clock.monotonic_s() > end_s:
                has_been_open = False  # it was looked at a moment ago
                raise last
        try:
            return attempt()
        except Exception as error:
            is_open, last = classify(error).ambiguous, error
            has_been_open |= is_open
            raise

    def may_go_on(error: BaseException) -> bool:
        fault = classify(error)
        return fault.again or fault.ambiguous

    try:
        return _retrying(clock, may_go_on, classify, policy, told)(look_then_write)
    except Exception as error:
        # Also after a refusal: "it exists already" may be the answer to what an earlier attempt has done.
        if error is not last or not has_been_open:
            raise
        found = _last_look(look, error, may_go_on)
        if found is None:
            raise
        return found


def _last_look(
    look: Callable[[], T | None], error: Exception, may_go_on: Callable[[BaseException], bool]
) -> T | None:
    """What came of a write for which no time is left; raises `error` itself if that cannot be seen either."""
    try:
        return look()
    except Exception as unseen:
        if may_go_on(unseen):
            raise error from unseen
        raise


def _retrying(
    clock: ports.Clock,
    may_go_on: Callable[[BaseException], bool],
    classify: Classify,
    policy: Policy,
    told: Told | None,
) -> tenacity.Retrying:
    deadline_s = clock.monotonic_s() + policy.deadline_s
    backoff = tenacity.wait_exponential(
        multiplier=policy.first_delay_s, max=policy.longest_delay_s
    ) + tenacity.wait_random(0, policy.jitter_s)

    def wait(state: tenacity.RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        asked_s = classify(error).after_s if error else None
        return max(backoff(state), asked_s or 0.0)

    def is_too_late(state: tenacity.RetryCallState) -> bool:
        return clock.monotonic_s() + state.upcoming_sleep > deadline_s

    def tell(state: tenacity.RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        if told is not None and error is not None:
            told(error)

    return tenacity.Retrying(
        retry=tenacity.retry_if_exception(may_go_on),
        wait=wait,
        stop=is_too_late,
        sleep=clock.sleep,
        before_sleep=tell,
        reraise=True,
    )

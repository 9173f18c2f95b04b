"""What can happen to a call instead of, or besides, its proper answer.

Before or after: an effect with `when="before"` keeps the work from being done; with "after" the work is done
and its answer lost. Seconds in `hold_s` and `delay_s` are real ones, because clients' timeouts are.
"""

from __future__ import annotations

import abc
import asyncio
import dataclasses
import datetime
import email.utils
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, ClassVar

from starlette import responses

from tpuctl.sim import connections
from tpuctl.sim.api_faults import answers, calls, streams

if TYPE_CHECKING:
    from tpuctl.sim import clock as clocks

Proceed = Callable[[], Awaitable[responses.Response]]

BEFORE, AFTER = "before", "after"
CONNECTION, JSON = "connection", "json"
RESPONSE, EVENT = "response", "event"
DEFAULT_HOLD_S = 1.0
DEFAULT_DELAY_S = 1.0
SWAP_HOLD_S = 0.05
LONGEST_S = 600.0
"""Real seconds that a connection may be held."""


@dataclasses.dataclass(frozen=True, slots=True)
class Asked:
    """A call that waits for its answer."""

    call: calls.Call
    proceed: Proceed
    """Does the work and gives the proper answer."""
    clock: clocks.Clock


@dataclasses.dataclass(frozen=True)
class Effect(abc.ABC):
    """Base of all effects. Those with ValueError in their constructor name what does not fit."""

    apis: ClassVar[frozenset[str]] = frozenset(calls.APIS)
    """APIs it makes sense for."""
    verbs: ClassVar[frozenset[str] | None] = None
    """Verbs it makes sense for; None stands for all."""
    summary: ClassVar[str] = ""
    """One line for people."""

    @abc.abstractmethod
    async def answer(self, asked: Asked) -> responses.Response:
        """Answer the call."""

    def fits(self, call: calls.Call) -> bool:
        """Whether it makes sense for this call."""
        return call.api in self.apis and (self.verbs is None or call.verb in self.verbs)


def _check(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ValueError(f"{name} must be one of {', '.join(known)}, not {value!r}")


def _check_s(name: str, seconds: float) -> None:
    if not 0 <= seconds <= LONGEST_S:
        raise ValueError(f"{name} must be between 0 and {LONGEST_S:.0f} real seconds")


def _check_code(code: int) -> None:
    if code not in answers.CODES:
        raise ValueError(f"code must be one of {', '.join(map(str, answers.CODES))}, not {code}")


@dataclasses.dataclass(frozen=True)
class Observe(Effect):
    """Nothing: counts calls, so that a test knows how many there are."""

    summary: ClassVar[str] = "nothing: calls are counted"

    async def answer(self, asked: Asked) -> responses.Response:
        return await asked.proceed()


@dataclasses.dataclass(frozen=True)
class Error(Effect):
    """An error code, with the body that the API gives to it."""

    summary: ClassVar[str] = "an error code; --when before or after the work"
    code: int = 503
    when: str = BEFORE
    retry_after_s: int | None = None
    """Header Retry-After."""

    def __post_init__(self) -> None:
        _check_code(self.code)
        _check("when", self.when, (BEFORE, AFTER))

    async def answer(self, asked: Asked) -> responses.Response:
        if self.when == AFTER:
            await asked.proceed()
        return answers.error(asked.call, self.code, retry_after_s=self.retry_after_s)


@dataclasses.dataclass(frozen=True)
class ErrorUnder200(Effect):
    """The body of an error under HTTP 200, the work not done."""

    summary: ClassVar[str] = "the body of an error under HTTP 200; the work is not done"
    code: int = 500

    def __post_init__(self) -> None:
        _check_code(self.code)

    async def answer(self, asked: Asked) -> responses.Response:
        return answers.under_200(asked.call, self.code)


@dataclasses.dataclass(frozen=True)
class Reset(Effect):
    """The connection is reset (TCP RST). A watch that is reset "after" has delivered its first events."""

    summary: ClassVar[str] = "the connection is reset; --when before or after the work"
    when: str = BEFORE

    def __post_init__(self) -> None:
        _check("when", self.when, (BEFORE, AFTER))

    async def answer(self, asked: Asked) -> responses.Response:
        proper = await asked.proceed() if self.when == AFTER else None
        if isinstance(proper, responses.StreamingResponse):
            return connections.Cut(proper, reset=True)
        return connections.NoAnswer(reset=True)


@dataclasses.dataclass(frozen=True)
class Timeout(Effect):
    """No answer: the connection stays open for `hold_s`, then it is closed."""

    summary: ClassVar[str] = (
        "no answer for --hold, then the connection closes; --when before or after the work"
    )
    when: str = BEFORE
    hold_s: float = DEFAULT_HOLD_S

    def __post_init__(self) -> None:
        _check("when", self.when, (BEFORE, AFTER))
        _check_s("hold_s", self.hold_s)

    async def answer(self, asked: Asked) -> responses.Response:
        if self.when == AFTER:
            await asked.proceed()
        return connections.NoAnswer(hold_s=self.hold_s, reset=False)


@dataclasses.dataclass(frozen=True)
class Slow(Effect):
    """The work begins late."""

    summary: ClassVar[str] = "the work begins --delay late"
    delay_s: float = DEFAULT_DELAY_S

    def __post_init__(self) -> None:
        _check_s("delay_s", self.delay_s)

    async def answer(self, asked: Asked) -> responses.Response:
        await asyncio.sleep(self.delay_s)
        return await asked.proceed()


@dataclasses.dataclass(frozen=True)
class Truncated(Effect):
    """Half of the answer, the work done.

    how="connection": the connection ends before the promised length. how="json": the length is right and the
    JSON ends in the middle; of a watch, only the first line does.
    """

    summary: ClassVar[str] = "half an answer; --how connection (it breaks) or json (it is no JSON)"
    how: str = CONNECTION

    def __post_init__(self) -> None:
        _check("how", self.how, (CONNECTION, JSON))

    async def answer(self, asked: Asked) -> responses.Response:
        proper = await asked.proceed()
        if self.how == CONNECTION:
            return connections.Cut(proper, reset=False)
        if isinstance(proper, responses.StreamingResponse):
            proper.body_iterator = streams.torn(proper.body_iterator)
            return proper
        body = bytes(proper.body)
        return responses.Response(body[: len(body) // 2], proper.status_code, media_type=_media_type(proper))


@dataclasses.dataclass(frozen=True)
class ClockSkew(Effect):
    """The Date header is off by `offset_s`."""

    summary: ClassVar[str] = "the Date header is off by --offset"
    offset_s: float = 300.0

    async def answer(self, asked: Asked) -> responses.Response:
        proper = await asked.proceed()
        moment = asked.clock.now() + datetime.timedelta(seconds=self.offset_s)
        proper.headers["Date"] = email.utils.format_datetime(moment, usegmt=True)
        return proper


@dataclasses.dataclass(frozen=True)
class Expired(Effect):
    """410: the revision, or the page's token, is too old. A watch can be told so by an event instead."""

    summary: ClassVar[str] = "410 on a list (--page) or a watch (--form response or event)"
    form: str = RESPONSE
    apis: ClassVar[frozenset[str]] = frozenset({calls.KUBERNETES})
    verbs: ClassVar[frozenset[str] | None] = frozenset({"list", "watch"})

    def __post_init__(self) -> None:
        _check("form", self.form, (RESPONSE, EVENT))

    async def answer(self, asked: Asked) -> responses.Response:
        if self.form == EVENT and asked.call.verb == "watch":
            return answers.expired_event()
        return answers.expired(asked.call)


@dataclasses.dataclass(frozen=True)
class _WatchEffect(Effect):
    """Changes a watch on its way; a watch that is refused is refused as ever."""

    apis: ClassVar[frozenset[str]] = frozenset({calls.KUBERNETES})
    verbs: ClassVar[frozenset[str] | None] = frozenset({"watch"})

    async def answer(self, asked: Asked) -> responses.Response:
        proper = await asked.proceed()
        if isinstance(proper, responses.StreamingResponse):
            proper.body_iterator = self.stream(proper.body_iterator)
        return proper

    @abc.abstractmethod
    def stream(self, proper: responses.AsyncContentStream) -> responses.AsyncContentStream:
        """What the client sees of the proper stream."""


@dataclasses.dataclass(frozen=True)
class SilentWatch(_WatchEffect):
    """The watch stays open and says nothing after its first `events` lines: half-open, events are lost."""

    summary: ClassVar[str] = "a watch stays open and is silent after --events events"
    events: int = 0

    def __post_init__(self) -> None:
        if self.events < 0:
            raise ValueError("events must not be negative")

    def stream(self, proper: responses.AsyncContentStream) -> responses.AsyncContentStream:
        return streams.silent(proper, events=self.events)


@dataclasses.dataclass(frozen=True)
class DuplicateEvents(_WatchEffect):
    """Every event of the watch comes twice."""

    summary: ClassVar[str] = "every event of a watch comes twice"

    def stream(self, proper: responses.AsyncContentStream) -> responses.AsyncContentStream:
        return streams.doubled(proper)


@dataclasses.dataclass(frozen=True)
class ReorderedEvents(_WatchEffect):
    """Every two events of the watch come in the wrong order; one without a partner comes late."""

    summary: ClassVar[str] = "the events of a watch come in the wrong order"
    hold_s: float = SWAP_HOLD_S

    def __post_init__(self) -> None:
        _check_s("hold_s", self.hold_s)

    def stream(self, proper: responses.AsyncContentStream) -> responses.AsyncContentStream:
        return streams.swapped(proper, hold_s=self.hold_s)


def _media_type(proper: responses.Response) -> str | None:
    return proper.headers.get("content-type")


EFFECTS: dict[str, type[Effect]] = {
    "api-observe": Observe,
    "api-error": Error,
    "api-error-under-200": ErrorUnder200,
    "api-reset": Reset,
    "api-timeout": Timeout,
    "api-slow": Slow,
    "api-truncated": Truncated,
    "api-clock-skew": ClockSkew,
    "api-expired": Expired,
    "api-silent-watch": SilentWatch,
    "api-duplicate-events": DuplicateEvents,
    "api-reordered-events": ReorderedEvents,
}
"""Name, as for `tpuctl sim inject`, -> effect."""

NAMES = {effect: name for name, effect in EFFECTS.items()}

"""Which call is hit: the faults in place, what they have seen, and when they act."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import random
from typing import TYPE_CHECKING, Any

import orjson
from starlette import responses

from tpuctl.sim.api_faults import calls, effects

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from starlette import requests

    from tpuctl.sim import clock as clocks
    from tpuctl.sim import simulator as simulators


@dataclasses.dataclass(frozen=True, kw_only=True)
class Trigger:
    """When a fault acts on the calls it is meant for. ValueError for numbers that make no sense."""

    call: int | None = None
    """It acts from this matching call on, counted from 1; once only, unless `times` says more."""
    times: int | None = None
    """It acts so often; None is once if `call` is given, and for ever if not."""
    probability: float = 1.0
    """Chance of each call to be hit."""
    seed: int = 0
    """Decides which calls are hit by chance."""

    def __post_init__(self) -> None:
        if self.call is not None and self.call < 1:
            raise ValueError("calls are counted from 1")
        if self.times is not None and self.times < 1:
            raise ValueError("times must be at least 1")
        if not 0 < self.probability <= 1:
            raise ValueError("probability must be above 0 and at most 1")

    @property
    def limit(self) -> float:
        """The most hits."""
        if self.times is not None:
            return self.times
        return float("inf") if self.call is None else 1


class Injection:
    """A fault in place."""

    def __init__(
        self,
        id: str,  # noqa: A002 - it is one
        effect: effects.Effect,
        selection: calls.Selection,
        trigger: Trigger,
        clock: clocks.Clock,
    ) -> None:
        self.id = id
        self.effect = effect
        self.selection = selection
        self.trigger = trigger
        self._clock = clock
        self._start()

    def _start(self) -> None:
        self.calls = 0
        """Matching calls seen."""
        self.hits = 0
        """Calls on which it acted."""
        self._random = random.Random(self.trigger.seed)  # noqa: S311 - chance for tests, no secret
        self._pages: dict[str, int] = {}

    @property
    def name(self) -> str:
        return effects.NAMES[type(self.effect)]

    @property
    def spent(self) -> bool:
        """Whether it has acted as often as it may."""
        return self.hits >= self.trigger.limit

    def next_call(self) -> None:
        """Begin again, acting one matching call later: for "at every call in turn"."""
        self.trigger = dataclasses.replace(self.trigger, call=(self.trigger.call or 0) + 1)
        self._start()

    def wants(self, call: calls.Call) -> bool:
        """Whether the call is one it looks at."""
        return self.effect.fits(call) and self.selection.matches(call)

    async def around(self, call: calls.Call, proceed: effects.Proceed) -> responses.Response:
        """Answer a call it wants, acting on it or not."""
        page = 1 if not call.token else self._pages.get(call.token, 0)
        if self.selection.page not in {None, page}:
            return self._learn(page, await proceed())
        self.calls += 1
        if not self._acts():
            return self._learn(page, await proceed())
        self.hits += 1
        return await self.effect.answer(effects.Asked(call, proceed, self._clock))

    def _acts(self) -> bool:
        if self.calls < (self.trigger.call or 1) or self.spent:
            return False
        # Drawn for each call, so that the seed alone decides which ones are hit.
        return self.trigger.probability == 1 or self._random.random() < self.trigger.probability

    def _learn(self, page: int, answer: responses.Response) -> responses.Response:
        """Remember which page the answer's token leads to, if pages matter."""
        if self.selection.page is not None and page and not isinstance(answer, responses.StreamingResponse):
            token = _next_token(bytes(answer.body))
            if token:
                self._pages[token] = page + 1
        return answer

    def to_json(self) -> dict[str, Any]:
        """What `GET /sim/v1/faults` shows of it."""
        shown = {**_set_fields(self.effect), **_set_fields(self.selection), **_set_fields(self.trigger)}
        state = "spent" if self.spent else "active"
        return {
            "id": self.id,
            "fault": self.name,
            "state": state,
            "calls": self.calls,
            "hits": self.hits,
            "parameters": shown,
        }


def _set_fields(value: Any) -> dict[str, Any]:
    """Fields of a dataclass that do not have their default, and for an effect all of them."""
    always = isinstance(value, effects.Effect)
    return {
        field.name: getattr(value, field.name)
        for field in dataclasses.fields(value)
        if always or getattr(value, field.name) != field.default
    }


def _next_token(body: bytes) -> str:
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        return ""  # No list, or one that another fault has spoilt.
    if not isinstance(document, dict):
        return ""
    metadata = document.get("metadata")
    inner = metadata.get("continue") if isinstance(metadata, dict) else None
    return str(inner or document.get("nextPageToken") or "")


class ApiFaults:
    """All API faults of one world. Call it on the server's thread only."""

    def __init__(self, clock: clocks.Clock) -> None:
        self._clock = clock
        self._injections: dict[str, Injection] = {}
        self._numbers = itertools.count(1)

    def __iter__(self) -> Iterator[Injection]:
        return iter(list(self._injections.values()))

    def interceptor(
        self, api: str
    ) -> Callable[[requests.Request, effects.Proceed], Awaitable[responses.Response | None]]:
        """The hook for an API's `intercept`."""

        async def intercept(request: requests.Request, proceed: effects.Proceed) -> responses.Response | None:
            if not self._injections:
                return None
            call = calls.understand(api, request)
            wanting = [injection for injection in self if injection.wants(call)]
            return await _nested(wanting, call, proceed) if wanting else None

        return intercept

    def add(
        self,
        effect: effects.Effect,
        selection: calls.Selection | None = None,
        trigger: Trigger | None = None,
    ) -> Injection:
        """Put a fault in place. ValueError if it could never act on such calls."""
        selection, trigger = selection or calls.Selection(), trigger or Trigger()
        _check_sense(effect, selection)
        injection = Injection(f"a{next(self._numbers)}", effect, selection, trigger, self._clock)
        self._injections[injection.id] = injection
        return injection

    def find(self, id: str) -> Injection | None:  # noqa: A002 - it is one
        return self._injections.get(id)

    def remove(self, id: str) -> None:  # noqa: A002 - it is one
        """Take a fault away; nothing happens if it is not there. Calls on their way keep their fate."""
        self._injections.pop(id, None)


async def _nested(
    injections: list[Injection], call: calls.Call, proceed: effects.Proceed
) -> responses.Response:
    """The first fault is the outermost: one that answers itself keeps the others from seeing the call."""
    if not injections:
        return await proceed()
    first, *rest = injections
    return await first.around(call, lambda: _nested(rest, call, proceed))


def _check_sense(effect: effects.Effect, selection: calls.Selection) -> None:
    name = effects.NAMES[type(effect)]
    if selection.api is not None and selection.api not in effect.apis:
        raise ValueError(f"{name} is for {', '.join(sorted(effect.apis))} only")
    if effect.verbs is not None and selection.verb is not None and selection.verb not in effect.verbs:
        raise ValueError(f"{name} is for {', '.join(sorted(effect.verbs))} only")
    if selection.page is not None and selection.verb not in {None, "list"}:
        raise ValueError("pages are for lists only")


@contextlib.contextmanager
def injected(simulator: simulators.Simulator, effect: effects.Effect, **options: Any) -> Iterator[Injection]:
    """A fault for the time of a `with` block, from any thread.

    `options` are the fields of `Selection` and `Trigger`: `api="kubernetes", verb="list", call=3`.
    """
    known = {field.name for field in dataclasses.fields(Trigger)}
    trigger = Trigger(**{name: value for name, value in options.items() if name in known})
    selection = calls.Selection(**{name: value for name, value in options.items() if name not in known})
    faults = simulator.world.api_faults
    injection = simulator.call(lambda: faults.add(effect, selection, trigger))
    try:
        yield injection
    finally:
        simulator.call(lambda: faults.remove(injection.id))


def each_call(simulator: simulators.Simulator, effect: effects.Effect, **options: Any) -> Iterator[Injection]:
    """The fault at the first matching call, then at the second, and so on, one for each turn of a loop.

    The body of the loop is the scenario. The last turn is the first one without a hit: the scenario has
    fewer calls than that.
    """
    for call in itertools.count(1):
        with injected(simulator, effect, call=call, **options) as injection:
            yield injection
        if not injection.hits:
            return

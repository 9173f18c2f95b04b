"""Moments as people write them: a time of day, or how far it is from now."""

from __future__ import annotations

import datetime

from tpuctl.cli import durations
from tpuctl.model import errors

_EXAMPLE = "write a time such as 2026-01-31T12:00:00Z, or a span such as 90m or 2h"


class Moment:
    """A time, or a span that becomes one when it is known what time it is where it counts."""

    def __init__(self, text: str) -> None:
        """Raises UsageError if it is neither."""
        self._text = text
        self._span_s: float | None = None
        self._at: datetime.datetime | None = None
        try:
            self._at = _time(text)
        except ValueError:
            try:
                self._span_s = float(durations.parse(text))
            except errors.UsageError as error:
                raise errors.UsageError(f"'{text}' is no time", hint=_EXAMPLE) from error

    def __str__(self) -> str:
        return self._text

    def after(self, now: datetime.datetime) -> datetime.datetime:
        """The time that is meant, a span counted from `now` on."""
        return self._at or now + datetime.timedelta(seconds=self._span_s or 0.0)

    def before(self, now: datetime.datetime) -> datetime.datetime:
        """The time that is meant, a span counted back from `now`."""
        return self._at or now - datetime.timedelta(seconds=self._span_s or 0.0)


def parse(text: str | Moment) -> Moment:
    """Raises UsageError."""
    return text if isinstance(text, Moment) else Moment(text)


def _time(text: str) -> datetime.datetime:
    # Digits alone would be taken for a date, and are a span of seconds.
    if text.isdigit():
        raise ValueError(text)
    found = datetime.datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=datetime.UTC)

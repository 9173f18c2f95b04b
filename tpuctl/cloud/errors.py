"""What the translations of all libraries share: refused requests, and texts fit to be shown.

    Refused          an HTTP answer that says no; `kube_errors` and `google_errors` turn it into one of ours

Bodies of unknown kind are dropped, the rest is cut, and anything that looks like a credential is struck out.
"""

from __future__ import annotations

import datetime
import email.utils
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_TEXT = 400
_SECRETS = re.compile(
    r"(?i)(authorization\s*[:=]\s*)\S+(\s+\S+)?"
    r"|\b(bearer|basic)\s+[\w.~+/=-]{8,}"
    r"|\bya29\.[\w-]+"
    r"|\beyJ[\w-]+\.[\w-]+\.[\w-]*"
    r"|((?:access_|refresh_|id_)?token|password|client_secret|(?:key|certificate)[-_]data)([\"']?\s*[:=]\s*[\"']?)[^\s\"',&]+"
)

UNAUTHORIZED = 401
FORBIDDEN = 403
NOT_FOUND = 404
CONFLICT = 409
GONE = 410
TOO_MANY = 429
AMBIGUOUS_STATUSES = frozenset({500, 502, 503, 504})
"""After these a write may have been carried out; a read may be repeated."""
UNREADABLE = (AttributeError, TypeError, ValueError, KeyError, IndexError)
"""What turning a document into a record raises if it is not what was promised."""


class Refused(Exception):
    """An answer that is no success; raised inside `cloud` only."""

    def __init__(
        self,
        status: int,
        document: dict[str, Any] | None,
        retry_after_s: float | None,
        *,
        request_id: str = "",
    ) -> None:
        super().__init__(f"HTTP status {status}")
        self.status = status
        self.document = document
        """The body if it is the service's own error format, else None."""
        self.retry_after_s = retry_after_s
        self.request_id = clean(request_id, 100)
        """What the service calls this request in its own logs; support asks for it. Empty: it did not say."""

    @property
    def facts(self) -> tuple[str, ...]:
        """What a user passes on, for the details of an error."""
        return (f"request id: {self.request_id}",) if self.request_id else ()


class Malformed(Exception):
    """A success whose body is not what the service promises; raised inside `cloud` only."""


def clean(text: object, limit: int = MAX_TEXT) -> str:
    """One printable line of at most `limit` characters, without secrets."""
    line = " ".join("".join(c if c.isprintable() else " " for c in str(text)[: limit * 4]).split())
    line = _SECRETS.sub("[secret removed]", line)
    return line if len(line) <= limit else f"{line[: limit - 3]}..."


def retry_after_s(headers: Mapping[str, str], now: datetime.datetime | None) -> float | None:
    """The Retry-After header in seconds, from either of its two forms; None if absent or unreadable."""
    text = headers.get("Retry-After", "").strip()
    if text.isascii() and text.isdigit():
        return float(text)
    until = http_date(text)
    return max((until - now).total_seconds(), 0.0) if until and now else None


def http_date(text: str | None) -> datetime.datetime | None:
    """The moment in an HTTP date header; None if there is none that can be read."""
    if not text:
        return None
    try:
        moment = email.utils.parsedate_to_datetime(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)

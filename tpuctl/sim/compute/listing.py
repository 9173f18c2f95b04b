"""Lists in pages, as all Compute Engine lists come."""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING, Any

from tpuctl.sim.googleapis import errors

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

PAGE_MAX = 500
"""The most items on one page, and how many it has if the caller does not say. Published."""

QUERY = ("maxResults", "pageToken", "filter", "orderBy", "returnPartialSuccess")
"""Query parameters that every list takes."""

_FILTER = re.compile(r"""(?P<field>\w+) (?P<operator>eq|ne) (?P<quote>["']?)(?P<literal>[^"']+)(?P=quote)""")
"""Of the published forms the one with a regular expression, on one field."""


def page(
    items: Iterable[dict[str, Any]], query: Mapping[str, str]
) -> tuple[list[dict[str, Any]], str | None]:
    """Return one page of `items`, which have names, in order of name, and the token of the next page.

    A token says after which name to go on, so a page is right even if items came or went since.
    """
    _check_supported(query)
    after = _decode(query["pageToken"]) if query.get("pageToken") else ""
    size = _size(query.get("maxResults", str(PAGE_MAX)))
    kept = _filtered(list(items), query.get("filter", ""))
    rest = sorted((item for item in kept if item["name"] > after), key=_name)
    shown = rest[:size]
    return shown, _encode(shown[-1]["name"]) if shown and len(rest) > size else None


def listing(
    kind: str, link: str, items: Iterable[dict[str, Any]], query: Mapping[str, str]
) -> dict[str, Any]:
    """Return the body of a list; `items` is absent if there are none, as in the service."""
    shown, token = page(items, query)
    body: dict[str, Any] = {"id": link.partition("/v1/")[2], "kind": kind, "selfLink": link}
    if shown:
        body["items"] = shown
    if token is not None:
        body["nextPageToken"] = token
    return body


def _name(item: dict[str, Any]) -> str:
    return str(item["name"])


def _check_supported(query: Mapping[str, str]) -> None:
    if query.get("orderBy", "name") not in {"", "name"}:
        raise errors.unimplemented(f"the order {query['orderBy']}")


def _filtered(items: list[dict[str, Any]], text: str) -> list[dict[str, Any]]:
    """The items that a filter lets through: its literal must match the whole field."""
    if not text:
        return items
    found = _FILTER.fullmatch(text)
    if found is None:
        raise errors.unimplemented(f"the list filter {text}")
    field, wanted = found["field"], found["operator"] == "eq"
    try:
        pattern = re.compile(found["literal"])
    except re.error:
        raise _bad_filter(text) from None
    if items and not any(isinstance(item.get(field), str) for item in items):
        raise _bad_filter(text)
    return [item for item in items if bool(pattern.fullmatch(str(item.get(field, "")))) is wanted]


def _bad_filter(text: str) -> errors.ApiError:
    why = "Invalid list filter expression."
    return errors.ApiError(400, f"Invalid value for field 'filter': '{text}'. {why}", reason="invalid")


def _size(given: str) -> int:
    if not given.isdecimal() or int(given) > PAGE_MAX:
        raise errors.ApiError(
            400,
            f"Invalid value for field 'maxResults': '{given}'. It must be between 0 and {PAGE_MAX}.",
            reason="invalid",
        )
    # Zero means "as many as you like" in the service.
    return int(given) or PAGE_MAX


def _encode(name: str) -> str:
    return base64.urlsafe_b64encode(f"after:{name}".encode()).decode()


def _decode(token: str) -> str:
    try:
        text = base64.urlsafe_b64decode(token.encode()).decode()
    except (binascii.Error, UnicodeDecodeError):
        text = ""
    if not text.startswith("after:"):
        raise errors.ApiError(400, f"Invalid value for field 'pageToken': '{token}'.", reason="invalid")
    return text.removeprefix("after:")

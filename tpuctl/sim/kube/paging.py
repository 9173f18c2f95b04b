"""Lists: as of which revision, which objects, in which pages."""

from __future__ import annotations

import base64
import binascii
import dataclasses
from typing import TYPE_CHECKING, Any

import orjson

from tpuctl.sim import store as stores
from tpuctl.sim.kube import errors, selectors, targets

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tpuctl.sim.kube import resources

Json = dict[str, Any]

TOKEN_VERSION = "meta.k8s.io/v1"  # noqa: S105 - version of a paging token, nothing secret
TOO_OLD = "The resourceVersion for the provided list is too old."
CONTINUE_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new "
    "list without the continue parameter, or use the continue token in this response to retrieve the "
    "remainder of the results. Continuing with the provided token results in an inconsistent list - objects "
    "that were created, modified, or deleted between the time the first chunk was returned and now may show "
    "up in the list."
)
INCONSISTENT = -1
"""Revision in a token that goes on from the present, after its own has expired."""
MATCHES = ("Exact", "NotOlderThan")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ListOptions:
    """Query parameters of a list or watch."""

    selector: selectors.Selector | None
    limit: int
    continue_token: str
    revision: int | None
    """`resourceVersion`; None if unset."""
    match: str

    @classmethod
    def parse(cls, query: Mapping[str, str], resource: resources.ResourceType, name: str = "") -> ListOptions:
        """Read and check the parameters. `name` restricts to one object. Raises `ApiError` (400, 422)."""
        terms = selectors.field_terms(query.get("fieldSelector", ""), resource)
        if name:
            terms = (*terms, selectors.FieldTerm("metadata.name", equal=True, value=name))
        return cls(
            selector=selectors.combined(
                selectors.labels(query.get("labelSelector", "")), selectors.fields(terms, resource)
            ),
            limit=targets.whole(query, "limit") or 0,
            continue_token=query.get("continue", ""),
            revision=_revision(query.get("resourceVersion", "")),
            match=query.get("resourceVersionMatch", ""),
        )


def _revision(text: str) -> int | None:
    if not text:
        return None
    if not text.isdigit():
        why = f'Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
        raise errors.invalid_options(
            "ListOptions", [errors.Cause("FieldValueInvalid", why, "resourceVersion")]
        )
    return int(text)


@dataclasses.dataclass(frozen=True)
class Page:
    """Part of a list, and the list's metadata."""

    objects: Sequence[Json]
    metadata: Json


@dataclasses.dataclass(frozen=True)
class _View:
    """Objects as of a revision, behind the place where the last page ended."""

    objects: Sequence[Json]
    revision: int
    start: str


def page(store: stores.Store, resource: resources.ResourceType, namespace: str, options: ListOptions) -> Page:
    """Answer a list. Raises `ApiError`: 400, 410 or 504."""
    _check_match(options)
    view = _view(store, resource, namespace, options)
    found = (
        [obj for obj in view.objects if _place(obj, namespace) > view.start] if view.start else view.objects
    )
    if options.selector is not None:
        found = list(filter(options.selector, found))
    metadata: Json = {"resourceVersion": str(view.revision)}
    # A list "from any revision" comes from the watch cache, which knows no pages.
    limit = 0 if options.revision == 0 else options.limit
    if 0 < limit < len(found):
        last = _place(found[limit - 1], namespace)
        metadata["continue"] = _token(view.revision, last + "\0")
        if options.selector is None:
            metadata["remainingItemCount"] = len(found) - limit
        found = found[:limit]
    return Page(found, metadata)


def _place(obj: Json, namespace: str) -> str:
    """Where an object stands in a list; lists of all namespaces are ordered by namespace first."""
    own, name = stores.identity(obj)
    return f"{own}/{name}" if own and not namespace else name


def _check_match(options: ListOptions) -> None:
    causes = []
    if options.match:
        field = "resourceVersionMatch"
        if options.match not in MATCHES:
            text = f'Unsupported value: "{options.match}": supported values: "Exact", "NotOlderThan", ""'
            causes.append(errors.Cause("FieldValueNotSupported", text, field))
        elif options.continue_token:
            text = "Forbidden: resourceVersionMatch is forbidden for continue"
            causes.append(errors.Cause("FieldValueForbidden", text, field))
        elif options.revision is None:
            text = "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"
            causes.append(errors.Cause("FieldValueForbidden", text, field))
        elif options.match == "Exact" and options.revision == 0:
            text = 'Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
            causes.append(errors.Cause("FieldValueForbidden", text, field))
    if options.limit < 0:
        text = f"Invalid value: {options.limit}: must be greater than or equal to 0"
        causes.append(errors.Cause("FieldValueInvalid", text, "limit"))
    if causes:
        raise errors.invalid_options("ListOptions", causes)


def _view(
    store: stores.Store, resource: resources.ResourceType, namespace: str, options: ListOptions
) -> _View:
    if options.continue_token:
        return _continued(store, resource, namespace, options)
    if options.revision is not None and options.revision > store.revision:
        raise errors.version_too_large(options.revision, store.revision)
    # A limit with a revision and no word about matching has always meant exactly that revision.
    exact = options.match == "Exact" or (options.limit > 0 and not options.match)
    if exact and options.revision:
        try:
            objects = _inside(store.snapshot(resource.key, options.revision), namespace)
        except stores.Expired:
            raise errors.expired(TOO_OLD) from None
        return _View(objects, options.revision, "")
    return _View(store.list(resource.key, namespace), store.revision, "")


def _inside(objects: Sequence[Json], namespace: str) -> Sequence[Json]:
    if not namespace:
        return objects
    return [obj for obj in objects if obj["metadata"].get("namespace") == namespace]


def _continued(
    store: stores.Store, resource: resources.ResourceType, namespace: str, options: ListOptions
) -> _View:
    if options.revision:
        raise errors.bad_request("specifying resource version is not allowed when using continue")
    revision, start = _read_token(options.continue_token)
    start = start.rstrip("\0")
    if revision == INCONSISTENT:
        return _View(store.list(resource.key, namespace), store.revision, start)
    if revision > store.revision:
        raise errors.version_too_large(revision, store.revision)
    try:
        objects = _inside(store.snapshot(resource.key, revision), namespace)
    except stores.Expired:
        fresh = regardless(options.continue_token)
        raise errors.expired(CONTINUE_EXPIRED, continue_token=fresh) from None
    return _View(objects, revision, start)


def regardless(token: str) -> str:
    """A token for the same place in the list that goes on from the present. Raises `ApiError` (400)."""
    _, start = _read_token(token)
    return _token(INCONSISTENT, start)


def _token(revision: int, start: str) -> str:
    content = orjson.dumps({"v": TOKEN_VERSION, "rv": revision, "start": start})
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def _read_token(text: str) -> tuple[int, str]:
    try:
        content = orjson.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        version, revision, start = content["v"], content["rv"], content["start"]
    except (binascii.Error, ValueError, TypeError, KeyError) as error:
        message = f"invalid continue token: continue key is not valid: {error}"
        raise errors.bad_request(message) from None
    if version != TOKEN_VERSION or not isinstance(revision, int) or not isinstance(start, str):
        raise errors.bad_request("invalid continue token: continue key is not valid: unknown version")
    return revision, start

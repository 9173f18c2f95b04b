"""What a request is about: its path, verb and options, taken apart once."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tpuctl.sim.kube import errors

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FIELD_VALIDATION = ("Ignore", "Warn", "Strict")
TRUE, FALSE = frozenset({"1", "t", "true"}), frozenset({"0", "f", "false", ""})
MAX_MANAGER_LENGTH = 128


@dataclasses.dataclass(frozen=True, kw_only=True)
class Target:
    """The resource that a path names."""

    group: str
    version: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def parse_path(path: str) -> Target | None:
    """Take a resource path apart; None if it names no resource (`/api`, `/apis/GROUP`, `/version`)."""
    parts = path.strip("/").split("/")
    if len(parts) > 2 and parts[:2] == ["api", "v1"]:  # noqa: PLR2004 - at least one part behind the version
        return _below("", "v1", parts[2:])
    if len(parts) > 3 and parts[0] == "apis":  # noqa: PLR2004 - likewise
        return _below(parts[1], parts[2], parts[3:])
    return None


def _below(group: str, version: str, parts: Sequence[str]) -> Target | None:
    namespace = ""
    inside = parts[0] == "namespaces" and len(parts) > 2 and parts[2] not in {"status", "finalize"}  # noqa: PLR2004
    if inside:
        namespace, parts = parts[1], parts[2:]
    plural, name, subresource, *rest = [*parts, "", ""] if len(parts) < 3 else parts  # noqa: PLR2004
    if rest not in ([], [""]) or not plural:
        return None
    return Target(
        group=group, version=version, plural=plural, namespace=namespace, name=name, subresource=subresource
    )


def flag(query: Mapping[str, str], name: str) -> bool:
    """A boolean query parameter, as Go's `strconv.ParseBool` reads it."""
    text = query.get(name, "").lower()
    if text not in TRUE | FALSE:
        raise errors.bad_request(f'strconv.ParseBool: parsing "{query[name]}": invalid syntax')
    return text in TRUE


def whole(query: Mapping[str, str], name: str) -> int | None:
    """A whole-number query parameter; None if it is absent."""
    text = query.get(name, "")
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        raise errors.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None


def verb_of(method: str, target: Target, query: Mapping[str, str]) -> str:
    """The verb that authorization and handlers speak of; empty for a method without one."""
    if method in {"GET", "HEAD"}:
        if target.name:
            return "get"
        return "watch" if flag(query, "watch") else "list"
    if method == "DELETE":
        return "delete" if target.name else "deletecollection"
    return {"POST": "create", "PUT": "update", "PATCH": "patch"}.get(method, "")


@dataclasses.dataclass(frozen=True, kw_only=True)
class WriteOptions:
    """Query parameters of create, update and patch."""

    dry_run: bool
    manager: str
    field_validation: str
    force: bool


def write_options(
    query: Mapping[str, str], kind: str, user_agent: str, *, apply: bool = False
) -> WriteOptions:
    """Read and check the options of a write; `kind` is how a complaint calls them (`PatchOptions`)."""
    dry_run, validation = query.get("dryRun", ""), query.get("fieldValidation", "") or "Warn"
    manager = query.get("fieldManager", "")
    causes = []
    if dry_run not in {"", "All"}:
        causes.append(_unsupported("dryRun", dry_run, ["All"]))
    if validation not in FIELD_VALIDATION:
        causes.append(_unsupported("fieldValidation", validation, ["", *FIELD_VALIDATION]))
    if len(manager) > MAX_MANAGER_LENGTH:
        text = f"Too long: may not be more than {MAX_MANAGER_LENGTH} bytes"
        causes.append(errors.Cause("FieldValueTooLong", text, "fieldManager"))
    if apply and not manager:
        text = "Required value: is required for apply patch"
        causes.append(errors.Cause("FieldValueRequired", text, "fieldManager"))
    if "force" in query and not apply:
        causes.append(
            errors.Cause(
                "FieldValueForbidden", "Forbidden: may not be specified for non-apply patch", "force"
            )
        )
    if causes:
        raise errors.invalid_options(kind, causes)
    return WriteOptions(
        dry_run=bool(dry_run),
        manager=manager or user_agent.split("/", 1)[0][:MAX_MANAGER_LENGTH] or "unknown",
        field_validation=validation,
        force=flag(query, "force"),
    )


def _unsupported(field: str, value: str, supported: Sequence[str]) -> errors.Cause:
    shown = ", ".join(f'"{item}"' for item in supported)
    text = f'Unsupported value: "{value}": supported values: {shown}'
    return errors.Cause("FieldValueNotSupported", text, field)


PROPAGATION = ("Foreground", "Background", "Orphan")


@dataclasses.dataclass(frozen=True, kw_only=True)
class DeleteOptions:
    """Options of a deletion, from the body or the query."""

    dry_run: bool
    grace_s: int | None
    uid: str | None
    resource_version: str | None
    propagation: str | None
    """What happens to the objects that belong to this one; None leaves it to the type."""


def delete_options(query: Mapping[str, str], body: Mapping[str, object]) -> DeleteOptions:
    """Read and check the options; a parameter of the query stands if the body does not say otherwise."""
    if body.get("kind", "DeleteOptions") != "DeleteOptions":
        raise errors.bad_request(f"expected DeleteOptions, got {body.get('kind')}")
    dry_run = body.get("dryRun") or ([query["dryRun"]] if query.get("dryRun") else [])
    grace_s = body.get("gracePeriodSeconds", whole(query, "gracePeriodSeconds"))
    propagation = body.get("propagationPolicy") or query.get("propagationPolicy") or None
    preconditions = body.get("preconditions") or {}
    causes = []
    if dry_run not in ([], ["All"]):
        causes.append(_unsupported("dryRun", str(dry_run), ["All"]))
    if propagation is not None and propagation not in PROPAGATION:
        causes.append(_unsupported("propagationPolicy", str(propagation), [*PROPAGATION, "nil"]))
    if causes:
        raise errors.invalid_options("DeleteOptions", causes)
    if not isinstance(preconditions, dict) or not isinstance(grace_s, int | None):
        raise errors.bad_request("json: cannot unmarshal the body into Go value of type v1.DeleteOptions")
    return DeleteOptions(
        dry_run=bool(dry_run),
        grace_s=grace_s,
        uid=preconditions.get("uid"),
        resource_version=preconditions.get("resourceVersion"),
        propagation=None if propagation is None else str(propagation),
    )

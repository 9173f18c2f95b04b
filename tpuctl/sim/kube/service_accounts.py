"""Service accounts as callers: their names, their groups, and the tokens that prove them.

A token is asked for with the subresource `serviceaccounts/NAME/token`. It ends by simulated time, and with
its account: an account made anew under the same name does not revive it.
"""

from __future__ import annotations

import dataclasses
import datetime
import secrets
import uuid
from typing import TYPE_CHECKING, Any

from tpuctl.sim import store as stores
from tpuctl.sim.kube import auth, errors, resources

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]

KEY = "serviceaccounts"
PREFIX = "system:serviceaccount:"
GROUP = "system:serviceaccounts"
CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"

AUDIENCE = "https://kubernetes.default.svc.cluster.local"
"""Whom the tokens are for: this server. Tokens for others prove nothing here and are not issued."""
DEFAULT_LIFE_S, MIN_LIFE_S, MAX_LIFE_S = 3600, 600, 1 << 32

TOKEN_REQUEST = resources.ResourceType(
    group="authentication.k8s.io",
    version="v1",
    plural="tokenrequests",
    singular="tokenrequest",
    kind="TokenRequest",
    namespaced=True,
)
"""Body of `serviceaccounts/NAME/token`; not served by itself."""


def user_name(namespace: str, name: str) -> str:
    """How the API calls a service account as a user."""
    return f"{PREFIX}{namespace}:{name}"


def split(user: str) -> tuple[str, str] | None:
    """(namespace, name) of a service account's user name; None if it is not one."""
    namespace, _, name = user.removeprefix(PREFIX).partition(":")
    if not user.startswith(PREFIX) or not namespace or not name or ":" in name:
        return None
    return namespace, name


def groups(namespace: str) -> tuple[str, ...]:
    """Groups that every service account of a namespace is in."""
    return GROUP, f"{GROUP}:{namespace}", auth.AUTHENTICATED


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Issued:
    namespace: str
    name: str
    uid: str
    id: str
    until: datetime.datetime


class Tokens:
    """Issues tokens and recognises them."""

    def __init__(self, store: stores.Store) -> None:
        self._store = store
        self._issued: dict[str, _Issued] = {}

    def find(self, token: str) -> auth.Identity | None:
        """Whose token it is; None if nobody's, or if it has ended."""
        issued = self._issued.get(token)
        if issued is None or self._store.clock.now() >= issued.until:
            return None
        account = self._store.get(KEY, issued.namespace, issued.name)
        if account is None or account["metadata"]["uid"] != issued.uid:
            return None
        return auth.Identity(
            user=user_name(issued.namespace, issued.name),
            uid=issued.uid,
            groups=groups(issued.namespace),
            extra={CREDENTIAL_ID: (f"JTI={issued.id}",)},
        )

    def issue(self, namespace: str, name: str, request: Json, *, dry_run: bool) -> Json:
        """The answer to a TokenRequest. Raises `ApiError` (404, 422, 501)."""
        account = self._store.get(KEY, namespace, name)
        if account is None:
            raise errors.not_found(resources.SERVICE_ACCOUNTS, name)
        spec = request.get("spec") or {}
        causes = list(_causes(spec))
        if causes:
            raise errors.invalid(TOKEN_REQUEST, name, causes)
        _refuse_unknown(spec)
        life_s = spec.get("expirationSeconds") or DEFAULT_LIFE_S
        now = self._store.clock.now()
        until = now + datetime.timedelta(seconds=life_s)
        token = secrets.token_urlsafe(32)
        if not dry_run:
            uid = account["metadata"]["uid"]
            self._issued[token] = _Issued(
                namespace=namespace, name=name, uid=uid, id=str(uuid.uuid4()), until=until
            )
        metadata = {"name": name, "namespace": namespace, "creationTimestamp": stores.timestamp(now)}
        return {
            "kind": TOKEN_REQUEST.kind,
            "apiVersion": TOKEN_REQUEST.api_version,
            "metadata": metadata,
            "spec": {"audiences": [AUDIENCE], "expirationSeconds": life_s, "boundObjectRef": None},
            "status": {"token": "" if dry_run else token, "expirationTimestamp": stores.timestamp(until)},
        }


def _causes(spec: Json) -> Iterator[errors.Cause]:
    life_s = spec.get("expirationSeconds")
    if life_s is None:
        return
    field = "spec.expirationSeconds"
    if life_s < MIN_LIFE_S:
        text = f"Invalid value: {life_s}: may not specify a duration less than 10 minutes"
        yield errors.Cause("FieldValueInvalid", text, field)
    if life_s > MAX_LIFE_S:
        text = f"Invalid value: {life_s}: may not specify a duration larger than 2^32 seconds"
        yield errors.Cause("FieldValueInvalid", text, field)


def _refuse_unknown(spec: Json) -> None:
    if spec.get("audiences") not in (None, [], [AUDIENCE]):
        raise errors.not_implemented("tokens for other audiences than the API server")
    if spec.get("boundObjectRef"):
        raise errors.not_implemented("tokens that are bound to an object")
    if spec.get("attestations"):
        raise errors.not_implemented("tokens with attestations")

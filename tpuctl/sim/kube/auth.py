"""Who is calling.

The simulator issues bearer tokens: its own ones here, those of service accounts in `service_accounts`. A
request without credentials is `system:anonymous`, which reaches authorization and fails there (403); a token
nobody issued fails authentication (401). What a caller may do is for `rbac` to say.
"""

from __future__ import annotations

import dataclasses
import hmac
from typing import TYPE_CHECKING

from tpuctl.sim.kube import errors

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

AUTHENTICATED, UNAUTHENTICATED = "system:authenticated", "system:unauthenticated"
MASTERS = "system:masters"
"""Members may do everything, whatever roles say."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Identity:
    """A caller."""

    user: str
    uid: str = ""
    groups: tuple[str, ...] = (AUTHENTICATED,)
    extra: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    """What else the authenticator knows, such as the id of the token."""

    def to_json(self) -> dict[str, object]:
        """`userInfo` of a SelfSubjectReview."""
        shown = {
            "username": self.user,
            "uid": self.uid,
            "groups": list(self.groups),
            "extra": {name: list(values) for name, values in self.extra.items()},
        }
        return {name: value for name, value in shown.items() if value}


ANONYMOUS = Identity(user="system:anonymous", groups=(UNAUTHENTICATED,))


def admin(user: str = "admin") -> Identity:
    """May do everything."""
    return Identity(user=user, uid=user, groups=(MASTERS, AUTHENTICATED))


def known(user: str, *groups: str) -> Identity:
    """Somebody who signed in, and may do what roles allow."""
    return Identity(user=user, uid=user, groups=(*groups, AUTHENTICATED))


class Auth:
    """The tokens issued, and whose they are. Tokens may be added and taken back while serving."""

    def __init__(self, tokens: Mapping[str, Identity]) -> None:
        self.tokens = dict(tokens)

    def identify(self, authorization: str | None, *others: Callable[[str], Identity | None]) -> Identity:
        """The caller behind an Authorization header; `others` know further tokens.

        Raises `ApiError` (401) for a token that nobody knows.
        """
        if not authorization:
            return ANONYMOUS
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer":
            return ANONYMOUS
        found = next(filter(None, (find(token.strip()) for find in (self._find, *others))), None)
        if found is None:
            raise errors.unauthorized()
        return found

    def _find(self, token: str) -> Identity | None:
        for known_token, identity in self.tokens.items():
            if hmac.compare_digest(known_token.encode(), token.encode()):
                return identity
        return None

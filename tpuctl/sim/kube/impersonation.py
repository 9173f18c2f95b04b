"""Acting as somebody else: the headers that `kubectl --as` and `--as-group` send.

Whoever may `impersonate` a user and each of the groups takes their place for one request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuctl.sim.kube import access, auth, errors, service_accounts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette import datastructures

    from tpuctl.sim.kube import rbac

_PREFIX = "impersonate-"
_USER, _GROUP = "impersonate-user", "impersonate-group"
_ANONYMOUS = auth.ANONYMOUS.user


def apply(headers: datastructures.Headers, caller: auth.Identity, policy: rbac.Rbac) -> auth.Identity:
    """Who the request is made as: the caller if no header says otherwise.

    Raises `ApiError`: 403 if the caller may not, 500 for groups without a user, 501 for uid and extra fields.
    """
    named = {name.lower() for name in headers if name.lower().startswith(_PREFIX)}
    if not named:
        return caller
    if unknown := sorted(named - {_USER, _GROUP}):
        raise errors.not_implemented(f"impersonation with the header {unknown[0]}")
    user, groups = headers.get(_USER, ""), tuple(headers.getlist(_GROUP))
    if not user:
        message = f"Internal error occurred: requested {list(groups)} without impersonating a user"
        raise errors.ApiError(500, "InternalError", message, details={"causes": [{"message": message}]})
    for asked in _questions(user, groups):
        policy.check(caller, asked)
    return auth.Identity(user=user, groups=_groups(user, groups))


def _questions(user: str, groups: tuple[str, ...]) -> Iterator[access.Attributes]:
    account = service_accounts.split(user)
    if account is None:
        yield access.Attributes(verb="impersonate", version="v1", resource="users", name=user)
    else:
        namespace, name = account
        yield access.Attributes(
            verb="impersonate", version="v1", resource="serviceaccounts", namespace=namespace, name=name
        )
    for group in groups:
        yield access.Attributes(verb="impersonate", version="v1", resource="groups", name=group)


def _groups(user: str, asked: tuple[str, ...]) -> tuple[str, ...]:
    """A service account has its groups unless others were asked for; everyone but nobody has signed in."""
    account = service_accounts.split(user)
    if account is not None and not asked:
        return service_accounts.groups(account[0])
    everyone = auth.UNAUTHENTICATED if user == _ANONYMOUS else auth.AUTHENTICATED
    known = (auth.AUTHENTICATED, auth.UNAUTHENTICATED)
    return asked if any(group in known for group in asked) else (*asked, everyone)

"""What a caller asks for, as authorization sees it, and how a refusal reads."""

from __future__ import annotations

import dataclasses
import html
import re
from typing import TYPE_CHECKING, Any

from tpuctl.sim.kube import errors

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tpuctl.sim.kube import auth, targets

_ONE_NAME = re.compile(r"metadata\.name==?([^,!=]+)")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Attributes:
    """One question: may somebody do `verb` to this resource, or to `path` if that is set."""

    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""
    """A path that names no resource (`/version`); then all the fields above but the verb are empty."""

    @property
    def full_resource(self) -> str:
        """The resource with its subresource, as rules write it: `pods/binding`."""
        return "/".join(filter(None, (self.resource, self.subresource)))

    @classmethod
    def of_target(cls, verb: str, target: targets.Target, query: Mapping[str, str]) -> Attributes:
        """What a request to a resource asks for.

        A namespace lies in itself, so that a Role inside it can allow reading it. A list or watch of one name
        counts as being about that name, which rules with resourceNames need.
        """
        itself = target.name if target.plural == "namespaces" else ""
        name = target.name
        if not name and verb in {"list", "watch"}:
            name = _selected_name(query.get("fieldSelector", ""))
        return cls(
            verb=verb,
            group=target.group,
            version=target.version,
            resource=target.plural,
            subresource=target.subresource,
            namespace=target.namespace or itself,
            name=name,
        )

    @classmethod
    def of_path(cls, method: str, path: str) -> Attributes:
        """What a request to any other path asks for."""
        return cls(verb=method.lower(), path=path)


def _selected_name(selector: str) -> str:
    found = (_ONE_NAME.fullmatch(part.strip()) for part in selector.split(","))
    return next((match[1] for match in found if match), "")


def refusal(identity: auth.Identity, asked: Attributes, reason: str = "") -> errors.ApiError:
    """403, in the words of a kube-apiserver."""
    why = html.escape(_cannot(identity, asked), quote=False) + (f": {reason}" if reason else "")
    if asked.path:
        return errors.ApiError(403, "Forbidden", f"forbidden: {why}", details={})
    key = f"{asked.resource}.{asked.group}" if asked.group else asked.resource
    shown = f'{key} "{asked.name}"' if asked.name else key
    details: dict[str, Any] = {"name": asked.name, "group": asked.group, "kind": asked.resource}
    return errors.ApiError(
        403,
        "Forbidden",
        f"{shown} is forbidden: {why}",
        details={field: value for field, value in details.items() if value},
    )


def _cannot(identity: auth.Identity, asked: Attributes) -> str:
    if asked.path:
        return f'User "{identity.user}" cannot {asked.verb} path "{asked.path}"'
    where = f'in the namespace "{asked.namespace}"' if asked.namespace else "at the cluster scope"
    return (
        f'User "{identity.user}" cannot {asked.verb} resource "{asked.full_resource}" in API group '
        f'"{asked.group}" {where}'
    )

"""Admission: hooks that see a write after validation and before it is stored."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from tpuctl.sim.kube import auth, resources

Json = dict[str, Any]
Operation = Literal["CREATE", "UPDATE", "DELETE"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class AdmissionRequest:
    """A write that is about to happen."""

    operation: Operation
    resource: resources.ResourceType
    namespace: str
    """Empty for a cluster-scoped object."""
    name: str
    subresource: str
    """Empty for the main resource; `status` or `binding` otherwise."""
    old: Json | None
    """The stored object; None for CREATE. Shared: do not change it."""
    new: Json | None
    """The object to be stored; None for DELETE. It is valid; a hook may complete it, and is trusted then."""
    user: auth.Identity
    dry_run: bool


Hook = Callable[[AdmissionRequest], None]
"""Raises `errors.ApiError` to refuse the write."""

"""GKE's validating webhook for Slices: what is refused before a Slice is stored.

It sees one object at a time. What needs knowledge of other objects (missing nodes, partitions in use,
different blocks) is found later by the slice controller and shows up as status. The exact texts and the code
of the real webhook are not published.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from tpuctl.sim import rules
from tpuctl.sim.kube import errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from tpuctl.sim.kube import admission

NAME = "slice-validation.accelerator.gke.io"
"""How the webhook calls itself in a refusal (assumed: not published)."""
GROUP = "accelerator.gke.io"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rules:
    """What the documents leave open, as settings."""

    max_name_length: int = rules.MAX_NAME_LENGTH
    """Newer documents say 49, an older one 54."""
    allow_spec_updates: bool = False
    """Assumed: no client was seen to change a spec; all delete and create again."""
    allow_duplicates: bool = False
    """Assumed: a partition named twice cannot be joined with itself."""


class SliceWebhook:
    """The admission hook; put `review` into the Kubernetes API's list of hooks."""

    def __init__(self, settings: Rules, *, enabled: Callable[[], bool]) -> None:
        """`enabled` tells whether the slice controller, which brings the webhook, is on."""
        self._settings = settings
        self._enabled = enabled

    def review(self, request: admission.AdmissionRequest) -> None:
        """Raise `errors.ApiError` (403, as for any webhook that gives no code) if a rule is broken."""
        if (request.resource.group, request.resource.plural) != (GROUP, "slices") or not self._enabled():
            return
        if request.operation not in ("CREATE", "UPDATE") or request.new is None:
            return
        if request.old is not None and request.old.get("spec") == request.new.get("spec"):
            return  # Labels, annotations and finalizers are nobody's business here.
        problem = self._update_problem(request.old) or self.problem(request.new)
        if problem:
            raise errors.denied(NAME, problem)

    def problem(self, new: dict[str, Any]) -> str | None:
        """The first rule that a Slice breaks, or None."""
        spec = new["spec"]
        topology, ids = spec["topology"], spec["partitionIds"]
        return (
            rules.name_problem(new["metadata"]["name"], max_length=self._settings.max_name_length)
            or rules.type_problem(spec["type"])
            or rules.topology_problem(topology)
            or rules.count_problem(topology, ids)
            or (None if self._settings.allow_duplicates else rules.duplicate_problem(ids))
        )

    def _update_problem(self, old: dict[str, Any] | None) -> str | None:
        if old is None or self._settings.allow_spec_updates:
            return None
        return "spec is immutable; delete the Slice and create it again"

"""Import the client libraries that some sources need, in one thread.

They are slow to import and import each other in circles. Threads that begin with different ones at the same
time can be handed modules that are only half there, so whoever starts threads calls `load` before.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from tpuctl.model import fleet

if TYPE_CHECKING:
    from collections.abc import Collection

_GOOGLE = ("requests", "google.auth.transport.requests", "google.api_core.exceptions")
_MODULES = {
    fleet.SourceName.NODE_POOLS: (*_GOOGLE, "google.cloud.container_v1"),
    fleet.SourceName.CAPACITY: (*_GOOGLE, "google.cloud.compute_v1"),
}
_KUBERNETES = ("kubernetes.client", "kubernetes.config")
"""What every other source needs."""


def load(sources: Collection[fleet.SourceName]) -> None:
    """Import what reading `sources` needs."""
    for name in sources:
        for module in _MODULES.get(name, _KUBERNETES):
            importlib.import_module(module)

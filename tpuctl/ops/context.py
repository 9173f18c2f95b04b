"""One fleet that tpuctl can work on: which project, cluster and reservations, and how to reach them."""

from __future__ import annotations

import dataclasses
import ipaddress
import math
import urllib.parse

from tpuctl.model import errors

DEFAULT_POLICY = "tpuctl-4x4x4"
_ENDPOINTS = ("endpoint_kubernetes", "endpoint_container", "endpoint_compute")
_NEEDED = ("name", "project", "location", "zone", "cluster")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Context:
    """A named fleet; a pure value that the command line reads from its configuration.

    Raises UsageError when made from values that no fleet can have.
    """

    name: str
    project: str
    location: str
    """The cluster's location: a region or a zone."""
    zone: str
    """Where the reservations and the node pools are."""
    cluster: str
    reservations: tuple[str, ...] = ()
    """Names, or `projects/P/reservations/R` for reservations that another project shares."""
    policy: str = DEFAULT_POLICY
    """Name of the workload policy for node pools."""
    policy_file: str | None = None
    """Path of a file with the health policy; the built-in one without it."""
    kubeconfig: str | None = None
    """Path of a kubeconfig file; without one, the library's own search order."""
    kubeconfig_context: str | None = None
    """Name in the kubeconfig; see `kubeconfig_name` for what is used without one."""
    endpoint_kubernetes: str | None = None
    """URL that replaces the server of the kubeconfig."""
    endpoint_container: str | None = None
    endpoint_compute: str | None = None
    token_file: str | None = None
    """File with a bearer token for the two Google APIs, and for Kubernetes if there is no kubeconfig."""
    clock_scale: float = 1.0
    """Seconds of this context for each real second; a simulator runs faster than the world.

    0 is a simulator whose time stands still until somebody moves it; waits then count real seconds.
    """
    protected: bool = False
    """If true, disruptive commands ask for more."""

    def __post_init__(self) -> None:
        for field in _NEEDED:
            if not getattr(self, field):
                raise errors.UsageError(f"context '{self.name}' has no {field}")
        if not (math.isfinite(self.clock_scale) and self.clock_scale >= 0):
            raise errors.UsageError(f"context '{self.name}': the clock scale must be a number, 0 or more")
        for field in _ENDPOINTS:
            url = getattr(self, field)
            if url is not None:
                _check_endpoint(url, f"context '{self.name}': {field.replace('_', ' ')}")

    @property
    def kubeconfig_name(self) -> str:
        """The kubeconfig context to use: the one configured, else the name that gcloud gives this cluster.

        Never the current one of kubectl, which may be another cluster.
        """
        return self.kubeconfig_context or f"gke_{self.project}_{self.location}_{self.cluster}"

    @property
    def region(self) -> str:
        """The zone without its last part: `us-central1-c` lies in `us-central1`."""
        return self.zone.rpartition("-")[0] or self.zone

    @property
    def fleet(self) -> str:
        """`project/location/cluster`, the name of the fleet in snapshots."""
        return f"{self.project}/{self.location}/{self.cluster}"


def is_loopback(url: str) -> bool:
    """If true, the URL's host is this machine."""
    host = urllib.parse.urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _check_endpoint(url: str, what: str) -> None:
    """Raise UsageError unless `url` is https, or http on this machine: tokens travel over it."""
    try:
        parts = urllib.parse.urlsplit(url)
        has_host = bool(parts.hostname) and parts.port != 0
    except ValueError as error:
        raise errors.UsageError(f"{what} is not a URL") from error
    if parts.scheme not in ("http", "https") or not has_host:
        raise errors.UsageError(f"{what} is not a URL", hint="write it as https://host:port")
    if parts.username is not None or parts.password is not None:
        # The URL itself is not repeated: it holds a secret.
        raise errors.UsageError(f"{what} holds a user name or password", hint="use a token file")
    if parts.query or parts.fragment or parts.path not in ("", "/"):
        raise errors.UsageError(f"{what} has more than a host and a port")
    if parts.scheme == "http" and not is_loopback(url):
        raise errors.UsageError(
            f"{what} is http on another machine: a token would be readable on the way", hint="use https"
        )

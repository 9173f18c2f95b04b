"""The namespace in which tpuctl keeps its own objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuctl.cloud import errors as cloud_errors
from tpuctl.cloud import kube as kube_module

if TYPE_CHECKING:
    import datetime

NAMESPACE = "tpuctl-system"
_NAMESPACES = "/api/v1/namespaces"


def ensure(kube: kube_module.Kube) -> datetime.datetime:
    """Make the namespace if it is not there; returns the server's time."""
    found = kube.find(f"{_NAMESPACES}/{NAMESPACE}", NAMESPACE, what=f"read namespace {NAMESPACE}")
    if found is not None:
        return found.observed_at
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}

    def create() -> datetime.datetime:
        try:
            return kube.request("POST", _NAMESPACES, body=body).observed_at
        except cloud_errors.Refused as refused:
            if refused.status != cloud_errors.CONFLICT:
                raise
            return kube.request("GET", f"{_NAMESPACES}/{NAMESPACE}").observed_at

    # Creating it twice is the same as once: no need to look in between.
    return kube.write(create, look=lambda: None, what=f"create namespace {NAMESPACE}")

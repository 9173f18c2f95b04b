"""Who is acting: the Identity port. The name is the server's, not one that the environment claims."""

from __future__ import annotations

import functools
import os
import socket
from typing import TYPE_CHECKING

from tpuctl.cloud import errors as cloud_errors

if TYPE_CHECKING:
    from tpuctl.cloud import kube as kube_module

PATH = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
UNKNOWN = "unknown"


class KubeIdentity:
    """The Identity port."""

    def __init__(self, kube: kube_module.Kube) -> None:
        self._kube = kube

    def actor(self) -> str:
        return f"{self._name}@{socket.gethostname()}:{os.getpid()}"

    def is_dead(self, holder: str) -> bool:
        """True if `holder` was a process of this machine that is no more.

        Of other machines nothing is known. A process that got the pid of a dead one counts as alive.
        """
        place, _, pid = holder.rpartition(":")
        if place.rpartition("@")[2] != socket.gethostname() or not pid.isdecimal():
            return False
        try:
            os.kill(int(pid), 0)
        except ProcessLookupError:
            return True
        except OSError:
            return False  # it exists and is somebody else's
        return False

    @functools.cached_property
    def _name(self) -> str:
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}

        def ask() -> str:
            try:
                answer = self._kube.request("POST", PATH, body=body)
            except cloud_errors.Refused as refused:
                if refused.status in (cloud_errors.NOT_FOUND, cloud_errors.FORBIDDEN):
                    return UNKNOWN  # older servers do not answer this question; acting is another permission
                raise
            user = (answer.document.get("status") or {}).get("userInfo") or {}
            return str(user.get("username") or UNKNOWN)

        # It writes nothing, so asking again after an open outcome is right.
        return self._kube.write(ask, look=lambda: None, what="find out who you are")

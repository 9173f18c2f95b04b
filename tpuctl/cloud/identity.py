"""Who is acting: the Identity port. The name is the server's, not one that the environment claims.

NAME@HOST/WHERE:PID    WHERE says in which boot and which PID namespace the pid means this process
NAME@HOST:PID          where the system does not tell that, and as earlier versions wrote it
"""

from __future__ import annotations

import functools
import hashlib
import os
import pathlib
import socket
from typing import TYPE_CHECKING

from tpuctl.cloud import errors as cloud_errors

if TYPE_CHECKING:
    from tpuctl.cloud import kube as kube_module

PATH = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
UNKNOWN = "unknown"
BOOT_ID = pathlib.Path("/proc/sys/kernel/random/boot_id")
PID_NAMESPACE = pathlib.Path("/proc/self/ns/pid")


class KubeIdentity:
    """The Identity port."""

    def __init__(self, kube: kube_module.Kube) -> None:
        self._kube = kube

    def actor(self) -> str:
        return f"{self._name}@{_place()}:{os.getpid()}"

    def is_dead(self, holder: str) -> bool:
        """True if `holder` was a process of this boot and PID namespace that is no more.

        Of others nothing is known, whatever their host is called: pods with the host's network and containers
        on one machine share its name, and see each other's pids as free or as somebody else. A process that
        got the pid of a dead one counts as alive.
        """
        place, _, pid = holder.rpartition(":")
        here = _place()
        if "/" not in here or place.rpartition("@")[2] != here or not pid.isdecimal():
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


def _place() -> str:
    """This host, and which of all pid numberings ours is; the host alone where the system does not tell."""
    host = socket.gethostname()
    try:
        boot, namespace = BOOT_ID.read_text(encoding="ascii").strip(), PID_NAMESPACE.stat().st_ino
    except (OSError, ValueError):
        return host
    # The number of a machine's first namespace is the same everywhere: without the boot it says nothing.
    return f"{host}/{_short(f'{boot} {namespace}')}" if boot else host


def _short(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=4).hexdigest()

"""A simulated GKE in this process: the world, its server, and how to reach them."""

from __future__ import annotations

import base64
import os
import pathlib
import secrets
from typing import TYPE_CHECKING, Any, Self, TypeVar

import orjson

from tpuctl.sim import ready, server, store, world

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from tpuctl.sim import faults

Settings = world.Settings
CONTEXT = "sim"
"""Name of the context in the kubeconfig."""

_Result = TypeVar("_Result")


class Simulator:
    """Start it, talk to `url` with `token`, stop it. Also a context manager."""

    def __init__(self, settings: Settings | None = None, *, instance: str = "") -> None:
        """`instance` is repeated by the status call, so that its owner recognises it."""
        self.settings = settings or Settings()
        self.token = secrets.token_urlsafe(32)
        self.world = world.World(
            self.settings,
            token=self.token,
            shutdown=self.request_stop,
            about={"instance": instance, "pid": os.getpid()},
        )
        self._server: server.Server | None = None
        self._kubeconfig: pathlib.Path | None = None
        self._token_file: pathlib.Path | None = None
        ready.set_up(self.world, self.settings.ready_cubes)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """Where all APIs answer over plain HTTP."""
        return self._running().url

    @property
    def tls_url(self) -> str:
        """Where they answer over TLS; kubectl needs it, because it sends no token over plain HTTP."""
        return self._running().tls_url

    def start(self) -> None:
        """Return when requests are answered. OSError if the port is taken."""
        self._server = server.Server(
            self.world.app(),
            self.world.clock,
            port=self.settings.port,
            before_stop=self.world.kube.watches.close,
        )
        self._server.start()

    def stop(self) -> None:
        """Stop the server; raises RuntimeError if something went wrong in it while it ran."""
        if self._server is not None:
            running, self._server = self._server, None
            running.stop()

    def request_stop(self) -> None:
        """Begin to stop and return at once; from any thread, a request handler or a signal handler."""
        if self._server is not None:
            self._server.request_stop()

    def wait(self) -> None:
        """Block until the simulator was told to stop, through its admin API or by `stop`."""
        self._running().wait()

    def call(self, function: Callable[[], _Result]) -> _Result:
        """Run `function` on the server's thread, where the world may be touched; returns its result."""
        return self._running().call(function)

    def advance(self, seconds: float) -> None:
        """Move simulated time forward."""
        self.call(lambda: self.world.clock.advance(seconds))

    def inject(self, fault: str, target: str, **parameters: float) -> faults.Entry:
        """Put a fault of hardware, maintenance or slices in, see `faults.FAULTS`: `for_s=600`, `hosts=3`.

        Raises `faults.UnknownFault`, `faults.UnknownTarget` or `faults.BadFault`. For faults of the APIs see
        `api_faults.injected`.
        """
        return self.call(lambda: self.world.faults.inject(fault, target, parameters))

    def clear(self, entry: faults.Entry) -> None:
        """Take back what `inject` did."""
        self.call(lambda: self.world.faults.clear(entry))

    def now(self) -> str:
        """Simulated time, RFC 3339."""
        return store.timestamp(self.world.clock.now())

    def kubeconfig(self, path: pathlib.Path | str) -> pathlib.Path:
        """Write a kubeconfig with the one context `sim`, readable by the owner alone."""
        self._kubeconfig = pathlib.Path(path)
        write_private(self._kubeconfig, orjson.dumps(self._kubeconfig_content(), option=orjson.OPT_INDENT_2))
        return self._kubeconfig

    def token_file(self, path: pathlib.Path | str) -> pathlib.Path:
        """Write the bearer token to a file, readable by the owner alone."""
        self._token_file = pathlib.Path(path)
        write_private(self._token_file, self.token.encode())
        return self._token_file

    def context(self) -> dict[str, Any]:
        """What a tpuctl context needs to reach this simulator; files are named once they were written."""
        settings = self.settings
        files = {"kubeconfig": self._kubeconfig, "tokenFile": self._token_file}
        return {
            "project": settings.project,
            "location": settings.location,
            "zone": settings.zone,
            "cluster": settings.cluster,
            "reservations": [settings.reservation],
            "endpoints": {"container": self.url, "compute": self.url, "kubernetes": self.tls_url},
            "kubeconfigContext": CONTEXT,
            "clockScale": settings.speed,
            **{name: str(path) for name, path in files.items() if path is not None},
        }

    def _kubeconfig_content(self) -> dict[str, Any]:
        """Valid YAML as well, because JSON is."""
        authority = base64.b64encode(self._running().authority_pem).decode()
        cluster = {"server": self.tls_url, "certificate-authority-data": authority}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": CONTEXT, "cluster": cluster}],
            "users": [{"name": CONTEXT, "user": {"token": self.token}}],
            "contexts": [{"name": CONTEXT, "context": {"cluster": CONTEXT, "user": CONTEXT}}],
            "current-context": CONTEXT,
            "preferences": {},
        }

    def _running(self) -> server.Server:
        if self._server is None:
            raise RuntimeError("the simulator is not running")
        return self._server


def write_private(path: pathlib.Path, content: bytes) -> None:
    """Write a file that only its owner can read; another process sees the old content or the new."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    temporary.replace(path)

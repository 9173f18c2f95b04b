"""API servers that exchanges run against: the Kubernetes half of the simulator, or a real one.

TPUCTL_CONTRACT_KUBECONFIG names a kubeconfig of a real API server that has our Slice definition from
`configs/kubernetes/` (its current context is used). Never set it to a cluster that matters: the exchanges
create and delete nodes.
"""

import base64
import contextlib
import os
import pathlib
import tempfile

import requests
import yaml
from starlette import applications

from tpuctl.sim import clock, server, store
from tpuctl.sim.kube import app, auth

KUBECONFIG = os.environ.get("TPUCTL_CONTRACT_KUBECONFIG", "")
CRD_FILE = pathlib.Path(__file__).parents[2] / "configs/kubernetes/slice-crd.yaml"
TOKENS = {
    "admin": auth.admin("admin"),
    "viewer": auth.known("viewer"),
    "limited": auth.known("limited"),
}
RBAC = "rbac.authorization.k8s.io"
"""Group of roles and bindings."""
VIEWER = {
    f"clusterroles.{RBAC}": {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "viewer"},
        "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}],
    },
    f"clusterrolebindings.{RBAC}": {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "viewer"},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "viewer"},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": "viewer"}],
    },
}
"""The viewer reads everything; `limited` has signed in and has no role."""


class Simulated:
    """A fresh API server of the simulator, with the Slice definition, as a client sees it."""

    def __init__(self):
        self.clock = clock.Clock()
        self.store = store.Store(self.clock)
        self.api = app.KubeApi(
            self.store, auth.Auth({f"token-of-{name}": who for name, who in TOKENS.items()})
        )
        self.store.create(
            "customresourcedefinitions.apiextensions.k8s.io", yaml.safe_load(CRD_FILE.read_text())
        )
        for key, obj in VIEWER.items():
            self.store.create(key, obj)
        self._server = server.Server(applications.Starlette(routes=self.api.routes()), self.clock)
        self.session = requests.Session()

    @property
    def url(self):
        return self._server.url

    def start(self):
        self._server.start()
        return self

    def stop(self):
        self.session.close()
        with contextlib.suppress(RuntimeError):  # a stopped server has no watches left to end
            self.call(self.api.watches.close)
        self._server.stop()

    def call(self, function):
        """Run on the server's thread."""
        return self._server.call(function)

    def headers(self, token):
        """Credentials: of a known user, of nobody (`none`), or made up (`wrong`)."""
        return {} if token == "none" else {"Authorization": f"Bearer token-of-{token}"}

    def compact(self):
        self.call(self.store.compact)

    def advance(self, seconds):
        self.call(lambda: self.clock.advance(seconds))


class Real:
    """A real API server, as a kubeconfig describes it."""

    def __init__(self, path):
        config = yaml.safe_load(pathlib.Path(path).read_text())
        context = _named(config["contexts"], config["current-context"])["context"]
        cluster = _named(config["clusters"], context["cluster"])["cluster"]
        user = _named(config["users"], context["user"])["user"]
        self.url = cluster["server"]
        self.session = requests.Session()
        self._files = tempfile.TemporaryDirectory()
        self._token = user.get("token")
        self.session.verify = self._file(cluster, "certificate-authority") or True
        if cluster.get("insecure-skip-tls-verify"):
            self.session.verify = False
        if certificate := self._file(user, "client-certificate"):
            self.session.cert = (certificate, self._file(user, "client-key"))

    def _file(self, entry, name):
        if f"{name}-data" not in entry:
            return entry.get(name)
        path = pathlib.Path(self._files.name, name)
        path.write_bytes(base64.b64decode(entry[f"{name}-data"]))
        return str(path)

    def start(self):
        return self

    def stop(self):
        self.session.close()
        self._files.cleanup()

    def headers(self, token):
        assert token == "admin", "only the simulator knows other users"
        return {"Authorization": f"Bearer {self._token}"} if self._token else {}


def _named(entries, name):
    return next(entry for entry in entries if entry["name"] == name)

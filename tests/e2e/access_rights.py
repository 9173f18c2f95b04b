"""People with exactly the rights of configs/kubernetes/rbac.yaml, and a record of what they asked for.

A right is one verb on one resource, where it is granted: in a namespace, or anywhere (`*`). The rights of a
person are those of the roles bound to them in the manifest; the simulator enforces them, as a real server
would, and tells of each question.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import pathlib
from typing import TYPE_CHECKING, Any, NamedTuple

import requests
import yaml

from tpuctl.cli import main, rehearsal, wiring
from tpuctl.sim.kube import auth

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tpuctl.ops import context as contexts
    from tpuctl.sim.kube import access, rbac

Object = dict[str, Any]

FOLDER = pathlib.Path(__file__).parents[2] / "configs" / "kubernetes"
APPLIED = ("namespace.yaml", "serviceaccount.yaml", "rbac.yaml")
HOME = "tpuctl-system"
ANYWHERE = "*"
TIMEOUT_S = 20
RBAC = "rbac.authorization.k8s.io"
PATHS = {
    "Namespace": "/api/v1/namespaces",
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "ClusterRole": f"/apis/{RBAC}/v1/clusterroles",
    "ClusterRoleBinding": f"/apis/{RBAC}/v1/clusterrolebindings",
    "Role": f"/apis/{RBAC}/v1/namespaces/{{}}/roles",
    "RoleBinding": f"/apis/{RBAC}/v1/namespaces/{{}}/rolebindings",
}


class Right(NamedTuple):
    """One verb on one resource, in one namespace or anywhere."""

    verb: str
    group: str
    resource: str
    where: str

    def covers(self, asked: access.Attributes) -> bool:
        """Whether this right is what allows it."""
        same = (self.verb, self.group, self.resource) == (asked.verb, asked.group, asked.full_resource)
        return same and self.where in (ANYWHERE, asked.namespace)


class Person(NamedTuple):
    """Who somebody is towards the API server."""

    name: str
    groups: tuple[str, ...] = ()


VIEWER = Person("jo", ("tpu-viewers@example.com",))
OPERATOR = Person("ann", ("tpu-operators@example.com",))
LOOP = Person(f"system:serviceaccount:{HOME}:tpuctl-loop")


def documents() -> Iterator[Object]:
    """The objects of the manifests that say who may do what."""
    for name in APPLIED:
        yield from yaml.safe_load_all((FOLDER / name).read_text(encoding="utf-8"))


def rights_in(*roles: str) -> set[Right]:
    """The rights in the Roles and ClusterRoles of these names."""
    return {
        Right(verb, group, resource, document["metadata"].get("namespace", ANYWHERE))
        for document in documents()
        if document["kind"] in ("Role", "ClusterRole") and document["metadata"]["name"] in roles
        for rule in document["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def rights_of(person: Person) -> set[Right]:
    """The rights that bindings give to somebody."""
    bound = [
        document["roleRef"]["name"]
        for document in documents()
        if document["kind"].endswith("Binding")
        and any(_is(subject, person) for subject in document["subjects"])
    ]
    assert bound, person
    return rights_in(*bound)


def _is(subject: Object, person: Person) -> bool:
    if subject["kind"] == "ServiceAccount":
        return person.name == f"system:serviceaccount:{subject['namespace']}:{subject['name']}"
    return subject["kind"] == "Group" and subject["name"] in person.groups


@dataclasses.dataclass(frozen=True)
class Done:
    """What a run of the program left."""

    status: int
    out: str
    err: str


class Stage:
    """A simulated fleet with the manifests applied. Nobody is at work on it but the people of the test."""

    def __init__(self, scene: rehearsal.Rehearsal, folder: pathlib.Path) -> None:
        self.scene = scene
        self.asked: list[tuple[str, access.Attributes, bool]] = []
        """Who asked for what, and whether it was allowed."""
        self._folder = folder
        for document in documents():
            self._post(PATHS[document["kind"]].format(document["metadata"].get("namespace", "")), document)
        scene.simulator.call(lambda: scene.simulator.world.kube.audit.append(self._hear))

    def _hear(self, identity: auth.Identity, asked: access.Attributes, decision: rbac.Decision) -> None:
        self.asked.append((identity.user, asked, decision.allowed))

    def heard_of(self, person: Person) -> list[access.Attributes]:
        """What somebody asked for; nothing of it was refused."""
        refused = [asked for name, asked, allowed in self.asked if name == person.name and not allowed]
        assert refused == []
        return [asked for name, asked, _ in self.asked if name == person.name]

    def refused(self, person: Person) -> list[tuple[str, str]]:
        """(verb, resource) of what somebody was refused."""
        return [
            (asked.verb, asked.full_resource)
            for name, asked, allowed in self.asked
            if name == person.name and not allowed
        ]

    @contextlib.contextmanager
    def acting_as(self, person: Person) -> Iterator[None]:
        """Inside, commands reach the cluster with this person's token."""
        context = dataclasses.replace(self.scene.context, kubeconfig=str(self._kubeconfig(person)))
        with self._using(context):
            yield

    @contextlib.contextmanager
    def _using(self, context: contexts.Context) -> Iterator[None]:
        ports = wiring.connect(context, rehearsal.DrivenClock(self.scene.simulator))
        with wiring.using(ports, context):
            yield

    def _kubeconfig(self, person: Person) -> pathlib.Path:
        config = json.loads(self.scene.kubeconfig.read_text(encoding="utf-8"))
        config["users"][0]["user"]["token"] = self._token(person)
        path = self._folder / person.name.rpartition(":")[2]
        path.write_text(json.dumps(config), encoding="utf-8")
        return path

    def _token(self, person: Person) -> str:
        world = self.scene.simulator.world
        if not person.groups:
            return self._account_token(person)
        token = f"token-of-{person.name}"
        identity = auth.known(person.name, *person.groups)
        self.scene.simulator.call(lambda: world.identities.tokens.__setitem__(token, identity))
        return token

    def _account_token(self, person: Person) -> str:
        """As `kubectl create token` asks for it."""
        namespace, name = person.name.split(":")[2:]
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        request["spec"] = {"expirationSeconds": 30 * 86_400}
        answer = self._post(f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token", request)
        return str(answer["status"]["token"])

    def _post(self, path: str, document: Object) -> Object:
        """As an administrator."""
        simulator = self.scene.simulator
        answer = requests.post(
            f"{simulator.url}{path}",
            json=document,
            headers={"Authorization": f"Bearer {simulator.token}"},
            timeout=TIMEOUT_S,
        )
        assert answer.status_code == 201, answer.text
        created: Object = answer.json()
        return created

    def tpuctl(self, *arguments: str) -> Done:
        """Run the program, in a home of its own."""
        out, err = io.StringIO(), io.StringIO()
        status = main.main(
            arguments,
            program="tpuctl",
            env={"HOME": str(self._folder), "TERM": "dumb"},
            cwd=self._folder,
            stdin=io.StringIO(),
            stdout=out,
            stderr=err,
        )
        return Done(status, out.getvalue(), err.getvalue())

"""Roles and bindings: what they allow, and how a refusal reads.

Expected texts and matches are those that Kubernetes documents for its RBAC authorizer.
"""

from __future__ import annotations

import dataclasses

import pytest

from tpuctl.sim import clock, store
from tpuctl.sim.kube import access, auth, bootstrap, errors, rbac, service_accounts, targets

RBAC = "rbac.authorization.k8s.io"
SLICES = "accelerator.gke.io"


def rule(**fields):
    """A rule about pods unless `fields` say otherwise."""
    return {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], **fields}


def asked(verb="get", resource="pods", **fields):
    name, _, subresource = resource.partition("/")
    return access.Attributes(verb=verb, resource=name, subresource=subresource, **fields)


class Cluster:
    """A store with roles and bindings, as an administrator would write them."""

    def __init__(self):
        self.store = store.Store(clock.Clock())
        self.policy = rbac.Rbac(self.store)

    def role(self, name, *rules, namespace=""):
        kind, key = ("Role", rbac.ROLES) if namespace else ("ClusterRole", rbac.CLUSTER_ROLES)
        self._create(key, kind, name, namespace, rules=list(rules))

    def bind(self, role, *subjects, namespace="", kind="ClusterRole", name=None):
        ref = {"apiGroup": RBAC, "kind": kind, "name": role}
        binding, key = "ClusterRoleBinding", rbac.CLUSTER_ROLE_BINDINGS
        if namespace:
            binding, key = "RoleBinding", rbac.ROLE_BINDINGS
        self._create(key, binding, name or role, namespace, roleRef=ref, subjects=list(subjects))

    def _create(self, key, kind, name, namespace, **rest):
        metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
        head = {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": metadata}
        self.store.create(key, {**head, **rest})

    def allows(self, identity, question):
        return self.policy.decide(identity, question).allowed


def user(name):
    return {"kind": "User", "apiGroup": RBAC, "name": name}


def group(name):
    return {"kind": "Group", "apiGroup": RBAC, "name": name}


def account(name, namespace):
    return {"kind": "ServiceAccount", "name": name, "namespace": namespace}


@pytest.fixture
def cluster():
    return Cluster()


ANN = auth.known("ann", "admins")


# One rule

READ_METRICS = {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}


@pytest.mark.parametrize(
    ("given", "question", "allowed"),
    [
        (rule(), asked(), True),
        (rule(), asked("list"), False),
        (rule(verbs=["*"]), asked("deletecollection"), True),
        (rule(), asked(group="batch"), False),
        (rule(apiGroups=["*"]), asked(group="batch"), True),
        (rule(apiGroups=[]), asked(), False),
        (rule(), asked(resource="nodes"), False),
        (rule(resources=["nodes", "pods"]), asked(), True),
        (rule(), asked(resource="pods/binding"), False),
        (rule(resources=["pods/binding"]), asked(resource="pods/binding"), True),
        (rule(resources=["pods/binding"]), asked(), False),
        (rule(resources=["pods/*"]), asked(resource="pods/binding"), False),
        (rule(resources=["*"]), asked(resource="pods/binding"), True),
        (rule(resources=["*/status"]), asked(resource="nodes/status"), True),
        (rule(resources=["*/status"]), asked(resource="nodes"), False),
        (rule(resourceNames=["a"]), asked(name="a"), True),
        (rule(resourceNames=["a"]), asked(name="b"), False),
        (rule(resourceNames=["a"], verbs=["create"]), asked("create"), False),
        (rule(), asked(namespace="anywhere", name="a"), True),
        (READ_METRICS, access.Attributes(verb="get", path="/metrics"), True),
        (READ_METRICS, access.Attributes(verb="post", path="/metrics"), False),
        (READ_METRICS, access.Attributes(verb="get", path="/metrics/"), False),
        ({**READ_METRICS, "nonResourceURLs": ["/apis/*"]}, asked("get", path="/apis/batch"), True),
        ({**READ_METRICS, "nonResourceURLs": ["/apis/*"]}, asked("get", path="/apis"), False),
        ({**READ_METRICS, "nonResourceURLs": ["*"]}, asked("get", path="/healthz"), True),
        (READ_METRICS, asked(), False),
        (rule(resources=["*"], apiGroups=["*"]), access.Attributes(verb="get", path="/metrics"), False),
    ],
)
def test_a_rule_allows_what_it_names(given, question, allowed):
    assert rbac.allows(given, question) is allowed


# Bindings


def test_nothing_is_allowed_without_a_binding(cluster):
    cluster.role("reader", rule())
    assert not cluster.allows(ANN, asked())


def test_a_cluster_role_binding_is_good_everywhere(cluster):
    cluster.role("reader", rule())
    cluster.bind("reader", user("ann"))
    decision = cluster.policy.decide(ANN, asked(namespace="a"))
    assert decision.allowed
    assert decision.reason == (
        'RBAC: allowed by ClusterRoleBinding "reader" of ClusterRole "reader" to User "ann"'
    )
    assert cluster.allows(ANN, asked())
    assert not cluster.allows(auth.known("bob"), asked())


def test_a_role_binding_is_good_in_its_namespace(cluster):
    cluster.role("reader", rule(), namespace="a")
    cluster.bind("reader", group("admins"), namespace="a", kind="Role")
    decision = cluster.policy.decide(ANN, asked(namespace="a"))
    assert decision.reason == 'RBAC: allowed by RoleBinding "reader/a" of Role "reader" to Group "admins"'
    assert not cluster.allows(ANN, asked(namespace="b"))
    assert not cluster.allows(ANN, asked())
    assert not cluster.allows(auth.known("ann"), asked(namespace="a"))


def test_a_cluster_role_can_be_granted_in_one_namespace(cluster):
    cluster.role("reader", rule(resources=["nodes", "pods"]))
    cluster.bind("reader", user("ann"), namespace="a")
    assert cluster.allows(ANN, asked(namespace="a"))
    assert not cluster.allows(ANN, asked(resource="nodes"))


def test_service_accounts_are_meant_by_namespace_and_name(cluster):
    cluster.role("reader", rule())
    cluster.bind("reader", account("loop", "home"))
    loop = auth.Identity(user="system:serviceaccount:home:loop", groups=service_accounts.groups("home"))
    assert cluster.policy.decide(loop, asked()).reason.endswith('to ServiceAccount "loop/home"')
    other = auth.Identity(user="system:serviceaccount:away:loop", groups=service_accounts.groups("away"))
    assert not cluster.allows(other, asked())


def test_permissions_add_up(cluster):
    cluster.role("reader", rule())
    cluster.role("writer", rule(verbs=["update"]))
    cluster.bind("reader", user("ann"))
    cluster.bind("writer", group("admins"))
    assert [cluster.allows(ANN, asked(verb)) for verb in ("get", "update", "delete")] == [True, True, False]


def test_a_missing_role_gives_nothing_and_is_mentioned(cluster):
    cluster.bind("gone", user("ann"))
    cluster.bind("lost", user("ann"), namespace="a", kind="Role")
    assert cluster.policy.decide(ANN, asked()).reason == f'RBAC: clusterrole.{RBAC} "gone" not found'
    with pytest.raises(errors.ApiError) as caught:
        cluster.policy.check(ANN, asked(namespace="a", name="x"))
    assert caught.value.message == (
        'pods "x" is forbidden: User "ann" cannot get resource "pods" in API group "" in the namespace "a": '
        f'RBAC: [clusterrole.{RBAC} "gone" not found, role.{RBAC} "lost" not found]'
    )


def test_masters_need_no_role(cluster):
    assert cluster.policy.decide(auth.admin(), asked("delete", "nodes")) == rbac.Decision(allowed=True)


def test_a_role_that_is_taken_away_counts_at_once(cluster):
    cluster.role("reader", rule())
    cluster.bind("reader", user("ann"))
    assert cluster.allows(ANN, asked())
    cluster.store.delete(rbac.CLUSTER_ROLE_BINDINGS, None, "reader")
    assert not cluster.allows(ANN, asked())


# Refusals


@pytest.mark.parametrize(
    ("question", "message", "details"),
    [
        (
            asked("list", "nodes"),
            (
                'nodes is forbidden: User "ann" cannot list resource "nodes" in API group "" at the '
                "cluster scope"
            ),
            {"kind": "nodes"},
        ),
        (
            asked("delete", "slices", group=SLICES, name="train-a"),
            (
                'slices.accelerator.gke.io "train-a" is forbidden: User "ann" cannot delete resource '
                '"slices" in API group "accelerator.gke.io" at the cluster scope'
            ),
            {"name": "train-a", "group": SLICES, "kind": "slices"},
        ),
        (
            asked("create", "pods/binding", namespace="default", name="p"),
            (
                'pods "p" is forbidden: User "ann" cannot create resource "pods/binding" in API group "" in '
                'the namespace "default"'
            ),
            {"name": "p", "kind": "pods"},
        ),
        (
            access.Attributes(verb="get", path="/metrics"),
            'forbidden: User "ann" cannot get path "/metrics"',
            {},
        ),
    ],
)
def test_a_refusal_reads_as_a_real_one(cluster, question, message, details):
    with pytest.raises(errors.ApiError) as caught:
        cluster.policy.check(ANN, question)
    assert caught.value.code == 403
    assert caught.value.status() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": "Forbidden",
        "details": details,
        "code": 403,
    }


def test_names_are_shown_without_markup(cluster):
    with pytest.raises(errors.ApiError, match='User "&lt;b&gt;&amp;"'):
        cluster.policy.check(auth.known("<b>&"), asked())


# What a request is about


@pytest.mark.parametrize(
    ("method", "path", "query", "expected"),
    [
        ("GET", "/api/v1/nodes", {}, asked("list", "nodes")),
        ("GET", "/api/v1/nodes/a", {}, asked("get", "nodes", name="a")),
        ("GET", "/api/v1/nodes", {"watch": "true"}, asked("watch", "nodes")),
        ("GET", "/api/v1/nodes", {"fieldSelector": "metadata.name=a"}, asked("list", "nodes", name="a")),
        ("GET", "/api/v1/nodes", {"fieldSelector": "metadata.name!=a"}, asked("list", "nodes")),
        (
            "GET",
            "/api/v1/pods",
            {"fieldSelector": "spec.nodeName=n,metadata.name==a"},
            asked("list", name="a"),
        ),
        ("DELETE", "/api/v1/namespaces/home/pods", {}, asked("deletecollection", namespace="home")),
        ("POST", "/api/v1/namespaces", {}, asked("create", "namespaces")),
        ("GET", "/api/v1/namespaces/home", {}, asked("get", "namespaces", namespace="home", name="home")),
        (
            "PUT",
            "/api/v1/namespaces/home/status",
            {},
            asked("update", "namespaces/status", namespace="home", name="home"),
        ),
        (
            "POST",
            "/api/v1/namespaces/home/serviceaccounts/loop/token",
            {},
            asked("create", "serviceaccounts/token", namespace="home", name="loop"),
        ),
    ],
)
def test_what_a_request_asks_for(method, path, query, expected):
    target = targets.parse_path(path)
    verb = targets.verb_of(method, target, query)
    found = access.Attributes.of_target(verb, target, query)
    assert found == dataclasses.replace(expected, version="v1")


# Writing roles oneself


@pytest.mark.parametrize(
    ("resource", "verb"), [("roles", "escalate"), ("clusterroles", "escalate"), ("rolebindings", "bind")]
)
def test_who_writes_roles_needs_the_verb_for_it(cluster, resource, verb):
    may_write = rule(apiGroups=[RBAC], resources=[resource], verbs=["create", "delete"])
    cluster.role("writer", may_write)
    cluster.bind("writer", user("ann"))
    with pytest.raises(errors.ApiError) as caught:
        cluster.policy.check(ANN, asked("create", resource, group=RBAC))
    assert (caught.value.code, caught.value.reason) == (501, "NotImplemented")
    assert cluster.policy.check(ANN, asked("delete", resource, group=RBAC)).allowed
    cluster.role("free", rule(apiGroups=[RBAC], resources=[resource], verbs=[verb]))
    cluster.bind("free", user("ann"))
    assert cluster.policy.check(ANN, asked("create", resource, group=RBAC)).allowed


# What every cluster has


def test_everyone_who_signed_in_may_discover_and_ask_about_themselves(cluster):
    bootstrap.install(cluster.store)
    somebody, nobody = auth.known("somebody"), auth.ANONYMOUS
    for path in ("/api", "/apis/batch/v1", "/openapi/v3", "/version", "/readyz"):
        assert cluster.allows(somebody, access.Attributes.of_path("GET", path)), path
    for path, allowed in (("/apis", False), ("/version", True), ("/healthz", True), ("/openapi/v2", False)):
        assert cluster.allows(nobody, access.Attributes.of_path("GET", path)) is allowed, path
    about = asked("create", "selfsubjectaccessreviews", group="authorization.k8s.io")
    assert cluster.allows(somebody, about)
    assert not cluster.allows(nobody, about)
    others = asked("create", "subjectaccessreviews", group="authorization.k8s.io")
    assert not cluster.allows(somebody, others)


def test_default_roles_are_stored_once_and_draw_no_luck(cluster):
    before = store.Store(clock.Clock()).new_uid()
    bootstrap.install(cluster.store)
    revision = cluster.store.revision
    bootstrap.install(cluster.store)
    assert cluster.store.revision == revision
    assert cluster.store.new_uid() == before
    found = cluster.store.get(rbac.CLUSTER_ROLES, None, "cluster-admin")
    assert found["rules"][0] == {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}

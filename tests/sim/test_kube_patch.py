"""Patches: the directives of strategic merge patch, and JSON patch at its edges."""

import pytest

from tpuctl.sim.kube import errors, patch, shapes

POD = shapes.built_in("Pod", ("", ""))
NODE = shapes.built_in("Node", ("", ""))


def containers(*names):
    return {"spec": {"containers": [{"name": name, "image": f"{name}:1"} for name in names]}}


def order(obj):
    return [item["name"] for item in obj["spec"]["containers"]]


def test_items_are_merged_by_key_and_new_ones_appended():
    changed = patch.strategic_merge_patch(
        containers("a", "b"),
        {"spec": {"containers": [{"name": "b", "image": "b:2"}, {"name": "c", "image": "c:1"}]}},
        POD,
    )
    assert [item["image"] for item in changed["spec"]["containers"]] == ["a:1", "b:2", "c:1"]


def test_an_item_can_be_deleted_and_a_list_replaced():
    deleted = patch.strategic_merge_patch(
        containers("a", "b"), {"spec": {"containers": [{"name": "a", "$patch": "delete"}]}}, POD
    )
    assert order(deleted) == ["b"]
    replaced = patch.strategic_merge_patch(
        containers("a", "b"), {"spec": {"containers": [{"$patch": "replace"}, {"name": "z"}]}}, POD
    )
    assert order(replaced) == ["z"]


@pytest.mark.parametrize(
    ("wanted", "result"),
    [
        (["c", "a"], ["b", "c", "a"]),
        (["b", "a", "c"], ["b", "a", "c"]),
        (["new", "a"], ["new", "a", "b", "c"]),
    ],
)
def test_the_order_the_client_asks_for(wanted, result):
    body = {"spec": {"$setElementOrder/containers": [{"name": name} for name in wanted]}}
    if "new" in wanted:
        body["spec"]["containers"] = [{"name": "new"}]
    assert order(patch.strategic_merge_patch(containers("a", "b", "c"), body, POD)) == result


def test_retain_keys_drops_the_others():
    current = {"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}}
    body = {
        "spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]}
    }
    changed = patch.strategic_merge_patch(current, body, POD)
    assert changed["spec"]["volumes"] == [{"name": "v", "hostPath": {"path": "/x"}}]


def test_a_list_of_scalars_is_merged_only_where_the_type_says_so():
    current = {"metadata": {"finalizers": ["a", "b"]}, "spec": {"containers": [{"name": "c", "args": ["1"]}]}}
    body = {
        "metadata": {"finalizers": ["c"], "$deleteFromPrimitiveList/finalizers": ["a"]},
        "spec": {"containers": [{"name": "c", "args": ["2"]}]},
    }
    changed = patch.strategic_merge_patch(current, body, POD)
    assert changed["metadata"]["finalizers"] == ["b", "c"]
    assert changed["spec"]["containers"] == [{"name": "c", "args": ["2"]}]


def test_maps_are_merged_replaced_or_emptied():
    current = {"metadata": {"labels": {"a": "1", "b": "2"}}}
    merged = patch.strategic_merge_patch(current, {"metadata": {"labels": {"a": None, "c": "3"}}}, NODE)
    replaced = patch.strategic_merge_patch(
        current, {"metadata": {"labels": {"$patch": "replace", "z": "1"}}}, NODE
    )
    emptied = patch.strategic_merge_patch(current, {"metadata": {"labels": {"$patch": "delete"}}}, NODE)
    assert [each["metadata"]["labels"] for each in (merged, replaced, emptied)] == [
        {"b": "2", "c": "3"},
        {"z": "1"},
        {},
    ]
    assert current == {"metadata": {"labels": {"a": "1", "b": "2"}}}


def test_an_item_without_its_key_is_refused():
    with pytest.raises(errors.ApiError) as caught:
        patch.strategic_merge_patch(containers("a"), {"spec": {"containers": [{"image": "x"}]}}, POD)
    assert caught.value.code == 400


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "remove", "path": "/a/9"},
        {"op": "remove", "path": "/a/-"},
        {"op": "add", "path": "/a/3", "value": 1},
        {"op": "add", "path": "/a/x", "value": 1},
        {"op": "replace", "path": "/nope", "value": 1},
        {"op": "add", "path": "/a/0"},
        {"op": "move", "path": "/b"},
        {"op": "copy", "from": "/nope", "path": "/b"},
        {"op": "test", "path": "/a/0", "value": "1"},
        {"op": "merge", "path": "/a", "value": 1},
        {"op": "add", "path": "a", "value": 1},
        {"op": "replace", "path": "", "value": 1},
    ],
)
def test_json_patches_that_cannot_be_applied(operation):
    document = {"a": [1, 2]}
    with pytest.raises(errors.ApiError) as caught:
        patch.json_patch(document, [operation])
    assert caught.value.code == 422
    assert document == {"a": [1, 2]}


def test_json_patch_that_is_no_list():
    with pytest.raises(errors.ApiError) as caught:
        patch.json_patch({}, {"op": "add"})
    assert caught.value.code == 400


def test_json_patch_inserts_appends_and_escapes():
    document = {"a": [1, 2], "b/c": {"d~e": 0}}
    operations = [
        {"op": "add", "path": "/a/1", "value": 9},
        {"op": "add", "path": "/a/-", "value": 3},
        {"op": "replace", "path": "/b~1c/d~0e", "value": 5},
        {"op": "test", "path": "/a", "value": [1, 9, 2, 3]},
        {"op": "move", "from": "/a/0", "path": "/first"},
    ]
    assert patch.json_patch(document, operations) == {"a": [9, 2, 3], "b/c": {"d~e": 5}, "first": 1}

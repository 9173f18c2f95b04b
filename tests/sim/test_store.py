"""The object store: revisions, history, finalizers, writes that change nothing, the past of a list."""

import pytest

from tpuctl.sim import clock, store

SLICES = "slices.accelerator.gke.io"


@pytest.fixture
def world():
    return store.Store(clock.Clock(), seed=1)


def node(name, **labels):
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": {}}


def a_slice(name, finalizers=()):
    metadata = {"name": name, "finalizers": list(finalizers)} if finalizers else {"name": name}
    return {"kind": "Slice", "metadata": metadata, "spec": {"topology": "4x4x4"}}


def label(name, value):
    def change(obj):
        obj["metadata"]["labels"][name] = value

    return change


def names(objects):
    return [obj["metadata"]["name"] for obj in objects]


def revision(obj):
    return int(obj["metadata"]["resourceVersion"])


# What a write gives an object


def test_a_new_object_gets_what_the_server_sets(world):
    world.clock.advance(90)
    created = world.create(SLICES, a_slice("a"))
    assert created["metadata"]["creationTimestamp"] == "2026-01-05T08:01:30Z"
    assert created["metadata"]["generation"] == 1
    assert revision(created) == world.revision == store.FIRST_REVISION + 1
    assert len(created["metadata"]["uid"]) == 36


def test_types_without_generation_have_none(world):
    assert "generation" not in world.create("nodes", node("n"))["metadata"]


def test_the_callers_object_is_copied(world):
    given = node("n", pool="p0")
    created = world.create("nodes", given)
    given["metadata"]["labels"]["pool"] = "p1"
    assert created["metadata"]["labels"] == {"pool": "p0"}
    assert "uid" not in given["metadata"]


def test_one_seed_gives_one_set_of_uids():
    def uids(seed):
        fresh = store.Store(clock.Clock(), seed=seed)
        return [fresh.create("nodes", node(name))["metadata"]["uid"] for name in ("a", "b")]

    assert uids(1) == uids(1)
    assert len(set(uids(1)) | set(uids(2))) == 4


def test_a_name_can_be_taken_once(world):
    world.create("nodes", node("n"))
    with pytest.raises(store.AlreadyExists):
        world.create("nodes", node("n"))
    world.create(SLICES, a_slice("n"))


def test_a_stale_revision_is_a_conflict(world):
    old = world.create("nodes", node("n"))
    world.mutate("nodes", None, "n", label("a", "1"))
    with pytest.raises(store.Conflict):
        world.replace("nodes", old)
    assert world.get("nodes", None, "n")["metadata"]["labels"] == {"a": "1"}


def test_missing_objects_are_said_to_be_missing(world):
    assert world.get("nodes", None, "n") is None
    with pytest.raises(store.NotFound):
        world.replace("nodes", node("n"))
    with pytest.raises(store.NotFound):
        world.mutate("nodes", None, "n", label("a", "1"))
    with pytest.raises(store.NotFound):
        world.delete("nodes", None, "n")


def test_generation_counts_changes_of_the_spec_only(world):
    world.create(SLICES, a_slice("a"))
    labelled = world.mutate(SLICES, None, "a", lambda obj: obj["metadata"].update(labels={"x": "y"}))
    ready = world.mutate(SLICES, None, "a", lambda obj: obj.update(status={"conditions": []}))
    larger = world.mutate(SLICES, None, "a", lambda obj: obj["spec"].update(topology="4x4x8"))
    generations = [obj["metadata"]["generation"] for obj in (labelled, ready, larger)]
    assert generations == [1, 1, 2]


def test_binding_a_pod_is_no_new_generation(world):
    world.create("pods", {"metadata": {"name": "p", "namespace": "default"}, "spec": {"priority": 0}})
    bound = world.mutate("pods", "default", "p", lambda pod: pod["spec"].update(nodeName="n"))
    assert bound["metadata"]["generation"] == 1


def test_a_write_that_changes_nothing_is_none(world):
    events = []
    created = world.create("nodes", node("n", pool="p0"))
    world.subscribe("nodes", lambda *event: events.append(event))
    assert world.mutate("nodes", None, "n", label("pool", "p0")) is created
    assert world.replace("nodes", node("n", pool="p0") | {"metadata": dict(created["metadata"])}) is created
    assert world.revision == revision(created)
    assert events == []


def test_true_is_not_one(world):
    world.create("nodes", node("n") | {"spec": {"unschedulable": 1}})
    changed = world.mutate("nodes", None, "n", lambda obj: obj["spec"].update(unschedulable=True))
    assert changed["spec"]["unschedulable"] is True
    assert world.get("nodes", None, "n")["spec"]["unschedulable"] is True


def test_unchanged_parts_are_shared(world):
    before = world.create("nodes", node("n", pool="p0"))
    after = world.mutate("nodes", None, "n", lambda obj: obj["spec"].update(unschedulable=True))
    assert after["metadata"]["labels"] is before["metadata"]["labels"]
    assert before["spec"] == {}


def test_preview_stores_nothing(world):
    world.create(SLICES, a_slice("a"))
    shown = world.preview(SLICES, a_slice("a") | {"spec": {"topology": "8x8x8"}})
    assert shown["metadata"]["generation"] == 2
    assert world.get(SLICES, None, "a")["spec"] == {"topology": "4x4x4"}


# Lists


def test_lists_are_sorted_and_can_be_of_one_namespace(world):
    for namespace, name in (("b", "x"), ("a", "z"), ("a-b", "q"), ("a", "y")):
        world.create("configmaps", {"metadata": {"name": name, "namespace": namespace}})
    assert names(world.list("configmaps")) == ["y", "z", "q", "x"]
    assert names(world.list("configmaps", "a")) == ["y", "z"]
    assert world.list("configmaps", "none") == []


def test_bytes_of_an_object_are_made_once(world):
    created = world.create("nodes", node("n"))
    assert world.encoded(created) is world.encoded(created)
    changed = world.mutate("nodes", None, "n", label("a", "1"))
    assert b'"a":"1"' in world.encoded(changed)


# Deletion


def test_delete_without_finalizers_removes(world):
    world.create("nodes", node("n"))
    assert world.delete("nodes", None, "n") is None
    assert world.get("nodes", None, "n") is None
    assert world.list("nodes") == []


def test_a_finalizer_holds_the_object(world):
    world.create(SLICES, a_slice("a", ["x.io/y"]))
    world.clock.advance(5)
    marked = world.delete(SLICES, None, "a")
    assert marked["metadata"]["deletionTimestamp"] == "2026-01-05T08:00:05Z"
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 0
    assert marked["metadata"]["generation"] == 2
    world.clock.advance(5)
    assert world.delete(SLICES, None, "a") is marked
    world.remove_finalizer(SLICES, None, "a", "x.io/other")
    assert world.get(SLICES, None, "a") is marked
    world.remove_finalizer(SLICES, None, "a", "x.io/y")
    assert world.get(SLICES, None, "a") is None


def test_removing_a_finalizer_early_removes_no_object(world):
    world.create(SLICES, a_slice("a", ["x.io/y"]))
    world.remove_finalizer(SLICES, None, "a", "x.io/y")
    assert "finalizers" not in world.get(SLICES, None, "a")["metadata"]


def test_a_grace_period_marks_and_can_only_be_shortened(world):
    world.create("pods", {"metadata": {"name": "p", "namespace": "default"}, "spec": {}})
    marked = world.delete("pods", "default", "p", grace_s=30)
    assert marked["metadata"]["deletionTimestamp"] == "2026-01-05T08:00:30Z"
    assert world.delete("pods", "default", "p", grace_s=60)["metadata"]["deletionGracePeriodSeconds"] == 30
    assert world.delete("pods", "default", "p", grace_s=10)["metadata"]["deletionGracePeriodSeconds"] == 10
    changed = world.mutate("pods", "default", "p", lambda pod: pod.update(status={"phase": "Failed"}))
    assert world.get("pods", "default", "p") is changed
    assert world.delete("pods", "default", "p") is None
    assert world.get("pods", "default", "p") is None


# Following


def test_subscribers_hear_old_and_new_in_order(world):
    heard = []
    end = world.subscribe("nodes", lambda kind, old, new: heard.append((kind, old, new)))
    created = world.create("nodes", node("n"))
    changed = world.mutate("nodes", None, "n", label("a", "1"))
    world.delete("nodes", None, "n")
    end()
    world.create("nodes", node("m"))
    assert [event[0] for event in heard] == ["ADDED", "MODIFIED", "DELETED"]
    assert heard[0][1:] == (None, created)
    assert heard[1][1:] == (created, changed)
    assert heard[2][1] is changed
    assert revision(heard[2][2]) == revision(changed) + 1


def test_writes_of_a_subscriber_are_heard_after_the_write_that_caused_them(world):
    heard = []

    def follow(kind, _old, new):
        if kind == "ADDED":
            world.mutate("nodes", None, new["metadata"]["name"], label("seen", "1"))

    world.subscribe("nodes", follow)
    world.subscribe("nodes", lambda kind, _old, new: heard.append((kind, revision(new))))
    world.create("nodes", node("n"))
    assert heard == [("ADDED", world.revision - 1), ("MODIFIED", world.revision)]


def test_events_since(world):
    first = world.create("nodes", node("a"))
    world.create(SLICES, a_slice("s"))
    world.create("nodes", node("b"))
    assert [event.new["metadata"]["name"] for event in world.events_since("nodes", revision(first))] == ["b"]
    assert world.events_since("nodes", world.revision) == []
    assert world.events_since("nodes", world.revision + 100) == []


# The past


def test_a_snapshot_shows_the_list_as_it_was(world):
    for name in ("a", "b", "c"):
        world.create("nodes", node(name, round="1"))
    then = world.revision
    world.delete("nodes", None, "b")
    world.mutate("nodes", None, "c", label("round", "2"))
    world.create("nodes", node("aa"))
    world.create("nodes", node("b", round="3"))
    past = world.snapshot("nodes", then)
    assert names(past) == ["a", "b", "c"]
    assert [obj["metadata"]["labels"]["round"] for obj in past] == ["1", "1", "1"]
    assert names(world.snapshot("nodes", world.revision)) == ["a", "aa", "b", "c"]


def test_compaction_forgets_the_past_and_keeps_the_present(world):
    old = revision(world.create("nodes", node("a")))
    world.create("nodes", node("b"))
    world.compact()
    assert world.compacted == world.revision
    with pytest.raises(store.Expired):
        world.snapshot("nodes", old)
    with pytest.raises(store.Expired):
        world.events_since("nodes", old)
    assert names(world.snapshot("nodes", world.revision)) == ["a", "b"]
    assert world.events_since("nodes", world.revision) == []


def test_compaction_up_to_a_revision_keeps_what_is_later(world):
    middle = revision(world.create("nodes", node("a")))
    world.create("nodes", node("b"))
    world.compact(middle)
    assert names(world.snapshot("nodes", middle)) == ["a"]
    assert len(world.events_since("nodes", middle)) == 1
    with pytest.raises(store.Expired):
        world.check_kept(middle - 1)


def test_a_follower_is_expired_only_if_it_missed_something_of_its_own(world):
    seen = revision(world.create("nodes", node("a")))
    world.create(SLICES, a_slice("s"))
    world.compact()
    assert world.events_since("nodes", seen) == []
    with pytest.raises(store.Expired):
        world.check_kept(seen)


def test_history_is_bounded():
    small = store.Store(clock.Clock(), history=10)
    small.create("nodes", node("a"))
    for number in range(5000):
        small.mutate("nodes", None, "a", label("count", str(number)))
    assert small.compacted == small.revision - 10
    assert len(small.events_since("nodes", small.compacted)) == 10
    with pytest.raises(store.Expired):
        small.events_since("nodes", small.compacted - 1)


def test_small_invented_revisions_are_always_expired(world):
    with pytest.raises(store.Expired) as caught:
        world.check_kept(1)
    assert (caught.value.revision, caught.value.oldest) == (1, store.FIRST_REVISION)

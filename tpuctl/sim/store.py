"""The simulated cluster's objects, their revisions and their recent past.

One store holds every object of the Kubernetes half under a key (`nodes`, `slices.accelerator.gke.io`)
and a (namespace, name). Each write takes the next revision, which is the object's `resourceVersion`; the
last `history` writes are kept, so that a watch can start in the past and a paged list can be finished as
of the revision it began with. Older revisions are compacted: asking for them raises `Expired`.

Objects handed out are shared with the history and with other readers: never change one. `replace` and
`mutate` store a copy that shares every unchanged part with the object before it, which keeps 100,000
status updates of a block's nodes cheap. Call it from one thread only (the server's).
"""

from __future__ import annotations

import bisect
import collections
import datetime
import hashlib
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import orjson

from tpuctl.sim import history as histories

if TYPE_CHECKING:
    from tpuctl.sim import clock as clocks

Key = str
"""Plural, followed by "." and the group unless it is the core group."""
Json = dict[str, Any]
Objects = list[Json]
Identity = tuple[str, str]
"""(namespace or "", name); sorts as a real API server lists."""
Callback = Callable[[str, Json | None, Json | None], None]
"""Called with ("ADDED" | "MODIFIED" | "DELETED", old object, new object)."""

FIRST_REVISION = 1000
"""A cluster always has a past: small invented resourceVersions are answered as expired, not as known."""

WITHOUT_GENERATION = frozenset(
    {
        "configmaps",
        "events",
        "leases.coordination.k8s.io",
        "namespaces",
        "nodes",
        "serviceaccounts",
        "services",
        "clusterrolebindings.rbac.authorization.k8s.io",
        "clusterroles.rbac.authorization.k8s.io",
        "rolebindings.rbac.authorization.k8s.io",
        "roles.rbac.authorization.k8s.io",
    }
)
"""Types whose `metadata.generation` Kubernetes leaves unset."""

NAME_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""Letters of generated names; Kubernetes leaves out vowels so that no words appear."""


class StoreError(Exception):
    """A write or read that the store refuses."""

    def __init__(self, key: Key, identity: Identity, text: str) -> None:
        super().__init__(f"{key} {'/'.join(filter(None, identity))}: {text}")
        self.key = key
        self.identity = identity


class AlreadyExists(StoreError):
    """An object of that name is there (perhaps being deleted)."""


class NotFound(StoreError):
    """No object of that name."""


class Conflict(StoreError):
    """The object given carries a resourceVersion that is not the stored one."""


Expired = histories.Expired
Document = histories.Document
Event = histories.Event
Events = list[Event]


def copy(value: Any) -> Any:
    """Deep copy of a JSON value; several times faster than `copy.deepcopy` and never a `Document`."""
    if isinstance(value, dict):
        return {name: copy(item) for name, item in value.items()}
    if isinstance(value, list):
        return [copy(item) for item in value]
    return value


def timestamp(moment: datetime.datetime) -> str:
    """RFC 3339 in UTC with whole seconds, as Kubernetes writes `metav1.Time`."""
    return moment.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def identity(obj: Json) -> Identity:
    return obj["metadata"].get("namespace") or "", obj["metadata"]["name"]


class Store:
    """All objects of the simulated cluster."""

    def __init__(self, clock: clocks.Clock, *, seed: int = 0, history: int = 20_000) -> None:
        self.clock = clock
        self.revision = FIRST_REVISION
        """The last resourceVersion given out."""
        self._seed = seed
        self._drawn = 0
        self._history = histories.History(FIRST_REVISION, history)
        self._objects: dict[Key, dict[Identity, Document]] = collections.defaultdict(dict)
        self._order: dict[Key, list[Identity]] = collections.defaultdict(list)
        self._subscribers: dict[Key, list[Callback]] = collections.defaultdict(list)
        self._undelivered: collections.deque[tuple[Key, Event]] = collections.deque()
        self._delivering = False

    @property
    def compacted(self) -> int:
        """New watches and continued lists from a revision below this one are expired."""
        return self._history.compacted

    # Reading

    def get(self, key: Key, namespace: str | None, name: str) -> Json | None:
        """The object, or None. It is shared: do not change it."""
        return self._objects[key].get((namespace or "", name))

    def list(self, key: Key, namespace: str | None = None) -> Objects:
        """Objects of a key, in one namespace or in all, sorted by (namespace, name)."""
        objects = self._objects[key]
        order = self._order[key]
        if namespace:
            low = bisect.bisect_left(order, (namespace, ""))
            high = bisect.bisect_left(order, (namespace + "\0", ""))
            order = order[low:high]
        return [objects[item] for item in order]

    def events_since(self, key: Key, revision: int) -> Events:
        """Writes of a key after `revision`, oldest first. Raises `Expired` if one of them is forgotten."""
        return self._history.after(key, revision)

    def check_kept(self, revision: int) -> None:
        """Raise `Expired` if `revision` is compacted."""
        self._history.check_kept(revision)

    def snapshot(self, key: Key, revision: int) -> Objects:
        """Objects of a key as they were at `revision`, sorted. Raises `Expired`."""
        self.check_kept(revision)
        undo = self.events_since(key, revision)
        if not undo:
            return self.list(key)
        objects: dict[Identity, Json] = dict(self._objects[key])
        for event in reversed(undo):
            if event.old is None:
                objects.pop(identity(event.new), None)
            else:
                objects[identity(event.old)] = event.old
        return [objects[item] for item in sorted(objects)]

    def encoded(self, obj: Json) -> bytes:
        """JSON bytes of a stored object, kept so that a long list is a join."""
        if not isinstance(obj, Document):
            return orjson.dumps(obj)
        if obj.encoded is None:
            obj.encoded = orjson.dumps(obj)
        return obj.encoded

    # Writing

    def create(self, key: Key, obj: Json, *, initialised: bool = False) -> Json:
        """Store a new object with uid, time, generation and resourceVersion. Raises `AlreadyExists`.

        `initialised` says that `initialise` has been called for it.
        """
        new = _document(obj)
        place = identity(new)
        if place in self._objects[key]:
            raise AlreadyExists(key, place, "already exists")
        if not initialised:
            self.initialise(key, new)
        bisect.insort(self._order[key], place)
        self._commit(key, "ADDED", None, new)
        return new

    def initialise(self, key: Key, obj: Json) -> None:
        """Set, in place, the metadata that the server gives a new object (all but the resourceVersion)."""
        metadata = obj["metadata"]
        metadata["uid"] = self.new_uid()
        metadata["creationTimestamp"] = timestamp(self.clock.now())
        for name in ("generation", "deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion"):
            metadata.pop(name, None)
        if key not in WITHOUT_GENERATION:
            metadata["generation"] = 1

    def replace(self, key: Key, obj: Json) -> Json:
        """Store `obj` in place of the object of its name; nothing happens if they are equal.

        A resourceVersion in `obj` must be the stored one (`Conflict`). Taking the last finalizer from an
        object marked for deletion removes it. Raises `NotFound`.
        """
        old = self._existing(key, identity(obj))
        expected = obj["metadata"].get("resourceVersion") or old["metadata"]["resourceVersion"]
        if expected != old["metadata"]["resourceVersion"]:
            raise Conflict(key, identity(obj), "the object has been modified")
        return self._put(key, old, _document(obj))

    def preview(self, key: Key, obj: Json) -> Json:
        """What `replace` would store, with the generation it would have; nothing is stored."""
        old = self._existing(key, identity(obj))
        new = _document(obj)
        self._complete(key, old, new)
        return new

    def mutate(self, key: Key, namespace: str | None, name: str, change: Callable[[Json], None]) -> Json:
        """Apply `change` to a copy of the object and store it. Raises `NotFound`."""
        old = self._existing(key, (namespace or "", name))
        new = _document(old)
        change(new)
        return self._put(key, old, new)

    def delete(self, key: Key, namespace: str | None, name: str, *, grace_s: int = 0) -> Json | None:
        """Remove the object, or only mark it if it has finalizers or a grace period.

        Returns the marked object, or None if the object is gone. Raises `NotFound`.
        """
        old = self._existing(key, (namespace or "", name))
        if grace_s <= 0 and not _is_held(key, old):
            self._remove(key, old)
            return None
        return self._put(key, old, self.marked(old, grace_s=grace_s))

    def marked(self, obj: Json, *, grace_s: int = 0) -> Document:
        """A copy of `obj` marked for deletion. A second mark can bring the end nearer, not push it away."""
        new = _document(obj)
        metadata = new["metadata"]
        end = timestamp(self.clock.now() + datetime.timedelta(seconds=grace_s))
        if end >= metadata.get("deletionTimestamp", "9"):
            return new
        if "deletionTimestamp" not in metadata and "generation" in metadata:
            metadata["generation"] += 1
        metadata["deletionTimestamp"] = end
        metadata["deletionGracePeriodSeconds"] = grace_s
        return new

    def remove_finalizer(self, key: Key, namespace: str | None, name: str, finalizer: str) -> None:
        """Take one finalizer away; an object marked for deletion goes with its last one."""

        def change(obj: Json) -> None:
            kept = [item for item in obj["metadata"].get("finalizers", []) if item != finalizer]
            obj["metadata"].pop("finalizers", None)
            if kept:
                obj["metadata"]["finalizers"] = kept

        self.mutate(key, namespace, name, change)

    def compact(self, revision: int | None = None) -> None:
        """Forget the past before `revision` (default: all of it)."""
        self._history.compact(self.revision if revision is None else min(revision, self.revision))

    # Following

    def subscribe(self, key: Key, callback: Callback) -> Callable[[], None]:
        """Call `callback` after each write of a key; returns a function that ends it.

        Callbacks may write. Their own writes are delivered after the running delivery, so that every
        subscriber sees every key's writes in the order of their revisions.
        """
        self._subscribers[key].append(callback)
        return lambda: self._subscribers[key].remove(callback)

    # Random but seeded

    def new_uid(self) -> str:
        return str(uuid.UUID(bytes=self._draw()[:16], version=4))

    def new_suffix(self) -> str:
        """Five letters for `generateName`."""
        return "".join(NAME_ALPHABET[byte % len(NAME_ALPHABET)] for byte in self._draw()[:5])

    def _draw(self) -> bytes:
        self._drawn += 1
        return hashlib.sha256(f"{self._seed}/{self._drawn}".encode()).digest()

    # Inside

    def _existing(self, key: Key, place: Identity) -> Document:
        found = self._objects[key].get(place)
        if found is None:
            raise NotFound(key, place, "not found")
        return found

    def _put(self, key: Key, old: Document, new: Document) -> Json:
        self._complete(key, old, new)
        shared: Document = histories.share(old, new)
        if shared is old:
            return old
        if "deletionTimestamp" in new["metadata"] and _is_final(new["metadata"]) and not _is_held(key, new):
            self._remove(key, old, last=new)
        else:
            self._commit(key, "MODIFIED", old, new)
        return new

    def _complete(self, key: Key, old: Json, new: Json) -> None:
        new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        if "generation" in old["metadata"] and not _same_spec(key, old, new):
            new["metadata"]["generation"] = old["metadata"]["generation"] + 1

    def _remove(self, key: Key, old: Document, last: Document | None = None) -> None:
        """Take the object away; the event shows `last` (default: `old`) at the revision of the removal."""
        place = identity(old)
        del self._order[key][bisect.bisect_left(self._order[key], place)]
        gone = _document(last or old)
        self._commit(key, "DELETED", old, gone)

    def _commit(self, key: Key, kind: str, old: Document | None, new: Document) -> None:
        self.revision += 1
        # The metadata may be shared with `old` (see `history.share`), so it is replaced, not changed.
        new["metadata"] = {**new["metadata"], "resourceVersion": str(self.revision)}
        if kind == "DELETED":
            del self._objects[key][identity(new)]
        else:
            self._objects[key][identity(new)] = new
        if old is not None:
            old.encoded = None
        event = Event(self.revision, kind, old, new)
        self._history.record(key, event)
        self._undelivered.append((key, event))
        self._deliver()

    def _deliver(self) -> None:
        if self._delivering:
            return
        self._delivering = True
        try:
            while self._undelivered:
                key, event = self._undelivered.popleft()
                for callback in tuple(self._subscribers[key]):
                    callback(event.type, event.old, event.new)
        finally:
            self._delivering = False


def _document(obj: Json) -> Document:
    new = Document(copy(obj))
    new.encoded = None
    return new


def _is_final(metadata: Json) -> bool:
    """Whether nothing but finalizers holds the object: a grace period is ended by whoever runs the object."""
    return not metadata.get("deletionGracePeriodSeconds")


def _is_held(key: Key, obj: Json) -> bool:
    """Whether finalizers hold an object; a namespace has its own in its spec."""
    if key == "namespaces" and obj.get("spec", {}).get("finalizers"):
        return True
    return bool(obj["metadata"].get("finalizers"))


def _same_spec(key: Key, old: Json, new: Json) -> bool:
    """Whether everything outside metadata and status is equal; binding a pod to its node is not a change."""
    old_spec, new_spec = _spec(old), _spec(new)
    if key == "pods":
        old_spec["spec"] = {**old_spec.get("spec", {}), "nodeName": None}
        new_spec["spec"] = {**new_spec.get("spec", {}), "nodeName": None}
    return old_spec == new_spec


def _spec(obj: Json) -> Json:
    return {name: value for name, value in obj.items() if name not in ("metadata", "status")}

"""The garbage collector: what happens to objects when their owner is deleted.

Background (the usual way): they go after their owner went. Foreground: they go first, and a finalizer holds
the owner meanwhile. Orphan: a finalizer holds the owner until they no longer name it.
"""

from __future__ import annotations

import collections
import functools
from typing import TYPE_CHECKING

from tpuctl.sim.controllers import pod_status

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tpuctl.sim import store as stores

Place = tuple[str, str, str]
"""(key, namespace, name) of an object."""

ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"
KEYS = (
    "pods",
    "jobs.batch",
    "configmaps",
    "services",
    "leases.coordination.k8s.io",
    "nodes",
    "slices.accelerator.gke.io",
)
"""Types that can belong to another object, or own one."""


class GarbageCollector:
    """Looks after the objects of deleted owners."""

    def __init__(self, store: stores.Store, keys: Iterable[str] = KEYS) -> None:
        self._store = store
        self._owned: dict[str, dict[Place, None]] = collections.defaultdict(dict)
        """Uid of an owner -> what it owns."""
        self._held: dict[str, Place] = {}
        """Uid -> owner that waits, with its finalizer, for what it owns to go."""
        for key in keys:
            store.subscribe(key, functools.partial(self._changed, key))

    def _changed(self, key: str, kind: str, old: stores.Json | None, new: stores.Json | None) -> None:
        if kind == "DELETED" and old is not None:
            self._note(key, old, None)
            self._gone(old["metadata"]["uid"])
        elif new is not None:
            self._note(key, old, new)
            if "deletionTimestamp" in new["metadata"]:
                self._leaving(_place(key, new), new)

    def _note(self, key: str, old: stores.Json | None, new: stores.Json | None) -> None:
        """Keep the index of owners up to date."""
        before, after = _owners(old), _owners(new)
        known = old if old is not None else new
        if known is None or before == after:
            return
        place = _place(key, known)
        for uid in after - before:
            self._owned[uid][place] = None
        for uid in before - after:
            owned = self._owned.get(uid, {})
            owned.pop(place, None)
            if not owned:
                self._owned.pop(uid, None)
                self._release(uid)

    # Owners

    def _gone(self, uid: str) -> None:
        self._held.pop(uid, None)
        for place in list(self._owned.pop(uid, {})):
            self._collect(place, uid)

    def _leaving(self, place: Place, owner: stores.Json) -> None:
        finalizers, uid = owner["metadata"].get("finalizers", []), owner["metadata"]["uid"]
        if ORPHAN in finalizers:
            for owned in list(self._owned.get(uid, {})):
                self._disown(owned, uid)
            self._store.remove_finalizer(*place, ORPHAN)
        elif FOREGROUND in finalizers and uid not in self._held:
            self._held[uid] = place
            for owned in list(self._owned.get(uid, {})):
                self._collect(owned, uid)
            if uid not in self._owned:
                self._release(uid)

    def _release(self, uid: str) -> None:
        """Nothing belongs to this owner any more: if it was held for that, let it go."""
        place = self._held.pop(uid, None)
        if place is not None and self._store.get(*place) is not None:
            self._store.remove_finalizer(*place, FOREGROUND)

    # What belongs to them

    def _collect(self, place: Place, uid: str) -> None:
        obj = self._store.get(*place)
        # An object with another owner stays until that one goes too.
        if obj is None or _owners(obj) != {uid} or "deletionTimestamp" in obj["metadata"]:
            return
        self._store.delete(*place, grace_s=pod_status.grace_s(obj) if place[0] == "pods" else 0)

    def _disown(self, place: Place, uid: str) -> None:
        def disown(obj: stores.Json) -> None:
            owners = [one for one in obj["metadata"]["ownerReferences"] if one["uid"] != uid]
            del obj["metadata"]["ownerReferences"]
            if owners:
                obj["metadata"]["ownerReferences"] = owners

        if self._store.get(*place) is not None:
            self._store.mutate(*place, disown)


def _place(key: str, obj: stores.Json) -> Place:
    return key, obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def _owners(obj: stores.Json | None) -> set[str]:
    if obj is None:
        return set()
    return {owner["uid"] for owner in obj["metadata"].get("ownerReferences", [])}

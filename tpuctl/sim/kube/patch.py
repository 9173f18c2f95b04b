"""JSON patch (RFC 6902), JSON merge patch (RFC 7386) and Kubernetes' strategic merge patch."""

from __future__ import annotations

from typing import Any

from tpuctl.sim import store as stores
from tpuctl.sim.kube import errors, shapes

Json = dict[str, Any]

OPERATIONS = frozenset({"add", "remove", "replace", "move", "copy", "test"})
MAX_OPERATIONS = 10_000
PATCH, RETAIN, ORDER, DROP = (
    "$patch",
    "$retainKeys",
    "$setElementOrder/",
    "$deleteFromPrimitiveList/",
)


class _Inapplicable(Exception):
    """A JSON patch names a place that is not there, or its test fails."""


def json_patch(document: Json, operations: Any) -> Json:
    """Apply a JSON patch. Raises `ApiError`: 400 if malformed, 422 if it cannot be applied."""
    if not isinstance(operations, list) or not all(isinstance(item, dict) for item in operations):
        raise errors.bad_request("json: cannot unmarshal object into Go value of type jsonpatch.Patch")
    if len(operations) > MAX_OPERATIONS:
        raise errors.body_too_large(MAX_OPERATIONS)
    result = stores.copy(document)
    try:
        for operation in operations:
            result = _operate(result, operation)
    except _Inapplicable:
        raise errors.patch_test_failed() from None
    if not isinstance(result, dict):
        raise errors.patch_test_failed()
    return result


def _operate(document: Any, operation: Json) -> Any:
    kind, path = operation.get("op"), operation.get("path")
    if kind not in OPERATIONS or not isinstance(path, str):
        raise _Inapplicable
    if kind in {"move", "copy"}:
        source = operation.get("from")
        if not isinstance(source, str):
            raise _Inapplicable
        value = stores.copy(_find(document, _pointer(source)))
        if kind == "move":
            document = _remove(document, _pointer(source))
        return _add(document, _pointer(path), value)
    if kind == "remove":
        return _remove(document, _pointer(path))
    if "value" not in operation:
        raise _Inapplicable
    return _set(document, kind, _pointer(path), stores.copy(operation["value"]))


def _set(document: Any, kind: str, pointer: list[str], value: Any) -> Any:
    if kind == "test":
        if _find(document, pointer) != value:
            raise _Inapplicable
        return document
    if kind == "replace":
        _find(document, pointer)
        return _add(_remove(document, pointer), pointer, value) if pointer else value
    return _add(document, pointer, value)


def _pointer(path: str) -> list[str]:
    if path and not path.startswith("/"):
        raise _Inapplicable
    return [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]]


def _index(container: list[Any], part: str, *, adding: bool = False) -> int:
    if adding and part == "-":
        return len(container)
    if not part.isdigit() or int(part) > len(container) - (0 if adding else 1):
        raise _Inapplicable
    return int(part)


def _find(document: Any, pointer: list[str]) -> Any:
    for part in pointer:
        if isinstance(document, dict) and part in document:
            document = document[part]
        elif isinstance(document, list):
            document = document[_index(document, part)]
        else:
            raise _Inapplicable
    return document


def _add(document: Any, pointer: list[str], value: Any) -> Any:
    if not pointer:
        return value
    container = _find(document, pointer[:-1])
    if isinstance(container, dict):
        container[pointer[-1]] = value
    elif isinstance(container, list):
        container.insert(_index(container, pointer[-1], adding=True), value)
    else:
        raise _Inapplicable
    return document


def _remove(document: Any, pointer: list[str]) -> Any:
    _find(document, pointer)
    if not pointer:
        return None
    container = _find(document, pointer[:-1])
    del container[int(pointer[-1]) if isinstance(container, list) else pointer[-1]]
    return document


def merge_patch(document: Json, patch: Any) -> Json:
    """Apply a JSON merge patch: null removes, objects merge, everything else replaces."""
    if not isinstance(patch, dict):
        raise errors.bad_request(
            "json: cannot unmarshal the patch into Go value of type map[string]interface {}"
        )
    merged: Json = _merge(document, patch)
    return merged


def _merge(document: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    merged = dict(document) if isinstance(document, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = _merge(merged.get(name), value)
    return merged


def strategic_merge_patch(document: Json, patch: Any, shape: shapes.Shape) -> Json:
    """Apply a strategic merge patch: like a merge patch, but lists with a key are merged item by item."""
    if not isinstance(patch, dict):
        raise errors.bad_request(
            "json: cannot unmarshal the patch into Go value of type map[string]interface {}"
        )
    return _merge_maps(document, patch, shape)


def _merge_maps(document: Json, patch: Json, shape: shapes.Shape) -> Json:
    directive = patch.get(PATCH)
    if directive == "replace":
        return {name: value for name, value in patch.items() if name != PATCH}
    if directive == "delete":
        return {}
    if directive not in {None, "merge"}:
        raise errors.bad_request(f"unknown patch type: {directive}")
    retained = patch.get(RETAIN)
    merged = {name: value for name, value in document.items() if retained is None or name in retained}
    for name, value in patch.items():
        if not name.startswith("$"):
            _merge_field(merged, name, value, patch, shape.field(name) or shapes.ANY)
    for name, value in patch.items():
        _apply_directive(merged, name, value, patch, shape)
    return merged


def _merge_field(merged: Json, name: str, value: Any, patch: Json, shape: shapes.Shape) -> None:
    current = merged.get(name)
    if value is None:
        merged.pop(name, None)
    elif isinstance(value, dict):
        merged[name] = _merge_maps(current if isinstance(current, dict) else {}, value, shape)
    elif isinstance(value, list):
        order = patch.get(f"{ORDER}{name}")
        merged[name] = _merge_lists(current if isinstance(current, list) else [], value, shape, order)
    else:
        merged[name] = value


def _apply_directive(merged: Json, name: str, value: Any, patch: Json, shape: shapes.Shape) -> None:
    """Directives on a list that stand beside it in the patch, with or without the list itself."""
    if name.startswith(DROP):
        field = name.removeprefix(DROP)
        kept = [item for item in merged.get(field, []) if item not in value]
        merged[field] = kept
    elif name.startswith(ORDER) and name.removeprefix(ORDER) not in patch:
        field = name.removeprefix(ORDER)
        key = shapes.STRATEGIC_KEYS.get((shape.field(field) or shapes.ANY).place)
        if field in merged:
            merged[field] = _ordered(merged[field], merged[field], value, key)


def _merge_lists(current: list[Any], patch: list[Any], shape: shapes.Shape, order: Any) -> list[Any]:
    key = shapes.STRATEGIC_KEYS.get(shape.place)
    if key is not None:
        return _merge_keyed(current, patch, shape, key, order)
    if shape.is_set:
        merged = [*current, *(item for item in patch if item not in current)]
        return _ordered(merged, current, order, None) if order else merged
    return [item for item in patch if not (isinstance(item, dict) and PATCH in item)]


def _merge_keyed(
    current: list[Any], patch: list[Any], shape: shapes.Shape, key: str, order: Any
) -> list[Any]:
    if not all(isinstance(item, dict) for item in [*patch, *current]):
        raise errors.bad_request(f"cannot merge a list of {shape.element} with something else")
    if any(item.get(PATCH) == "replace" for item in patch):
        return [item for item in patch if item.get(PATCH) != "replace"]
    merged = list(current)
    for item in patch:
        if key not in item:
            raise errors.bad_request(f"map: {item} does not contain declared merge key: {key}")
        place = next((index for index, old in enumerate(merged) if old.get(key) == item[key]), None)
        if item.get(PATCH) == "delete":
            merged = [old for old in merged if old.get(key) != item[key]]
        elif place is None:
            merged.append(_merge_maps({}, item, shape.item()))
        else:
            merged[place] = _merge_maps(merged[place], item, shape.item())
    return _ordered(merged, current, order, key) if order else merged


def _ordered(merged: list[Any], current: list[Any], order: list[Any], key: str | None) -> list[Any]:
    """Items in the order that the client asks for; others stay before their old successors."""

    def mark(item: Any) -> Any:
        return item.get(key) if key is not None and isinstance(item, dict) else item

    wanted = {mark(item): place for place, item in enumerate(order)}
    before = {mark(item): place for place, item in enumerate(current)}
    others = [item for item in merged if mark(item) not in wanted]
    result: list[Any] = []
    for item in sorted(
        (item for item in merged if mark(item) in wanted), key=lambda item: wanted[mark(item)]
    ):
        place = before.get(mark(item), -1)
        while others and before.get(mark(others[0]), len(before)) < place:
            result.append(others.pop(0))
        result.append(item)
    return [*result, *others]

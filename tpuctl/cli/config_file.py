"""Configuration files: YAML read strictly, with the line of every value.

An unknown key, a key twice, or a value of the wrong kind is an error that names the line: a setting that is
silently ignored is worse than none.
"""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from tpuctl.model import errors

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable, Collection, Iterator, Mapping

    import yaml

_CONTEXT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]*", re.ASCII)
_MAPPING = "tag:yaml.org,2002:map"
_SEQUENCE = "tag:yaml.org,2002:seq"
_NULL = "tag:yaml.org,2002:null"
_TRUE = ("1", "true", "yes", "on")
_FALSE = ("0", "false", "no", "off")


class ConfigError(errors.UsageError):
    """A setting that cannot be read; the message begins with where it stands."""


class Value(NamedTuple):
    """A setting and where it came from: `FILE:LINE`, the name of a variable or an option, or `built-in`."""

    value: Any
    origin: str


class Key(NamedTuple):
    """A key that a file may hold: how its YAML value and its text in a variable are read."""

    from_yaml: Callable[[Any], Any]
    from_text: Callable[[str], Any]
    variable: str
    """The environment variable that overrides it."""


# -- kinds of values; each raises ValueError with what was expected --------------------------------------


def text(value: Any) -> str:
    """A text that is not empty; YAML turns bare words like `no` or `12` into something else."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError("expected a text (in quotes if it looks like a number or yes/no)")
    return value


def texts(value: Any) -> tuple[str, ...]:
    """A list of texts."""
    if not isinstance(value, list):
        raise ValueError("expected a list of texts")  # noqa: TRY004 - all kinds complain alike
    return tuple(text(item) for item in value)


def texts_of(value: str) -> tuple[str, ...]:
    """The list in a variable: texts with commas between, no blanks inside one, none empty."""
    parts = tuple(part.strip() for part in value.split(","))
    if any(not part or len(part.split()) > 1 for part in parts):
        raise ValueError("expected texts with commas between, for example a,b")
    return parts


def number(value: Any) -> float:
    """A number above 0."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
        raise ValueError("expected a number above 0")
    return float(value)


def number_of(value: str) -> float:
    """The same, from a variable."""
    try:
        return number(float(value))
    except ValueError:
        raise ValueError("expected a number above 0") from None


def flag(value: Any) -> bool:
    """true or false."""
    if not isinstance(value, bool):
        raise ValueError("expected true or false")  # noqa: TRY004
    return value


def flag_of(value: str) -> bool:
    """The same, from a variable: 1, true, yes, on, or 0, false, no, off."""
    if value.lower() not in _TRUE + _FALSE:
        raise ValueError(f"expected one of {', '.join(_TRUE + _FALSE)}")
    return value.lower() in _TRUE


def choice(*allowed: str) -> Callable[[Any], str]:
    """A reader of one of the `allowed` words."""

    def read(value: Any) -> str:
        if value not in allowed:
            raise ValueError(f"expected one of {', '.join(allowed)}")
        return str(value)

    return read


def context_name(value: Any) -> str:
    """A name that also serves in file names."""
    if not isinstance(value, str) or not _CONTEXT_NAME.fullmatch(value):
        raise ValueError("expected a name of letters, digits, '.', '_', '@' and '-'")
    return value


# -- reading ---------------------------------------------------------------------------------------------


class File(NamedTuple):
    """What one file says."""

    path: pathlib.Path
    settings: Mapping[str, Value]
    """`currentContext`, `defaults.output`, ..."""
    contexts: Mapping[str, Mapping[str, Value]]
    """Name -> `project`, `endpoints.kubernetes`, ...; the origin of the context itself is under ''."""


def read(path: pathlib.Path, settings: Mapping[str, Key], context_keys: Mapping[str, Key]) -> File:
    """Read a configuration file; raises ConfigError for anything it does not understand."""
    place = _Place(path)
    root = compose(path)
    found: dict[str, Value] = {}
    contexts: dict[str, Mapping[str, Value]] = {}
    known = {key.partition(".")[0] for key in settings} | {"contexts"}
    for key, line, node in place.entries(root, known, ""):
        if key == "contexts":
            for name, name_line, body in place.entries(node, None, "contexts"):
                place.checked(context_name, name, name_line, f"context '{name}'")
                origin = Value(None, place.at(name_line))
                contexts[name] = {"": origin, **place.leaves(body, context_keys, "")}
        else:
            found |= place.leaf_or_branch(key, line, node, settings, "")
    return File(path, found, contexts)


def read_values(
    path: pathlib.Path,
    keys: Mapping[str, Callable[[Any], Any]],
    maps: Mapping[str, Callable[[Any], Any]],
) -> Mapping[str, Value]:
    """Read a file of plain keys, as strictly as a configuration file.

    Below each key of `maps` any key may stand; its value is found under `MAP.KEY`. Raises ConfigError.
    """
    return read_records(path, keys, {}, maps)[0]


def read_records(
    path: pathlib.Path,
    keys: Mapping[str, Callable[[Any], Any]],
    records: Mapping[str, Mapping[str, Callable[[Any], Any]]],
    maps: Mapping[str, Callable[[Any], Any]],
) -> tuple[Mapping[str, Value], Mapping[str, list[Mapping[str, Value]]]]:
    """Read a file that also holds lists of records: plain keys and maps as `read_values`, and the lists.

    `records` gives the keys of each list's records; where a record begins stands under ''.
    Raises ConfigError.
    """
    place = _Place(path)
    found: dict[str, Value] = {}
    lists: dict[str, list[Mapping[str, Value]]] = {key: [] for key in records}
    for key, line, node in place.entries(compose(path), {*keys, *records, *maps}, ""):
        if key in records:
            lists[key] = [*place.records(node, records[key], key)]
        elif key in maps:
            for name, name_line, value in place.entries(node, None, key):
                found[f"{key}.{name}"] = place.value(maps[key], value, name_line, f"{key}.{name}")
        else:
            found[key] = place.value(keys[key], node, line, key)
    return found, lists


def compose(path: pathlib.Path, loader: type[yaml.SafeLoader] | None = None) -> yaml.Node | None:
    """The YAML nodes of a file, None if it says nothing; `loader` decides what plain words mean.

    Raises ConfigError with the line if it cannot be read or is no YAML.
    """
    import yaml  # noqa: PLC0415 - 13 ms that a run without files does not need

    try:
        source = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: this is no text file in UTF-8") from error
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        return yaml.compose(source, Loader=loader or yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ConfigError(f"{path}:{line}: this is not YAML: {error.problem}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: this is not YAML: {' '.join(str(error).split())}") from error
    except RecursionError as error:
        raise ConfigError(f"{path}: values inside values, too deep to be read") from error


class _Place:
    """Walks the nodes of one file and complains with its name and the line."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path

    def at(self, line: int) -> str:
        return f"{self._path}:{line}"

    def entries(
        self, node: yaml.Node | None, known: set[str] | None, above: str
    ) -> Iterator[tuple[str, int, yaml.Node]]:
        """Key, line and value of each entry of a mapping; an empty file or value has none."""
        if node is None or node.tag == _NULL:
            return
        if node.tag != _MAPPING:
            raise ConfigError(f"{self.at(node.start_mark.line + 1)}: expected keys {under(above)}".rstrip())
        seen: set[str] = set()
        for key_node, value_node in node.value:
            key, line = str(key_node.value), key_node.start_mark.line + 1
            if key in seen:
                raise ConfigError(f"{self.at(line)}: key '{key}' is here twice")
            seen.add(key)
            if known is not None and key not in known:
                unknown = f"{self.at(line)}: unknown key '{key}' {under(above)}".rstrip()
                raise ConfigError(unknown, hint=near(key, known))
            yield key, line, value_node

    def leaves(self, node: yaml.Node | None, keys: Mapping[str, Key], above: str) -> dict[str, Value]:
        """All values below a mapping, by dotted key."""
        prefix = f"{above}." if above else ""
        known = {key.removeprefix(prefix).partition(".")[0] for key in keys if key.startswith(prefix)}
        found: dict[str, Value] = {}
        for key, line, value in self.entries(node, known, above):
            found |= self.leaf_or_branch(key, line, value, keys, prefix)
        return found

    def records(
        self, node: yaml.Node, keys: Mapping[str, Callable[[Any], Any]], above: str
    ) -> Iterator[Mapping[str, Value]]:
        """The records of a list of mappings."""
        if node.tag == _NULL:
            return
        if node.tag != _SEQUENCE:
            raise ConfigError(f"{self.at(node.start_mark.line + 1)}: expected a list {under(above)}")
        for entry in node.value:
            found = {"": Value(None, self.at(entry.start_mark.line + 1))}
            for key, line, value in self.entries(entry, {*keys}, above):
                found[key] = self.value(keys[key], value, line, key)
            yield found

    def leaf_or_branch(
        self, key: str, line: int, node: yaml.Node, keys: Mapping[str, Key], prefix: str
    ) -> dict[str, Value]:
        dotted = f"{prefix}{key}"
        if dotted not in keys:
            return self.leaves(node, keys, dotted)
        return {dotted: self.value(keys[dotted].from_yaml, node, line, dotted)}

    def value(self, reader: Callable[[Any], Any], node: yaml.Node, line: int, what: str) -> Value:
        return Value(self.checked(reader, self._plain(node), line, what), self.at(line))

    def checked(self, reader: Callable[[Any], Any], value: Any, line: int, what: str) -> Any:
        try:
            return reader(value)
        except ValueError as error:
            raise ConfigError(f"{self.at(line)}: {what}: {error}") from error

    def _plain(self, node: yaml.Node) -> Any:
        import yaml  # noqa: PLC0415

        try:
            return yaml.SafeLoader("").construct_object(node, deep=True)
        except (yaml.YAMLError, ValueError) as error:
            line = node.start_mark.line + 1
            raise ConfigError(f"{self.at(line)}: a value that cannot be read: {node.value!r}") from error


def from_variable(key: Key, env: Mapping[str, str]) -> Value | None:
    """The value of a key's environment variable; unset and empty are the same, None."""
    written = env.get(key.variable, "")
    if not written:
        return None
    try:
        return Value(key.from_text(written), key.variable)
    except ValueError as error:
        raise ConfigError(f"{key.variable}='{written}': {error}") from error


def under(above: str) -> str:
    """Where a key stands, for a sentence; empty for the top of a file."""
    return f"under '{above}'" if above else ""


def near(key: str, known: Collection[str], what: str = "keys here") -> str:
    """A suggestion for a word that is not among `known`, which are called `what`: the one meant, or all."""
    lowered = {word.lower(): word for word in known}
    found = difflib.get_close_matches(key.lower(), lowered, n=1)
    if found:
        return f"did you mean '{lowered[found[0]]}'?"
    return f"{what} are: {', '.join(sorted(known))}"

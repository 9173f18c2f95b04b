"""A YAML file as plain values, with the line of each.

Plain words mean what YAML 1.2 says, as in editors: `off` and `yes` are texts, `12:00` is no number.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from tpuctl.cli import config_file

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable, Mapping

Loc = tuple[str | int, ...]
"""The way to a value: keys, and numbers of list entries."""

_TAG = "tag:yaml.org,2002:"
# Longer numbers stay texts, which no number in a file may be.
_WORDS: tuple[tuple[str, str, str], ...] = (
    ("null", r"~|null|Null|NULL|", "~nN\0"),
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?[0-9]{1,18}", "-+0123456789"),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]{1,3})?", "-+.0123456789"),
)
_SCALARS: Mapping[str, Callable[[str], Any]] = {
    f"{_TAG}str": str,
    f"{_TAG}null": lambda _: None,
    f"{_TAG}bool": lambda text: text.lower() == "true",
    f"{_TAG}int": int,
    f"{_TAG}float": float,
}


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - as its base


for _word, _form, _begins in _WORDS:
    # "" stands for the empty value, which begins with nothing.
    _first = ["" if letter == "\0" else letter for letter in _begins]
    _Loader.add_implicit_resolver(f"{_TAG}{_word}", re.compile(rf"(?:{_form})\Z", re.ASCII), _first)


class Fault(NamedTuple):
    """Something wrong, and where."""

    loc: Loc
    text: str
    hint: str | None = None
    see: Loc | None = None
    """Another place that has to do with it."""
    line: int | None = None
    """Where it stands, if it has no place of its own among the values."""


class Document:
    """One file: its values and the lines they stand on."""

    def __init__(self, path: pathlib.Path) -> None:
        """Raises ConfigError if the file cannot be read or is no YAML."""
        self.path = path
        self.faults: list[Fault] = []
        """What is wrong with the YAML alone: keys that are there twice, tags, values that hold themselves."""
        self._lines: dict[Loc, int] = {(): 1}
        node = config_file.compose(path, _Loader)
        self.values: Any = None if node is None else self._plain(node, (), ())

    def problem(self, faults: list[Fault]) -> config_file.ConfigError:
        """All `faults` as one error, in order of their lines."""
        first, *others = sorted(faults, key=self._line_of)
        if not others:
            return config_file.ConfigError(self._told(first), hint=first.hint)
        return config_file.ConfigError(
            self._with_hint(first),
            hint=f"{len(faults)} faults in all; none of the file is used before they are gone",
            details=tuple(self._with_hint(fault) for fault in others),
        )

    def _line_of(self, fault: Fault) -> int:
        return self._line(fault.loc) if fault.line is None else fault.line

    def _line(self, loc: Loc) -> int:
        """The line of the value, or of the nearest thing around it if it is not there."""
        while loc not in self._lines:
            loc = loc[:-1]
        return self._lines[loc]

    def _told(self, fault: Fault) -> str:
        see = "" if fault.see is None else f" (see line {self._line(fault.see)})"
        return f"{self.path}:{self._line_of(fault)}: {fault.text}{see}"

    def _with_hint(self, fault: Fault) -> str:
        return self._told(fault) + (f"; {fault.hint}" if fault.hint else "")

    def _plain(self, node: yaml.Node, loc: Loc, around: tuple[yaml.Node, ...]) -> Any:
        if any(node is outer for outer in around):
            self.faults.append(Fault(loc, "a value that holds itself"))
            return None
        if isinstance(node, yaml.MappingNode) and node.tag == f"{_TAG}map":
            return self._mapping(node, loc, (*around, node))
        if isinstance(node, yaml.SequenceNode) and node.tag == f"{_TAG}seq":
            return self._sequence(node, loc, (*around, node))
        if isinstance(node, yaml.ScalarNode) and node.tag in _SCALARS:
            return self._scalar(node, loc)
        self.faults.append(Fault(loc, f"tag '{node.tag.removeprefix(_TAG)}' means nothing here"))
        return None

    def _mapping(self, node: yaml.MappingNode, loc: Loc, around: tuple[yaml.Node, ...]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key_node, value in node.value:
            line, key = key_node.start_mark.line + 1, key_node.value
            if not isinstance(key_node, yaml.ScalarNode):
                self.faults.append(Fault(loc, "a key must be a text", line=line))
            elif key in found:
                fault = Fault(loc, f"key '{key}' is here twice", see=(*loc, key), line=line)
                self.faults.append(fault)
            else:
                self._lines[*loc, key] = line
                found[key] = self._plain(value, (*loc, key), around)
        return found

    def _sequence(self, node: yaml.SequenceNode, loc: Loc, around: tuple[yaml.Node, ...]) -> list[Any]:
        found = []
        for number, entry in enumerate(node.value):
            self._lines[*loc, number] = entry.start_mark.line + 1
            found.append(self._plain(entry, (*loc, number), around))
        return found

    def _scalar(self, node: yaml.ScalarNode, loc: Loc) -> Any:
        try:
            return _SCALARS[node.tag](node.value)
        except ValueError:
            self.faults.append(Fault(loc, f"a value that cannot be read: {node.value!r}"))
            return None

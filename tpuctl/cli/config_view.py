"""`tpuctl config`: settings, and where each of them comes from."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from tpuctl.cli import commands, config, output, session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tpuctl.cli.config_file import Value

app = commands.App(help="Show settings and where each value came from.")

_CREDENTIALS = re.compile(r"(?<=://)[^/@]*@")


class _Setting(NamedTuple):
    key: str
    value: Any
    origin: str


_KEY = output.Column[_Setting]("KEY", lambda setting: setting.key)
_VALUE = output.Column[_Setting]("VALUE", lambda setting: _shown(setting.value))


@app.command("view")
def view(
    show_origin: Annotated[
        bool, typer.Option("--show-origin", help="Say where each value came from.")
    ] = False,
    fmt: output.FormatOption = None,
    no_headers: output.NoHeadersOption = False,
) -> None:
    """Show the settings in force, and the contexts.

    An option is stronger than a TPUCTL_* variable, that than ./tpuctl.yaml, that than the user's file.

    Examples:
      tpuctl config view --show-origin
      TPUCTL_OUTPUT=json tpuctl config view
    """
    current = session.current()
    settings = list(_settings(current.settings))
    origin = output.Column[_Setting]("ORIGIN", lambda setting: setting.origin, wide=not show_origin)
    output.render_list(
        "Setting",
        settings,
        columns=(_KEY, _VALUE, origin),
        to_plain=lambda setting: {"key": setting.key, "value": setting.value, "origin": setting.origin},
        name_of=lambda setting: f"setting/{setting.key}",
        fmt=fmt,
        no_headers=no_headers,
    )
    for warning in _odd_variables(current):
        current.terminal.warn(warning)


def _settings(settings: config.Settings) -> Iterator[_Setting]:
    for key, value in settings.values.items():
        yield _setting(key, value)
    for name in sorted(settings.contexts):
        for key, value in sorted(settings.context_values(name).items()):
            yield _setting(f"contexts.{name}.{key}", value)


def _setting(key: str, value: Value) -> _Setting:
    plain = list(value.value) if isinstance(value.value, tuple) else value.value
    if isinstance(plain, str):
        # An address may carry a password, and this output ends up in tickets.
        plain = _CREDENTIALS.sub("***@", plain)
    return _Setting(key, plain, value.origin)


def _shown(value: Any) -> Any:
    if isinstance(value, list):
        return ",".join(value)
    return f"{value:g}" if isinstance(value, float) else value


def _odd_variables(current: session.Session) -> Iterator[str]:
    """Variables that nobody reads and that look like one that somebody would."""
    known = config.variables()
    for name in sorted(current.env):
        if name.startswith("TPUCTL_") and name not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.8)
            if near:
                yield f"variable {name} is not read; did you mean {near[0]}?"

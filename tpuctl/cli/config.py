"""Settings and contexts: option, then environment, then ./tpuctl.yaml, then the user's file, then built-in.

A context is one unit: the nearest file that names it gives all of it, so that the project of one file is
never joined with the cluster of another. Environment variables (`TPUCTL_PROJECT`, `TPUCTL_CLUSTER`, ...)
replace single values of the chosen context. Paths in a file are relative to that file.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
from typing import TYPE_CHECKING, Any

from tpuctl.cli import config_file, directories, simulators
from tpuctl.cli.config_file import ConfigError, Key, Value
from tpuctl.model import errors

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tpuctl.cli import session
    from tpuctl.ops import context as ops_context

PROJECT_FILE = "tpuctl.yaml"
USER_FILE = "config.yaml"
BUILT_IN = "built-in"
SIMULATOR = "sim"
"""The context of a running simulator on this machine."""
ENVIRONMENT = "environment"
"""The context made of variables alone."""

_FORMATS = ("table", "wide", "json", "yaml", "name")
_COLORS = ("auto", "always", "never")
_LOG_FORMATS = ("text", "json")


def _same(reader: Callable[[Any], Any], variable: str) -> Key:
    return Key(reader, reader, variable)


SETTINGS: Mapping[str, Key] = {
    "currentContext": _same(config_file.context_name, "TPUCTL_CONTEXT"),
    "defaults.output": _same(config_file.choice(*_FORMATS), "TPUCTL_OUTPUT"),
    "defaults.color": _same(config_file.choice(*_COLORS), "TPUCTL_COLOR"),
    "defaults.noInput": Key(config_file.flag, config_file.flag_of, "TPUCTL_NO_INPUT"),
    "defaults.logFormat": _same(config_file.choice(*_LOG_FORMATS), "TPUCTL_LOG_FORMAT"),
}

CONTEXT_KEYS: Mapping[str, Key] = {
    "project": _same(config_file.text, "TPUCTL_PROJECT"),
    "location": _same(config_file.text, "TPUCTL_LOCATION"),
    "zone": _same(config_file.text, "TPUCTL_ZONE"),
    "cluster": _same(config_file.text, "TPUCTL_CLUSTER"),
    "reservations": Key(config_file.texts, config_file.texts_of, "TPUCTL_RESERVATIONS"),
    "policy": _same(config_file.text, "TPUCTL_POLICY"),
    "policyFile": _same(config_file.text, "TPUCTL_POLICY_FILE"),
    "kubeconfig": _same(config_file.text, "TPUCTL_KUBECONFIG"),
    "kubeconfigContext": _same(config_file.text, "TPUCTL_KUBECONFIG_CONTEXT"),
    "endpoints.kubernetes": _same(config_file.text, "TPUCTL_ENDPOINT_KUBERNETES"),
    "endpoints.container": _same(config_file.text, "TPUCTL_ENDPOINT_CONTAINER"),
    "endpoints.compute": _same(config_file.text, "TPUCTL_ENDPOINT_COMPUTE"),
    "tokenFile": _same(config_file.text, "TPUCTL_TOKEN_FILE"),
    "clockScale": Key(config_file.number, config_file.number_of, "TPUCTL_CLOCK_SCALE"),
    "protected": Key(config_file.flag, config_file.flag_of, "TPUCTL_PROTECTED"),
}

_FIELDS = {
    "endpoints.kubernetes": "endpoint_kubernetes",
    "endpoints.container": "endpoint_container",
    "endpoints.compute": "endpoint_compute",
    "policyFile": "policy_file",
    "kubeconfigContext": "kubeconfig_context",
    "tokenFile": "token_file",
    "clockScale": "clock_scale",
}
"""Where the field of `ops.context.Context` has another name than the key."""
_PATHS = ("kubeconfig", "tokenFile", "policyFile")
_ENOUGH = ("project", "location", "cluster")
"""Variables that make a context by themselves."""
_BUILT_IN: Mapping[str, Any] = {
    "currentContext": None,
    "defaults.output": "table",
    "defaults.color": "auto",
    "defaults.noInput": False,
    "defaults.logFormat": "text",
}

EXAMPLE = """contexts:
  prod:
    project: my-project
    location: us-central1
    zone: us-central1-c
    cluster: my-cluster
    reservations: [my-reservation]"""
"""The least that a context needs, shown to whoever has none."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """Every setting with its origin, and the contexts to choose from."""

    values: Mapping[str, Value]
    """By dotted key; each key of SETTINGS is there."""
    contexts: Mapping[str, Mapping[str, Value]]
    """Name -> values as configured, variables not yet applied; the context's own origin is under ''."""
    overrides: Mapping[str, Value]
    """Values of context keys that variables give."""
    user_file: pathlib.Path
    """Where a user's own contexts belong."""

    @property
    def output(self) -> str:
        return str(self.values["defaults.output"].value)

    @property
    def color(self) -> str:
        return str(self.values["defaults.color"].value)

    @property
    def log_format(self) -> str:
        return str(self.values["defaults.logFormat"].value)

    @property
    def no_input(self) -> bool:
        """If true, nobody is asked anything, terminal or not."""
        return bool(self.values["defaults.noInput"].value)

    @property
    def current_name(self) -> str | None:
        """The chosen context's name, whether or not there is such a context."""
        name = self.values["currentContext"].value
        return None if name is None else str(name)

    def context(self, name: str | None = None) -> ops_context.Context:
        """The context called `name`, or the chosen one.

        Raises NotFound for a name that is not there, UsageError if none is chosen or values do not fit.
        """
        return _build(self._existing(name), self.context_values(name))

    def context_values(self, name: str | None = None) -> Mapping[str, Value]:
        """The values of a context after the variables, without the entry ''. Raises as `context` does."""
        chosen = self._existing(name)
        values = dict(self.contexts[chosen])
        del values[""]
        if chosen == self.current_name:
            values |= self.overrides
        return values

    def _existing(self, name: str | None) -> str:
        wanted = name or self.current_name
        if wanted is None:
            raise self._none_chosen()
        if wanted not in self.contexts:
            known = ", ".join(sorted(self.contexts)) or "none"
            origin = "" if name else f" (chosen by {self.values['currentContext'].origin})"
            hint = f"contexts are: {known}"
            if wanted == SIMULATOR:
                hint = "no simulator is running; start one with `tpuctl sim start --detach`"
            raise errors.NotFound(f"there is no context '{wanted}'{origin}", hint=hint)
        return wanted

    def _none_chosen(self) -> errors.UsageError:
        if self.contexts:
            return errors.UsageError(
                f"no context is chosen; there are {', '.join(sorted(self.contexts))}",
                hint="pass --context NAME, or choose one with `tpuctl context use NAME`",
            )
        return errors.UsageError(
            "there is no context to work on",
            hint=(
                "`tpuctl sim start --detach` starts a simulated fleet; for a real one write "
                f"{self.user_file}, at least:\n{EXAMPLE}"
            ),
        )


def load(current: session.Session) -> Settings:
    """Collect settings for a run. Raises ConfigError with the place of the first fault."""
    folders = directories.Directories(current.env)
    files = [config_file.read(path, SETTINGS, CONTEXT_KEYS) for path in _files(current, folders)]
    overrides = _overrides(current, folders)
    found = _contexts(files, folders)
    if not found and all(key in overrides for key in _ENOUGH):
        found[ENVIRONMENT] = {"": Value(None, CONTEXT_KEYS["project"].variable), **overrides}
    if SIMULATOR not in found:
        found |= _simulator(folders)
    layers = _layers(current, files, folders)
    values = {key: next(layer[key] for layer in layers if key in layer) for key in SETTINGS}
    if values["currentContext"].value is None:
        values["currentContext"] = _only_context(found)
    return Settings(
        values=values,
        contexts=found,
        overrides=overrides,
        user_file=folders.config / USER_FILE,
    )


def _files(current: session.Session, folders: directories.Directories) -> list[pathlib.Path]:
    """The files to read, the one that wins first. `--config` and TPUCTL_CONFIG replace all others."""
    named = _named_file(current)
    if named:
        path = pathlib.Path(_absolute_path(named, current.cwd, folders))
        if not path.exists():
            raise ConfigError(f"{path}: there is no such file")
        return [path]
    candidates = (current.cwd / PROJECT_FILE, folders.config / USER_FILE)
    return [path for path in candidates if path.exists()]


def _named_file(current: session.Session) -> str | None:
    return current.flags.config or current.env.get("TPUCTL_CONFIG") or None


def _layers(
    current: session.Session, files: list[config_file.File], folders: directories.Directories
) -> list[Mapping[str, Value]]:
    """Settings by where they come from, the strongest first.

    What `context use` stored speaks for the user: weaker than a project's file, stronger than the user's own.
    A file named by `--config` is all there is, so it leaves no room for that.
    """
    user_file = folders.config / USER_FILE
    stored = {} if _named_file(current) else read_current(folders)
    variables = {
        key: value
        for key, how in SETTINGS.items()
        if (value := config_file.from_variable(how, current.env)) is not None
    }
    return [
        _options(current),
        variables,
        *(file.settings for file in files if file.path != user_file),
        stored,
        *(file.settings for file in files if file.path == user_file),
        {key: Value(value, BUILT_IN) for key, value in _BUILT_IN.items()},
    ]


def _options(current: session.Session) -> Mapping[str, Value]:
    given = {
        "currentContext": (current.flags.context, "--context"),
        "defaults.color": (current.terminal.color_flag, "--color"),
        "defaults.logFormat": (current.terminal.log_format_flag, "--log-format"),
    }
    return {key: Value(value, origin) for key, (value, origin) in given.items() if value is not None}


def _overrides(current: session.Session, folders: directories.Directories) -> dict[str, Value]:
    found = {}
    for key, how in CONTEXT_KEYS.items():
        value = config_file.from_variable(how, current.env)
        if value is not None:
            found[key] = _resolved(key, value, current.cwd, folders)
    return found


def _contexts(
    files: list[config_file.File], folders: directories.Directories
) -> dict[str, Mapping[str, Value]]:
    return {
        name: {key: _resolved(key, value, file.path.parent, folders) for key, value in values.items()}
        for file in reversed(files)
        for name, values in file.contexts.items()
    }


def _resolved(key: str, value: Value, base: pathlib.Path, folders: directories.Directories) -> Value:
    """Paths are relative to where they are written."""
    if key not in _PATHS:
        return value
    return value._replace(value=_absolute_path(str(value.value), base, folders))


def _absolute_path(written: str, base: pathlib.Path, folders: directories.Directories) -> str:
    if written == "~" or written.startswith("~/"):
        written = f"{folders.home}{written[1:]}"
    return os.path.abspath(base / written)  # noqa: PTH100 - `resolve` would follow links


def _only_context(found: Mapping[str, Mapping[str, Value]]) -> Value:
    """Nobody chose: a single context is meant; a simulator gives way to whatever is configured."""
    configured = [name for name, values in found.items() if values[""].origin != simulators.ORIGIN]
    names = configured or list(found)
    if len(names) != 1:
        return Value(None, BUILT_IN)
    return Value(names[0], "the only context" if configured else simulators.ORIGIN)


def _simulator(folders: directories.Directories) -> dict[str, Mapping[str, Value]]:
    """The context of this user's detached simulator, if one is running."""
    found = simulators.running_context(folders.simulator)
    if found is None:
        return {}
    values = {"": Value(None, simulators.ORIGIN)}
    for key, value in _flattened(found).items():
        if key == "name" or (key == "clockScale" and value == 0):
            continue  # a simulator whose time only `sim advance` moves: waits count real seconds
        if key not in CONTEXT_KEYS:
            raise ConfigError(f"{folders.simulator}: the simulator's context has an unknown key '{key}'")
        try:
            values[key] = Value(CONTEXT_KEYS[key].from_yaml(value), simulators.ORIGIN)
        except ValueError as error:
            raise ConfigError(f"{folders.simulator}: {key}: {error}") from error
    return {SIMULATOR: values}


def _flattened(mapping: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in mapping.items():
        if isinstance(value, dict):
            flat |= _flattened(value, f"{above}{key}.")
        elif value is not None:
            flat[f"{above}{key}"] = value
    return flat


def _build(name: str, values: Mapping[str, Value]) -> ops_context.Context:
    from tpuctl.ops import context as ops_context  # noqa: PLC0415 - only commands that work on a fleet need it

    missing = [key for key in (*_ENOUGH, "zone") if key not in values]
    if missing:
        raise ConfigError(
            f"context '{name}' has no {missing[0]}",
            hint=f"set it in the file, or with {CONTEXT_KEYS[missing[0]].variable}",
        )
    fields = {_FIELDS.get(key, key): value.value for key, value in values.items()}
    return ops_context.Context(name=name, **fields)


# -- the current context, kept apart from the user's file so that its comments survive ---------------------


def read_current(folders: directories.Directories) -> Mapping[str, Value]:
    """What `context use` stored, if anything."""
    path = folders.current_context
    try:
        name = config_file.context_name(path.read_text(encoding="utf-8").strip())
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}", hint="remove that file") from error
    return {"currentContext": Value(name, str(path))}


def write_current(folders: directories.Directories, name: str) -> None:
    """Store the current context; the file is whole at every moment."""
    directories.write_whole(folders.current_context, f"{name}\n")


def variables() -> tuple[str, ...]:
    """Every variable that settings are read from."""
    return (*(key.variable for key in (*SETTINGS.values(), *CONTEXT_KEYS.values())), "TPUCTL_CONFIG")

"""Settings: who wins, where a value came from, and what a file may not say."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import PROD


def settings(result):
    assert result.err == ""
    return {item["key"]: (item["value"], item["origin"]) for item in json.loads(result.out)["items"]}


def view(tpuctl, *arguments, env=None):
    return settings(tpuctl("config", "view", "-o", "json", *arguments, env=env))


def test_built_in(tpuctl):
    assert view(tpuctl) == {
        "currentContext": (None, "built-in"),
        "defaults.output": ("table", "built-in"),
        "defaults.color": ("auto", "built-in"),
        "defaults.noInput": (False, "built-in"),
        "defaults.logFormat": ("text", "built-in"),
    }


def test_who_wins(tpuctl):
    user = tpuctl.write(
        "~/.config/tpuctl/config.yaml", "# mine\ndefaults:\n  color: never\n  noInput: true\n"
    )
    assert view(tpuctl)["defaults.color"] == ("never", f"{user}:3")
    project = tpuctl.write("tpuctl.yaml", "defaults: {color: always}\n")
    assert view(tpuctl)["defaults.color"] == ("always", f"{project}:1")
    assert view(tpuctl)["defaults.noInput"] == (True, f"{user}:4")
    env = {"TPUCTL_COLOR": "auto"}
    assert view(tpuctl, env=env)["defaults.color"] == ("auto", "TPUCTL_COLOR")
    assert view(tpuctl, "--color", "never", env=env)["defaults.color"] == ("never", "--color")


def test_a_named_file_replaces_all_others(prod):
    prod.write("tpuctl.yaml", "defaults: {color: always}\n")
    only = prod.write("only.yaml", "defaults: {noInput: true}\n")
    assert prod("context", "use", "prod").status == 0
    for found in (view(prod, "--config", "only.yaml"), view(prod, env={"TPUCTL_CONFIG": str(only)})):
        assert found["defaults.noInput"] == (True, f"{only}:1")
        assert found["defaults.color"] == ("auto", "built-in")
        assert found["currentContext"] == (None, "built-in")
    result = prod("config", "view", "--config", "gone.yaml")
    assert (result.status, result.err) == (64, f"error: {prod.cwd}/gone.yaml: there is no such file\n")


def test_xdg_folders(tpuctl, tmp_path):
    tpuctl.write("~/elsewhere/tpuctl/config.yaml", "defaults: {color: never}\n")
    found = view(tpuctl, env={"XDG_CONFIG_HOME": str(tpuctl.home / "elsewhere")})
    assert found["defaults.color"][0] == "never"
    assert view(tpuctl, env={"XDG_CONFIG_HOME": "elsewhere"})["defaults.color"][0] == "auto"


def test_table_shows_origins_when_asked(tpuctl):
    plain = tpuctl("config", "view").out.splitlines()
    assert plain[0].split() == ["KEY", "VALUE"]
    shown = tpuctl("config", "view", "--show-origin", "--no-headers").out.splitlines()
    assert shown[1].split() == ["defaults.output", "table", "built-in"]
    assert tpuctl("config", "view", "-o", "name").out.splitlines()[0] == "setting/currentContext"


def test_values_of_contexts_and_their_origins(prod):
    path = prod.home / ".config/tpuctl/config.yaml"
    found = view(prod, env={"TPUCTL_CLUSTER": "c2", "TPUCTL_RESERVATIONS": "a, b"})
    assert found["currentContext"] == ("prod", "the only context")
    assert found["contexts.prod.project"] == ("p1", f"{path}:3")
    assert found["contexts.prod.cluster"] == ("c2", "TPUCTL_CLUSTER")
    assert found["contexts.prod.reservations"] == (["a", "b"], "TPUCTL_RESERVATIONS")


def test_passwords_in_addresses_are_not_shown(tpuctl):
    tpuctl.write("tpuctl.yaml", PROD + "    endpoints: {kubernetes: 'https://me:secret@host:6443'}\n")
    result = tpuctl("config", "view")
    assert "https://***@host:6443" in result.out
    shown = tpuctl("context", "show", "--debug")
    assert shown.status == 64
    assert "secret" not in result.out + result.err + shown.out + shown.err


@pytest.mark.parametrize(
    ("text", "line", "message", "hint"),
    [
        ("context:\n  a: {}\n", 1, "unknown key 'context'", "did you mean 'contexts'?"),
        ("\ndefaults:\n  colour: never\n", 3, "unknown key 'colour' under 'defaults'",
         "did you mean 'color'?"),
        (PROD + "    Project: p\n", 8, "unknown key 'Project'", "did you mean 'project'?"),
        (PROD + "    endpoints:\n      kube: x\n", 9, "unknown key 'kube' under 'endpoints'",
         "keys here are: compute, container, kubernetes"),
        (PROD + "    zone: other\n", 8, "key 'zone' is here twice", None),
        (PROD + PROD.partition("\n")[2], 8, "key 'prod' is here twice", None),
        ("contexts:\n  prod:\n    project: 12\n", 3,
         "project: expected a text (in quotes if it looks like a number or yes/no)", None),
        ("contexts:\n  prod:\n    zone: no\n", 3,
         "zone: expected a text (in quotes if it looks like a number or yes/no)", None),
        ("contexts:\n  prod:\n    zone:\n", 3,
         "zone: expected a text (in quotes if it looks like a number or yes/no)", None),
        ("contexts:\n  prod:\n    reservations: r1\n", 3, "reservations: expected a list of texts", None),
        ("contexts:\n  prod:\n    protected: 'yes'\n", 3, "protected: expected true or false", None),
        ("contexts:\n  prod:\n    clockScale: 0\n", 3, "clockScale: expected a number above 0", None),
        ("contexts:\n  prod:\n    clockScale: true\n", 3, "clockScale: expected a number above 0", None),
        ("contexts:\n  ../x: {}\n", 2,
         "context '../x': expected a name of letters, digits, '.', '_', '@' and '-'", None),
        ("contexts:\n  - prod\n", 2, "expected keys under 'contexts'", None),
        ("contexts:\n  prod: p1\n", 2, "expected keys", None),
        ("defaults: {output: xml}\n", 1,
         "defaults.output: expected one of table, wide, json, yaml, name", None),
        ("contexts: {a: {clockScale: .inf}}\n", 1, "clockScale: expected a number above 0", None),
        ("just text\n", 1, "expected keys", None),
        ("a: [1\n", 2, "this is not YAML: expected ',' or ']', but got '<stream end>'", None),
        ("a: b\n\tc: d\n", 2, "this is not YAML: found character '\\t' that cannot start any token", None),
        ("a: b\n---\nc: d\n", 2, "this is not YAML: but found another document", None),
        ("currentContext: !!python/object:os.system x\n", 1,
         "a value that cannot be read: 'x'", None),
    ],
)  # fmt: skip
def test_bad_files(tpuctl, text, line, message, hint):
    path = tpuctl.write("tpuctl.yaml", text)
    result = tpuctl("context", "list")
    expected = f"error: {path}:{line}: {message}\n" + (f"hint: {hint}\n" if hint else "")
    assert (result.status, result.out, result.err) == (64, "", expected)


def test_files_that_cannot_be_read(tpuctl):
    (tpuctl.cwd / "tpuctl.yaml").write_bytes(b"\xff\xfe\x00")
    result = tpuctl("context", "list")
    assert (result.status, result.err) == (
        64, f"error: {tpuctl.cwd}/tpuctl.yaml: this is no text file in UTF-8\n",
    )  # fmt: skip
    (tpuctl.cwd / "tpuctl.yaml").unlink()
    (tpuctl.cwd / "tpuctl.yaml").mkdir()
    assert "cannot be read: Is a directory" in tpuctl("context", "list").err


@pytest.mark.parametrize("text", ["", "# nothing\n", "contexts:\n", "contexts: {}\n"])
def test_empty_files_are_fine(tpuctl, text):
    tpuctl.write("tpuctl.yaml", text)
    assert tpuctl("context", "list").status == 0


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("1", True), ("true", True), ("YES", True), ("on", True), ("0", False), ("False", False), ("no", False),
     ("off", False), ("", False)],
)  # fmt: skip
def test_booleans_in_variables(tpuctl, text, wanted):
    assert view(tpuctl, env={"TPUCTL_NO_INPUT": text})["defaults.noInput"][0] is wanted


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("TPUCTL_NO_INPUT", "maybe", "expected one of 1, true, yes, on, 0, false, no, off"),
        ("TPUCTL_NO_INPUT", "2", "expected one of 1, true, yes, on, 0, false, no, off"),
        ("TPUCTL_PROTECTED", " ", "expected one of 1, true, yes, on, 0, false, no, off"),
        ("TPUCTL_RESERVATIONS", "a b", "expected texts with commas between, for example a,b"),
        ("TPUCTL_RESERVATIONS", "a,,b", "expected texts with commas between, for example a,b"),
        ("TPUCTL_CLOCK_SCALE", "10m", "expected a number above 0"),
        ("TPUCTL_CLOCK_SCALE", "nan", "expected a number above 0"),
        ("TPUCTL_OUTPUT", "JSON", "expected one of table, wide, json, yaml, name"),
        ("TPUCTL_COLOR", "sometimes", "expected one of auto, always, never"),
        ("TPUCTL_CONTEXT", "a/b", "expected a name of letters, digits, '.', '_', '@' and '-'"),
    ],
)
def test_bad_variables(tpuctl, name, text, message):
    result = tpuctl("context", "list", env={name: text})
    assert (result.status, result.out, result.err) == (64, "", f"error: {name}='{text}': {message}\n")


def test_a_variable_that_nobody_reads_is_pointed_out(tpuctl):
    result = tpuctl("config", "view", env={"TPUCTL_PROJET": "p", "TPUCTL_CONTRACT_KUBECONFIG": "x"})
    assert result.err == "warning: variable TPUCTL_PROJET is not read; did you mean TPUCTL_PROJECT?\n"

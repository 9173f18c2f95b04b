"""Tab: what is offered, from where, and that it never complains."""

from __future__ import annotations

import pathlib
import shutil
import subprocess

import pytest

from tpuctl.cli import completion, completion_scripts, main, session, terminal

FOLDER = pathlib.Path(main.__file__).parents[2] / "completions"


def tab(tpuctl, line, *, shell="bash", env=None):
    """The candidates at the end of `line`."""
    result = tpuctl(
        env={"_TPUCTL_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_ARGS": line, **(env or {})}
    )
    assert (result.status, result.err) == (0, "")
    return result.out.splitlines()


def remember(program, context, names):
    streams = terminal.Streams(None, None, None)
    current = session.Session(
        arguments=(), program="tpuctl", env=program.env, cwd=program.cwd, streams=streams
    )
    with session.active(current):
        completion.remember(context, names)


@pytest.mark.parametrize("shell", list(completion_scripts.Shell))
def test_scripts_are_those_in_the_folder(tpuctl, shell):
    result = tpuctl("completion", shell)
    assert result.status == 0
    assert (FOLDER / completion_scripts.FILES[shell]).read_text() == result.out


def test_folder_holds_nothing_else():
    assert sorted(path.name for path in FOLDER.iterdir()) == sorted(completion_scripts.FILES.values())


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("tpuctl con", ["context", "config"]),
        ("tpuctl context ", ["list", "use", "show"]),
        ("tpuctl context nothing ", []),
        ("tpuctl nothing ", []),
        ("tpuctl topology explain 8x8x1", ["8x8x12", "8x8x16"]),
        ("tpuctl topology explain 8x8x8 ", []),
        ("tpuctl topology list -o ", ["table", "wide", "json", "yaml", "name"]),
        ("tpuctl topology list --output=j", ["--output=json"]),
        ("tpuctl topology list --no", ["--no-headers"]),
        ("tpuctl --color ", ["auto", "always", "never"]),
        ("tpuctl --color never topology ex", ["explain"]),
        ("tpuctl -v -q --debug topology ex", ["explain"]),
        ("tpuctl completion ", ["bash", "zsh", "fish"]),
        ("tpuctl help ex", ["exit-codes"]),
        ("tpuctl 'open quo", []),
    ],
)
def test_candidates(tpuctl, line, wanted):
    assert tab(tpuctl, line) == wanted


def test_every_command_offers_its_options(tpuctl):
    for line in ("tpuctl -", "tpuctl slice -", "tpuctl slice form -", "tpuctl version --"):
        assert {"--context", "--debug", "--help"} <= set(tab(tpuctl, line)), line


def test_help_goes_along_where_the_shell_shows_it(tpuctl):
    assert tab(tpuctl, "tpuctl topology li", shell="zsh") == [
        "list\tList every legal slice shape, by chips; sub-slices first."
    ]
    assert tab(tpuctl, "tpuctl topology explain 8x8x16", shell="fish") == ["8x8x16\t"]


def test_contexts(prod):
    assert tab(prod, "tpuctl context use ") == ["prod"]
    assert tab(prod, "tpuctl slice list --context p") == ["prod"]


def test_bash_splits_at_the_equals_sign(prod):
    for words, index in (("tpuctl\nslice\n--context\n=\np", "4"), ("tpuctl\nslice\n--context\n=", "3")):
        env = {"_TPUCTL_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": index}
        assert prod(env=env).out == "prod\n"


def test_remembered_names(prod):
    assert tab(prod, "tpuctl slice show ") == []
    remember(prod, "prod", {"slices": ["train-b", "train-a"], "cubes": ["c1", "c2"]})
    assert tab(prod, "tpuctl slice show ") == ["train-a", "train-b"]
    assert tab(prod, "tpuctl slice show train-b") == ["train-b"]
    remember(prod, "prod", {"slices": [], "cubes": None})
    assert tab(prod, "tpuctl slice show ") == []
    assert tab(prod, "tpuctl cube show ") == ["c1", "c2"]
    assert tab(prod, "tpuctl slice form x --cubes c1,c") == ["c1,c1", "c1,c2"]
    remember(prod, "prod", {"slices": ["train-a"], "pools": ["cube-1"]})
    assert tab(prod, "tpuctl cube show cube-") == ["cube-1"]
    assert tab(prod, "tpuctl health show cube-") == ["cube-1"]
    assert tab(prod, "tpuctl capacity what-if --end x,tr") == ["x,train-a"]
    assert tab(prod, "tpuctl capacity what-if --fail c") == ["c1", "c2", "cube-1"]
    assert tab(prod, "tpuctl capacity simulate --figure isca") == ["isca4", "isca6"]


def test_names_are_those_of_the_context_on_the_line(prod):
    remember(prod, "other", {"slices": ["elsewhere"]})
    assert tab(prod, "tpuctl slice show --context other ") == ["elsewhere"]
    assert tab(prod, "tpuctl --context=other slice show ") == ["elsewhere"]
    assert tab(prod, "tpuctl slice show ", env={"TPUCTL_CONTEXT": "other"}) == ["elsewhere"]


def test_names_that_a_shell_would_act_on_are_left_out(prod):
    remember(prod, "prod", {"slices": ["$(reboot)", "a b", "`x`", "fine", "x;y", "*"]})
    assert tab(prod, "tpuctl slice show ") == ["fine"]


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"slices": 3}', '{"slices": [1, null]}', "\ud800"])
def test_damaged_memory_is_silent(prod, damage):
    path = prod.home / ".cache/tpuctl/names-prod.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(damage.encode("utf-8", "surrogatepass"))
    assert tab(prod, "tpuctl slice show ") == []
    remember(prod, "prod", {"slices": ["a"]})
    assert tab(prod, "tpuctl slice show ") == ["a"]


def test_memory_that_cannot_be_written_is_silent(prod):
    prod.write("~/.cache", "a file where a folder belongs")
    remember(prod, "prod", {"slices": ["a"]})
    assert tab(prod, "tpuctl slice show ") == []


def test_broken_configuration_is_silent(tpuctl):
    tpuctl.write("tpuctl.yaml", "{")
    for line in ("tpuctl slice show ", "tpuctl context use ", "tpuctl --context "):
        assert tab(tpuctl, line) == []


@pytest.mark.parametrize("env", [{"COMP_WORDS": "tpuctl x", "COMP_CWORD": "one"}, {}, {"COMP_WORDS": ""}])
def test_broken_protocol_is_silent(tpuctl, env):
    result = tpuctl(env={"_TPUCTL_COMPLETE": "complete_bash", **env})
    assert (result.status, result.err) == (0, "")


def test_tab_imports_no_client(tpuctl):
    code = (
        "import sys; from tpuctl.cli import main; main.main([]); "
        "sys.exit(str({'kubernetes', 'google', 'rich', 'pydantic', 'socket'} & set(sys.modules)))"
    )
    env = {"_TPUCTL_COMPLETE": "complete_bash", "_TYPER_COMPLETE_ARGS": "tpuctl slice show "}
    assert tpuctl.child(code=code, env=env).stderr == "set()\n"


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes(tpuctl):
    program = tpuctl.write("bin/tpuctl", f'#!/bin/sh\nexec {" ".join(tpuctl.command())} "$@"\n')
    program.chmod(0o755)
    script = f"""
        source {FOLDER}/tpuctl.bash
        complete -p tpuctl kubectl-tpu
        COMP_WORDS=(tpuctl topology explain 8x8x1) COMP_CWORD=3
        _tpuctl {program}; printf '<%s>' "${{COMPREPLY[@]}}"
        COMP_WORDS=(tpuctl topology "") COMP_CWORD=2
        _tpuctl {program}; printf '<%s>' "${{COMPREPLY[@]}}"
    """
    result = subprocess.run(
        ["bash", "--norc", "-c", script],
        env=tpuctl.child_env(),
        cwd=tpuctl.cwd,
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout.endswith("kubectl-tpu\n<8x8x12><8x8x16><explain><list>")
    assert result.stderr == ""

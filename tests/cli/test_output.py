"""Results: the five formats, on a terminal and off it."""

from __future__ import annotations

import datetime
import json
from typing import NamedTuple

import pytest
import yaml

from tests.cli.conftest import Stream
from tpuctl.cli import layout, output, session, terminal
from tpuctl.cli.output import Column, Format


class Item(NamedTuple):
    name: str
    id: str
    chips: int
    note: str | None = None


ITEMS = [
    Item("train-a", "0123456789abcdef0123456789abcdef", 2048, "fine"),
    Item("b", "0123456789abcdeffedcba9876543210", 64),
]
COLUMNS = (
    Column[Item]("NAME", lambda item: item.name),
    Column[Item]("ID", lambda item: item.id, shorten=True),
    Column[Item]("CHIPS", lambda item: item.chips, style=lambda item: "red" if item.chips > 100 else None),
    Column[Item]("NOTE", lambda item: item.note, wide=True),
)
WHEN = datetime.datetime(2026, 3, 1, 12, 0, 0, 5000, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))


@pytest.fixture
def run():
    """Render a list and return what came out on stdout and stderr."""

    def run(items=ITEMS, *, is_terminal=False, env=None, **options):
        streams = terminal.Streams(Stream(), Stream(is_terminal=is_terminal), Stream())
        current = session.Session(
            arguments=(), program="tpuctl", env={"HOME": "/nonexistent", **(env or {})}, streams=streams
        )
        with session.active(current):
            output.render_list(
                "Item",
                items,
                columns=COLUMNS,
                to_plain=lambda item: {"name": item.name, "chips": item.chips},
                name_of=lambda item: f"item/{item.name}",
                **options,
            )
        return streams.stdout.getvalue(), streams.stderr.getvalue()

    return run


def test_table_off_a_terminal_is_plain_and_whole(run):
    out, err = run(fmt=Format.TABLE, env={"COLUMNS": "20", "TERM": "dumb"})
    assert out == (
        "NAME     ID                                CHIPS\n"
        "train-a  0123456789abcdef0123456789abcdef  2,048\n"
        "b        0123456789abcdeffedcba9876543210  64\n"
    )
    assert err == ""


def test_wide_and_no_headers(run):
    out, _ = run(fmt=Format.WIDE, no_headers=True)
    assert out.splitlines()[0] == "train-a  0123456789abcdef0123456789abcdef  2,048  fine"
    assert out.splitlines()[1].endswith("  64     -")


def test_terminal_shortens_ids_in_the_middle_and_keeps_them_apart(run):
    out, _ = run(fmt=Format.TABLE, is_terminal=True, env={"COLUMNS": "32", "NO_COLOR": "1"})
    rows = [line.split() for line in out.splitlines()[1:]]
    assert [row[1] for row in rows] == ["0123456...abcdef", "0123456...543210"]
    assert all(len(line) <= 32 for line in out.splitlines())


def test_a_terminal_too_narrow_for_all_columns_gets_fewer_and_is_told(run):
    env = {"COLUMNS": "30", "NO_COLOR": "1"}
    out, err = run(fmt=Format.WIDE, is_terminal=True, env=env)
    assert out.splitlines()[0].split() == ["NAME", "ID", "CHIPS"]
    assert all(len(line) <= 30 for line in out.splitlines())
    assert err == "no room on this terminal for NOTE; a pipe, or -o json, has everything\n"
    assert run(fmt=Format.WIDE, env=env)[0].splitlines()[0].split() == ["NAME", "ID", "CHIPS", "NOTE"]


def test_sentences_and_lists_go_on_below_themselves():
    cells = [["c1", "host down for 2,048 seconds", "train-a,train-b,train-c"], ["c2", "-", "x"]]
    traits = [layout.Trait(), layout.Trait(), layout.Trait()]
    paints = [[None] * 3, [None] * 3]
    titles = ["CUBE", "WHY", "SLICES"]
    lines, left_out = layout.table(cells, titles, paints, lambda text, _: text, width=46, traits=traits)
    assert lines == [
        "CUBE  WHY                  SLICES",
        "c1    host down for 2,048  train-a,train-b,",
        "      seconds              train-c",
        "c2    -                    x",
    ]
    assert left_out == []
    whole = [traits[0], layout.Trait(whole=True), traits[2]]
    assert layout.fitted(cells, titles, whole, 46)[0][0][1] == "host down for 2,048 seconds"


def test_what_is_to_be_kept_is_left_out_last():
    cells = [["name", "x" * 30, "y" * 30, "z" * 30]]
    traits = [layout.Trait(), layout.Trait(), layout.Trait(), layout.Trait(keep=True)]
    assert layout.fitted(cells, ["A", "B", "C", "D"], traits, 70)[1] == [0, 1, 3]
    assert layout.fitted(cells, ["A", "B", "C", "D"], traits, 40)[1] == [0, 3]
    assert layout.fitted(cells, ["A", "B", "C", "D"], traits, 10)[1] == [0]


def test_shortening_never_makes_two_ids_one():
    cells = [["aaaaaaaaXaaaaaaaa"], ["aaaaaaaaYaaaaaaaa"]]
    assert layout.fitted(cells, ["ID"], [layout.Trait(shorten=True)], 9) == (cells, [0])


def test_colour_only_where_asked(run):
    coloured, _ = run(fmt=Format.TABLE, is_terminal=True, env={"COLUMNS": "200"})
    assert "\x1b[31m2,048\x1b[0m" in coloured
    assert "\x1b[1mNAME\x1b[0m" in coloured
    assert "\x1b" not in run(fmt=Format.TABLE, env={"COLUMNS": "200"})[0]


def test_json_envelope(run):
    out, _ = run(fmt=Format.JSON, observed_at=WHEN, partial=True)
    assert json.loads(out) == {
        "apiVersion": "tpuctl/v1",
        "kind": "ItemList",
        "items": [{"name": "train-a", "chips": 2048}, {"name": "b", "chips": 64}],
        "observedAt": "2026-03-01T10:00:00.005000Z",
        "partial": True,
    }
    assert list(json.loads(out)) == ["apiVersion", "kind", "items", "observedAt", "partial"]


def test_yaml_says_the_same(run):
    options = {"observed_at": WHEN}
    assert yaml.safe_load(run(fmt=Format.YAML, **options)[0]) == json.loads(
        run(fmt=Format.JSON, **options)[0]
    )


def test_names(run):
    assert run(fmt=Format.NAME)[0] == "item/train-a\nitem/b\n"


def test_empty_list(run):
    assert run([], fmt=Format.TABLE) == ("", "No items found.\n")
    assert run([], fmt=Format.NAME, empty="None here.") == ("", "None here.\n")
    out, err = run([], fmt=Format.JSON)
    assert (json.loads(out)["items"], err) == ([], "")


def test_partial_list_warns_people(run):
    assert run(fmt=Format.TABLE, partial=True)[1] == "warning: this list is not complete\n"


def test_the_setting_chooses_when_no_option_does(run):
    assert run(env={"TPUCTL_OUTPUT": "name"})[0] == "item/train-a\nitem/b\n"


def test_foreign_text_cannot_break_the_table(run):
    out, _ = run([Item("a\nb\x1b[31m", "x\ty", 4, "\x9b1m")], fmt=Format.WIDE, no_headers=True)
    assert out == "a b\\x1b[31m  x y  4  \\x9b1m\n"


def test_wide_characters_are_aligned(run):
    out, _ = run([Item("日本", "x", 1), Item("abcde", "y", 2)], fmt=Format.TABLE, no_headers=True)
    assert out == "日本   x  1\nabcde  y  2\n"


def test_one_object_keeps_its_envelope():
    streams = terminal.Streams(None, Stream(), Stream())
    current = session.Session(arguments=(), program="tpuctl", env={}, streams=streams)
    for plain in ({"kind": "other"}, {"partial": 1}, {"apiVersion": 1}):
        with session.active(current), pytest.raises(ValueError, match="envelope"):
            output.render_one("Item", plain, rows=(), name="item/x", fmt=Format.JSON)


@pytest.mark.parametrize(
    ("arguments", "env", "wanted"),
    [
        (["slice", "list", "-o", "json"], {}, Format.JSON),
        (["-ojson"], {}, Format.JSON),
        (["--output=yaml"], {}, Format.YAML),
        (["--output", "name"], {}, Format.NAME),
        (["-o"], {}, None),
        (["-o", "xml"], {}, None),
        (["--", "-o", "json"], {}, None),
        ([], {"TPUCTL_OUTPUT": "json"}, Format.JSON),
        (["-o", "table"], {"TPUCTL_OUTPUT": "json"}, Format.TABLE),
    ],
)
def test_asked_format(arguments, env, wanted):
    assert output.asked_format(arguments, env) is wanted

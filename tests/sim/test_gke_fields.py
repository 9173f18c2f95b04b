"""Strict reading of request bodies."""

from __future__ import annotations

import pytest

from tpuctl.sim.googleapis import errors, fields

SHAPE = fields.Message(
    {
        "name": fields.text,
        "count": fields.integer,
        "limit": fields.int64_text,
        "on": fields.flag,
        "kind": fields.word({"NONE": 0, "SOME": 1}),
        "tags": fields.list_of(fields.text),
        "labels": fields.text_map,
        "inner": fields.Message({"longName": fields.text}),
    },
    frozenset({"later"}),
)


def test_every_kind_of_field_is_read():
    given = {
        "name": "a",
        "count": "16",
        "limit": 15,
        "on": False,
        "kind": 1,
        "tags": ["x"],
        "labels": {"k": "v"},
        "inner": {"long_name": "b"},
    }
    assert SHAPE(given) == {
        "name": "a",
        "count": 16,
        "limit": "15",
        "on": False,
        "kind": "SOME",
        "tags": ["x"],
        "labels": {"k": "v"},
        "inner": {"longName": "b"},
    }


def test_null_means_not_set_even_for_what_is_not_simulated():
    assert SHAPE({"name": None, "later": None}) == {}


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({"name": 1}, "name"),
        ({"count": 1.5}, "count"),
        ({"count": True}, "count"),
        ({"count": 2**31}, "count"),
        ({"limit": "x"}, "limit"),
        ({"on": "true"}, "on"),
        ({"kind": "OTHER"}, "kind"),
        ({"kind": True}, "kind"),
        ({"kind": []}, "kind"),
        ({"tags": "x"}, "tags"),
        ({"tags": ["x", 1]}, "tags[1]"),
        ({"labels": []}, "labels"),
        ({"labels": {"k": 1}}, "labels.k"),
        ({"inner": []}, "inner"),
        ({"inner": {"longName": 1}}, "inner.longName"),
    ],
)
def test_a_value_of_the_wrong_type_is_named_by_its_path(given, path):
    with pytest.raises(errors.ApiError) as caught:
        SHAPE(given)
    assert (caught.value.code, caught.value.status) == (400, "INVALID_ARGUMENT")
    assert f"'{path}'" in caught.value.message


def test_an_unknown_name_is_refused_even_if_null():
    with pytest.raises(errors.ApiError, match='Unknown name "nmae": Cannot find field'):
        SHAPE({"nmae": None})
    with pytest.raises(errors.ApiError, match="Unknown name \"x\" at 'inner'"):
        SHAPE({"inner": {"x": 1}})


def test_a_field_that_is_not_simulated_is_refused():
    with pytest.raises(errors.ApiError, match="the field later") as caught:
        SHAPE({"later": 1})
    assert caught.value.code == 501


def test_a_body_must_be_an_object():
    with pytest.raises(errors.ApiError, match="TYPE_MESSAGE"):
        SHAPE([])

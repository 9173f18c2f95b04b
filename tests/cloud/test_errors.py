"""Texts that may be shown, and times in headers."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuctl.cloud import errors as cloud_errors

NOW = datetime.datetime(2026, 1, 5, 8, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer abcdef123456",
        "authorization=Basic dXNlcjpwYXNzd29yZA==",
        "sent Bearer abcdef123456.x to",
        "ya29.a0AfH6SMBx-abcdef123456",
        "eyJhbGciOi.eyJzdWIi-abcdef123456.sig",
        '{"access_token": "abcdef123456"}',
        "refresh_token=abcdef123456",
        "password: abcdef123456",
        "{'name': 'u', 'user': {'client-key-data': 'abcdef123456'}}",
        "{'name': 'u', 'user': {'token': 'abcdef123456'}}",
    ],
)
def test_secrets_are_struck_out(text):
    found = cloud_errors.clean(f"before {text} after")
    assert "abcdef123456" not in found
    assert "dXNlcjpwYXNzd29yZA" not in found
    assert found.startswith("before ")


def test_ordinary_words_are_kept():
    text = 'slices "a" is forbidden: User "x" cannot list resource "slices" (basic access)'
    assert cloud_errors.clean(text) == text


@given(st.text())
def test_texts_are_one_printable_line(text):
    found = cloud_errors.clean(text, 20)
    assert len(found) <= 20
    assert found.isprintable()


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7.0),
        (" 0 ", 0.0),
        ("Mon, 05 Jan 2026 08:00:09 GMT", 9.0),
        ("Mon, 05 Jan 2026 07:00:00 GMT", 0.0),
        ("soon", None),
        ("-3", None),
        ("٣", None),
        ("", None),
    ],
)
def test_retry_after(header, seconds):
    assert cloud_errors.retry_after_s({"Retry-After": header}, NOW) == seconds


def test_retry_after_as_a_date_needs_the_servers_time():
    assert cloud_errors.retry_after_s({"Retry-After": "Mon, 05 Jan 2026 08:00:09 GMT"}, None) is None
    assert cloud_errors.retry_after_s({}, NOW) is None


@pytest.mark.parametrize("text", [None, "", "yesterday", "99"])
def test_dates_that_cannot_be_read(text):
    assert cloud_errors.http_date(text) is None

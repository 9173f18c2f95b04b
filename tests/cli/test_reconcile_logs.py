"""`--log-format json`: what goes to stderr is one object a line, without secrets."""

from __future__ import annotations

import datetime
import json

import pytest

from tests.cli.test_terminal import err, make
from tpuctl.cli import json_log, progress, redaction

MOMENT_S = datetime.datetime(2026, 1, 31, 12, 0, 0, 123_000, tzinfo=datetime.UTC).timestamp()


def lines(screen):
    return [json.loads(line) for line in err(screen).splitlines()]


def logging(**settings):
    screen = make(env={"TPUCTL_LOG_FORMAT": "json"}, **settings)
    screen.wall_s = lambda: MOMENT_S
    return screen


def test_a_line_has_time_level_message_and_what_it_is_about():
    text = json_log.line(MOMENT_S, "info", "two\nlines", {"object": "slice/a", "cycle": "c1", "plan": ""})
    assert text == (
        '{"time": "2026-01-31T12:00:00.123Z", "level": "info", "message": "two\\nlines", '
        '"cycle": "c1", "object": "slice/a"}'
    )


def test_every_message_is_one_object(monkeypatch):
    screen = logging()
    screen.be_about({"cycle": "c-7"})
    screen.verbosity = 1
    screen.note("looking")
    screen.verbose("closer")
    screen.warn("odd", object="cube/x")
    screen.error("broken", details=("a", "b"), hint="mend it")
    assert [(line["level"], line["message"], line["cycle"]) for line in lines(screen)] == [
        ("info", "looking", "c-7"),
        ("debug", "closer", "c-7"),
        ("warning", "odd", "c-7"),
        ("error", "broken", "c-7"),
    ]
    assert lines(screen)[2]["object"] == "cube/x"
    assert (lines(screen)[3]["details"], lines(screen)[3]["hint"]) == (["a", "b"], "mend it")


@pytest.mark.parametrize("is_terminal", [True, False])
def test_progress_is_lines_even_on_a_terminal(is_terminal):
    screen = logging(is_terminal=is_terminal)
    reporter = screen.reporter()
    assert isinstance(reporter, progress.JsonReporter)
    reporter.step("forming")
    reporter.progress(3, 16, "hosts there")
    reporter.progress(3, 16, "hosts there")
    reporter.warn("slow")
    first, second, third = lines(screen)
    assert first["message"] == "forming"
    assert (second["message"], second["done"], second["total"]) == ("hosts there (3/16)", 3, 16)
    assert (third["level"], third["message"]) == ("warning", "slow")


def test_colour_never_gets_into_a_line():
    screen = logging(is_terminal=True)
    screen.color_flag = "always"
    screen.warn("odd")
    screen.error("broken")
    assert [line["message"] for line in lines(screen)] == ["odd", "broken"]


def test_option_variable_and_file_choose_the_format_of_a_run(tpuctl):
    def first(*arguments, **options):
        return tpuctl("topology", "explain", "5x5x5", *arguments, **options).err

    assert first().startswith("error: ")
    for told in (first("--log-format", "json"), first(env={"TPUCTL_LOG_FORMAT": "json"})):
        assert json.loads(told)["level"] == "error"
    assert first("--log-format", "text", env={"TPUCTL_LOG_FORMAT": "json"}).startswith("error: ")
    tpuctl.write("tpuctl.yaml", "defaults: {logFormat: json}\n")
    shown = json.loads(tpuctl("config", "view", "-o", "json").out)["items"]
    assert {"key": "defaults.logFormat", "value": "json"}.items() <= shown[4].items()
    refused = tpuctl("--log-format", "xml", "version")
    assert (refused.status, "'xml' is not one of text, json" in refused.err) == (64, True)
    assert tpuctl("context", "list", env={"TPUCTL_LOG_FORMAT": "xml"}).status == 64


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("nothing to hide: token of appreciation", None),
        ("slice/train-a formed, 16 pods restart", None),
        ("TPUCTL_TOKEN_FILE is unset", None),
        ("https://jo:pa55@example.com/x", "https://***@example.com/x"),
        ("Authorization: Bearer abc.def", "Authorization: Bearer ***"),
        ("got ya29.a0AfH6SMB-x_y from it", "got *** from it"),
        ("jwt eyJhbGciOi.eyJzdWIi.c2ln end", "jwt *** end"),
        ('{"access_token": "s3", "n": 1}', '{"access_token": "***", "n": 1}'),
        ("password=x&user=jo", "password=***&user=jo"),
        ("api-key: k1, more", "api-key: ***, more"),
        ("-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\nafter", "***\nafter"),
    ],
)
def test_secrets_are_masked_and_words_are_not(text, clean):
    assert redaction.redacted(text) == (text if clean is None else clean)
    assert redaction.redacted(redaction.redacted(text)) == redaction.redacted(text)
    assert json.loads(json_log.line(0, "info", text, {}))["message"] == redaction.redacted(text)

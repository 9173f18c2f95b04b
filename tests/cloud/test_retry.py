"""One retry policy: deadlines, Retry-After, and looking before writing again."""

from __future__ import annotations

import pytest

from tests.cloud import scripted
from tpuctl.cloud import kube, retry
from tpuctl.ops import locking


class Passing(Exception):
    """May pass; nothing was done."""


class Open(Exception):
    """The write may have been carried out."""


class Final(Exception):
    """Will not pass."""


def classify(error):
    if isinstance(error, Passing):
        return retry.Fault(again=True, after_s=error.args[0] if error.args else None)
    if isinstance(error, Open):
        return retry.Fault(again=True, ambiguous=True)
    return retry.FINAL


class Script:
    """Raises or returns what it was given, in order; the last entry repeats."""

    def __init__(self, *steps):
        self.steps = list(steps)
        self.calls = 0

    def __call__(self):
        step = self.steps[min(self.calls, len(self.steps) - 1)]
        self.calls += 1
        if isinstance(step, Exception):
            raise step
        return step


@pytest.fixture
def clock():
    return scripted.FakeClock()


def test_a_read_is_repeated_until_it_works(clock):
    attempt = Script(Passing(), Open(), "found")
    assert retry.read(clock, classify, attempt) == "found"
    assert attempt.calls == 3
    assert len(clock.slept) == 2


def test_a_final_error_is_raised_at_once_and_as_it_is(clock):
    final = Final("why")
    with pytest.raises(Final) as caught:
        retry.read(clock, classify, Script(final))
    assert caught.value is final
    assert clock.slept == []


def test_the_last_error_itself_is_raised_at_the_deadline(clock):
    started_s = clock.now_s
    attempt = Script(Passing())
    with pytest.raises(Passing):
        retry.read(clock, classify, attempt, policy=retry.Policy(deadline_s=10.0))
    assert attempt.calls > 3
    assert clock.now_s - started_s <= 10.0


def test_delays_grow_and_stay_bounded(clock):
    policy = retry.Policy(deadline_s=60.0, first_delay_s=1.0, longest_delay_s=4.0, jitter_s=0.0)
    with pytest.raises(Passing):
        retry.read(clock, classify, Script(Passing()), policy=policy)
    assert clock.slept[:4] == [1.0, 2.0, 4.0, 4.0]


def test_retry_after_is_waited_for(clock):
    assert retry.read(clock, classify, Script(Passing(7.0), "found")) == "found"
    assert clock.slept == [7.0]


def test_retry_after_beyond_the_deadline_is_not_waited_for(clock):
    with pytest.raises(Passing):
        retry.read(clock, classify, Script(Passing(3600.0), "found"))
    assert clock.slept == []


def test_a_write_with_an_open_outcome_looks_and_adopts_what_it_finds(clock):
    attempt, look = Script(Open(), "written twice"), Script("found")
    assert retry.write(clock, classify, attempt, look=look) == "found"
    assert (attempt.calls, look.calls) == (1, 1)


def test_a_write_that_did_not_happen_is_sent_again(clock):
    attempt, look = Script(Open(), "written"), Script(None)
    assert retry.write(clock, classify, attempt, look=look) == "written"
    assert (attempt.calls, look.calls) == (2, 1)


def test_a_look_that_fails_is_repeated_before_anything_is_written(clock):
    attempt, look = Script(Open(), "written twice"), Script(Passing(), Open(), "found")
    assert retry.write(clock, classify, attempt, look=look) == "found"
    assert (attempt.calls, look.calls) == (1, 3)


def test_a_write_that_surely_did_not_happen_needs_no_look(clock):
    attempt, look = Script(Passing(), "written"), Script(Final())
    assert retry.write(clock, classify, attempt, look=look) == "written"
    assert look.calls == 0


class Lost:
    """Nothing is heard of an attempt for so many seconds."""

    def __init__(self, clock, seconds):
        self.clock = clock
        self.seconds = seconds
        self.begun_s = []

    def __call__(self):
        self.begun_s.append(self.clock.now_s)
        self.clock.now_s += self.seconds
        raise Open


def test_what_was_done_is_found_though_no_time_is_left(clock):
    """A lost answer may take longer than the deadline: still nothing is given up before one look."""
    attempt, look = Lost(clock, 30.0), Script("found")
    assert retry.write(clock, classify, attempt, look=look) == "found"
    assert (len(attempt.begun_s), look.calls) == (1, 1)


def test_what_was_not_done_and_has_no_time_left_is_an_error_after_one_look(clock):
    attempt, look = Lost(clock, 30.0), Script(None)
    with pytest.raises(Open):
        retry.write(clock, classify, attempt, look=look)
    assert (len(attempt.begun_s), look.calls) == (1, 1)


def test_a_slow_look_does_not_carry_a_write_beyond_the_deadline(clock):
    """The lock under which it was begun may be over by then."""
    attempt = Lost(clock, 10.0)
    looks = []

    def look():
        looks.append(clock.now_s)
        clock.now_s += 12.0

    with pytest.raises(Open):
        retry.write(clock, classify, attempt, look=look)
    assert (len(attempt.begun_s), len(looks)) == (1, 1)


def test_a_refusal_after_a_lost_answer_is_looked_at(clock):
    """ "It exists already" is what the first attempt made; the first look came too early to see it."""
    look = Script(None, "found")
    assert retry.write(clock, classify, Script(Open(), Final("exists")), look=look) == "found"
    assert look.calls == 2
    with pytest.raises(Final, match="quota"):
        retry.write(clock, classify, Script(Open(), Final("quota")), look=Script(None))


@pytest.mark.parametrize("unseen", [Passing(), Open()])
def test_a_last_look_that_fails_leaves_the_error_of_the_write(clock, unseen):
    with pytest.raises(Open) as caught:
        retry.write(clock, classify, Lost(clock, 30.0), look=Script(unseen))
    assert caught.value.__cause__ is unseen


def test_a_final_answer_of_the_last_look_is_the_news(clock):
    with pytest.raises(Final, match="of another shape"):
        retry.write(clock, classify, Lost(clock, 30.0), look=Script(Final("of another shape")))


@pytest.mark.parametrize("timeout_s", [kube.READ_TIMEOUT_S, kube.PAGE_TIMES * kube.READ_TIMEOUT_S])
def test_a_lost_answer_leaves_time_for_another_attempt_while_a_lock_lasts(clock, timeout_s):
    attempt = Lost(clock, timeout_s)
    with pytest.raises(Open):
        retry.read(clock, classify, attempt)
    assert len(attempt.begun_s) == 2
    # Before it begins a lock may be as old as it gets before it is renewed.
    left_s = locking.DURATION_S * 2 / 3
    assert clock.now_s - attempt.begun_s[0] < left_s


def test_a_final_answer_of_the_look_ends_the_write(clock):
    with pytest.raises(Final):
        retry.write(clock, classify, Script(Open()), look=Script(Final()))


def test_people_hear_once_that_it_is_tried_again(clock):
    heard = []
    telling = retry.Telling(heard.append)

    def told(error):
        telling.failed(type(error).__name__)

    assert retry.read(clock, classify, Script(Passing(), Passing(), "done"), told=told) == "done"
    assert heard == ["Passing; trying again"]
    telling.answered()
    with pytest.raises(Final):
        retry.read(clock, classify, Script(Final()), told=told)
    with pytest.raises(Final):
        retry.write(clock, classify, Script(Passing(), Final()), look=lambda: None, told=told)
    assert heard == ["Passing; trying again"] * 2

"""The axis of the split canvas: in order, within its width, and with visible pauses."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerankui.text.time_axis import LABEL_ROOM, MOST_TIMED, TICK_ROOM, WIDTH, axis, pause_words

BEGAN = datetime(2026, 3, 2, 9, 30, tzinfo=UTC)
GAPS = st.lists(st.integers(0, 3 * 365 * 24 * 3600).map(lambda seconds: timedelta(seconds=seconds)), max_size=300)


def moments(*gaps: timedelta) -> list[datetime]:
    return [BEGAN + sum(gaps[:count], timedelta(0)) for count in range(len(gaps) + 1)]


@given(GAPS)
def test_messages_stand_in_order_beside_each_other_over_the_whole_width(gaps: list[timedelta]) -> None:
    places = axis(moments(*gaps)).places
    assert len(places) == len(gaps) + 1
    assert places[0].start == 0
    assert places[-1].end == pytest.approx(WIDTH)
    assert all(earlier.end == later.start for earlier, later in pairwise(places))
    assert all(place.start <= place.border <= place.bar < place.end for place in places)


@given(GAPS)
def test_bars_are_equally_wide_and_take_half_of_the_width_at_least(gaps: list[timedelta]) -> None:
    widths = [place.end - place.bar for place in axis(moments(*gaps)).places]
    assert max(widths) == pytest.approx(min(widths))
    assert sum(widths) >= WIDTH / 2 - 1e-6


@given(GAPS)
def test_words_never_stand_on_each_other(gaps: list[timedelta]) -> None:
    drawn = axis(moments(*gaps))
    assert all(later.at - earlier.at >= LABEL_ROOM for earlier, later in pairwise(drawn.pauses))
    assert all(later.at - earlier.at >= TICK_ROOM for earlier, later in pairwise(drawn.ticks))


def test_a_longer_pause_takes_more_room() -> None:
    minute, hour, day, month = (timedelta(minutes=1), timedelta(hours=1), timedelta(days=1), timedelta(days=30))
    rooms = [place.bar - place.start for place in axis(moments(minute, hour, day, month)).places]
    assert rooms == sorted(rooms)
    assert rooms[-1] < 10 * rooms[2]


def test_the_longest_pause_is_named_where_there_is_no_room_for_all() -> None:
    gaps = [timedelta(hours=4)] * 99
    gaps[50] = timedelta(days=9)
    drawn = axis(moments(*gaps))
    assert "9 d" in [label.words for label in drawn.pauses]
    assert len(drawn.pauses) < 20


def test_more_messages_than_have_room_stand_in_order() -> None:
    gaps = [timedelta(minutes=1), timedelta(days=3)] * (MOST_TIMED // 2)
    drawn = axis(moments(*gaps))
    assert not drawn.is_timed
    assert all(place.start == place.bar for place in drawn.places)
    assert drawn.pauses


def test_nothing_and_one_message_have_an_axis() -> None:
    assert axis([]).places == []
    assert axis([BEGAN]).places[0].end == WIDTH


@pytest.mark.parametrize(
    ("gap", "words"),
    [
        (timedelta(hours=3), "3 h"),
        (timedelta(hours=23, minutes=40), "1 d"),
        (timedelta(days=2), "2 d"),
        (timedelta(days=150), "5 mo"),
        (timedelta(days=800), "2 y"),
    ],
)
def test_a_pause_is_shown_in_its_largest_unit(gap: timedelta, words: str) -> None:
    assert pause_words(gap) == words

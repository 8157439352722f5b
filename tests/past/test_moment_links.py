"""Which links of a page lead on to the chosen moment."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from rerankui.web.moment import PastMoment, kept, kept_in

THEN = PastMoment(datetime(2026, 3, 2, 9, 0, tzinfo=UTC))
TEXT = "as_of=2026-03-02T09:00:00Z"
FIELD = '<input type="hidden" name="as_of" value="2026-03-02T09:00:00Z">'


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ('<a href="/topics/4/">', f'<a href="/topics/4/?{TEXT}">'),
        ('<a href="/memory/1/messages/?at=3#message-3">', f'<a href="/memory/1/messages/?at=3&amp;{TEXT}#message-3">'),
        ('<a href="?sort=name">', f'<a href="?sort=name&amp;{TEXT}">'),
        ('<tr data-peek="/topics/4/peek/" class="x">', f'<tr data-peek="/topics/4/peek/?{TEXT}" class="x">'),
        ('<a href="/memory/1/?as_of=">', '<a href="/memory/1/?as_of=">'),
        ('<a href="/static/app.css">', '<a href="/static/app.css">'),
        ('<a href="https://example.org/topics/4/">', '<a href="https://example.org/topics/4/">'),
        ('<p>href="/topics/4/"</p>'.replace('"', "&quot;"), "<p>href=&quot;/topics/4/&quot;</p>"),
        ('<form method="get" action="/memory/1/topics/">', f'<form method="get" action="/memory/1/topics/">{FIELD}'),
        ('<form method="post" action="/memory/1/ask/">', f'<form method="post" action="/memory/1/ask/?{TEXT}">'),
        ('<form method="get" action="/memory/1/" data-moment>', '<form method="get" action="/memory/1/" data-moment>'),
    ],
)
def test_links_of_the_memory_and_of_the_page_itself_do(page: str, expected: str) -> None:
    assert kept_in(page, THEN) == expected


def test_a_redirect_does_only_within_the_site() -> None:
    assert kept("/memory/1/ask/?run=4", THEN) == f"/memory/1/ask/?run=4&{TEXT}"
    assert kept("//example.org/topics/4/", THEN) == "//example.org/topics/4/"

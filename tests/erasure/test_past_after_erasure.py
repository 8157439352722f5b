"""What was erased is gone from every past, too."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone

from memoryapp import curation, erasure
from memoryapp.erasure import Target
from memoryapp.models import Topic
from rerankui.web.moment import written
from tests.erasure.conftest import PARAPHRASE, SECRET, Filled
from tests.support.browsing import get


@pytest.mark.django_db
def test_no_page_of_the_moment_before_shows_what_was_erased(filled: Filled, as_admin: Client) -> None:
    moment = f"as_of={written(timezone.now())}"
    of = f"/memory/{filled.owner.pk}/"
    pages = [f"{of}{page}?{moment}" for page in ("topics/", "people/", "facts/", "artifacts/", "messages/", "")]
    pages += [f"/topics/{filled.topic.pk}/?{moment}", f"/topics/{filled.topic.pk}/blame/?{moment}"]
    seen = "".join(get(as_admin, page) for page in pages)
    assert "Zwiebelfisch" in seen
    assert PARAPHRASE in seen
    erasure.finish(erasure.begin(Target(filled.owner.pk, (filled.message.pk,)), "ada"))
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED")
    left = "".join(as_admin.get(page).content.decode() for page in pages)
    assert "Zwiebelfisch" not in left
    assert SECRET not in left
    assert PARAPHRASE not in left
    for topic in Topic.objects.of(filled.owner):
        assert len(curation.blame(topic).line) > 0

"""From the miss to the repair that stays."""

from __future__ import annotations

import pytest

from memoryapp.insight.misses import keeping, misses, remedies
from memoryapp.models import GoldenQuestion, Message, Miss, NightlyRun
from tests.misses.forgetful import DENTIST, ended, forgetful, missed

pytestmark = pytest.mark.django_db(transaction=True)


def test_try() -> None:
    owner = forgetful()
    miss = missed(owner)
    why = misses.explain(miss)
    print(why)
    print(miss.stage, miss.lost, miss.evidence)
    for each in remedies.offers(miss, why, "ada"):
        print(
            each.remedy,
            each.does,
            each.result,
            each.text,
            each.effect and (each.effect.better, each.effect.worse, each.effect.same),
        )
    h = misses.Holders(miss)
    print(h.by_words, h.by_meaning)
    miss2 = missed(owner, expected="зубной врач в четверг")
    print(misses.explain(miss2), miss2.evidence, [*Message.objects.filter(pk__in=miss2.evidence).values_list("text")])
    h = misses.Holders(miss2)
    print(h.by_words, h.by_meaning)
    miss3 = missed(owner, expected="The plumber comes on Friday")
    w = misses.explain(miss3)
    print(w)
    for each in remedies.offers(miss3, w, "ada"):
        print(
            each.remedy,
            each.does,
            each.result,
            each.text,
            each.effect and (each.effect.better, each.effect.worse, each.effect.same),
        )
    assert 0

"""A hundred misses of known causes, over all stages and strategies: the explanation names the cause."""

from collections import Counter

import pytest
from asgiref.sync import sync_to_async

from memoryapp.insight.explain import why_not
from memoryapp.insight.explain.fate import STAGES
from tests.explain.planted import planted

# What ends before a search, and passages without vectors, are cases of their own.
ELSEWHERE = {"not_searched"}


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
async def test_the_stage_that_lost_a_miss_is_named() -> None:
    right: Counter[str] = Counter()
    wrong: list[str] = []
    for seed in range(4):
        for miss in await planted(seed):
            found = await sync_to_async(why_not)(miss.run, **miss.asked)
            if found.stage == miss.stage and miss.says in found.sentence:
                right[miss.stage] += 1
            else:
                wrong.append(f"{miss.run.strategy} {miss.asked}: {miss.stage}, not {found.stage}: {found.sentence}")
    assert right.total() + len(wrong) >= 100
    assert wrong == []
    assert right.keys() == set(STAGES) - ELSEWHERE

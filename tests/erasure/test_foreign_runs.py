"""What another program sent of an erased message goes from its runs too, and from the spans that wait for others."""

from __future__ import annotations

import json

import pytest

from memoryapp.doors.traces import arrival, wire
from memoryapp.intake.invariants import violations
from memoryapp.models import Run, TraceSpan
from tests.erasure.conftest import SECRET, Filled
from tests.erasure.test_part_erasure import erased, places, tables_with
from tests.traces.sent import request, search, span

pytestmark = pytest.mark.django_db


@pytest.mark.slow
@pytest.mark.parametrize("has_ended", [False, True])
def test_nothing_of_an_erased_message_is_left_in_foreign_runs(filled: Filled, has_ended: bool) -> None:
    asked = json.dumps([{"role": "user", "parts": [{"type": "text", "content": f"Known: {SECRET}"}]}])
    chat = {"gen_ai.input.messages": asked, "gen_ai.operation.name": "chat", "gen_ai.request.model": "acme"}
    root = span(1, seconds=9.0, openinference__span__kind="CHAIN", input__value=f"Is it so: {SECRET}")
    spans = [search(2, 1, "the hive", SECRET, "Honey is sold."), span(4, 1, **chat), *([root] if has_ended else [])]
    arrival.take(filled.owner, wire.spans_in(json.dumps(request(*spans)).encode(), wire.JSON))
    assert any("tracespan" in name.lower() for name in tables_with("Zwiebelfisch"))
    if not has_ended:
        # An erasure waits for runs that may still write; this one ends as nothing comes any more.
        assert arrival.end_quiet(arrival.QUIET * 0) == [Run.objects.get(origin="other").pk]
    receipt = erased(filled)
    assert tables_with("Zwiebelfisch") == set()
    assert places(receipt) == []
    assert list(violations()) == []
    assert TraceSpan.objects.exists()

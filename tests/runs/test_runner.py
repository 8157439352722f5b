"""The process that executes runs, before its first run."""

from __future__ import annotations

import asyncio
import gc

import pytest

from memoryapp.runs.runner import Runner
from tests.support.clock import PATIENCE

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("thread_closed")]


async def test_what_a_process_loaded_stops_no_run_while_cycles_are_searched_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    frozen, freeze = asyncio.Event(), gc.freeze

    def freeze_and_report() -> None:
        freeze()
        frozen.set()

    monkeypatch.setattr(gc, "freeze", freeze_and_report)
    gc.unfreeze()  # loaded by the process in an earlier test
    runner = Runner()
    runner.bind()
    try:
        async with asyncio.timeout(PATIENCE):
            await frozen.wait()
        assert gc.get_freeze_count() > 100_000
    finally:
        gc.unfreeze()
        await runner.close()

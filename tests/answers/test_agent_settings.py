"""The settings of the agent are the defaults of its runs, and its switch stops new runs of the agent."""

from __future__ import annotations

from typing import Any

import pytest

from memoryapp.engine.strategies import REACT
from memoryapp.models import ChatUser, Run
from memoryapp.runs import lifecycle
from memoryapp.runs.parameters import ParameterError, defaults, of_run, to_store


@pytest.mark.parametrize(
    ("setting", "parameter", "value"),
    [
        ("AGENT_MAX_STEPS", "max_steps", 2),
        ("TOOL_TIMEOUT_S", "tool_seconds", 0.5),
        ("AGENT_FUSION", "fusion", "rrf"),
        ("RRF_K", "rrf_k", 7),
        ("AGENT_MMR", "mmr", "on"),
        ("MMR_LAMBDA", "mmr_lambda", 0.25),
        ("MMR_OUTPUT_K", "mmr_hits", 9),
        ("RERANK_ENABLE", "rerank", "never"),
        ("RERANK_TOP_N", "rerank_hits", 11),
    ],
)
def test_a_setting_is_the_default_of_a_parameter_that_a_run_may_set(
    settings: Any, setting: str, parameter: str, value: Any
) -> None:
    usual = getattr(defaults(REACT), parameter)
    setattr(settings, setting, value)
    assert getattr(defaults(REACT), parameter) == value != usual
    assert to_store(REACT, {})[parameter] == value
    assert getattr(of_run(to_store(REACT, {parameter: usual}), REACT), parameter) == usual


@pytest.mark.django_db
def test_a_switched_off_agent_begins_no_run(anna: ChatUser, settings: Any) -> None:
    settings.ENABLE_AGENT = False
    with pytest.raises(ParameterError, match="ENABLE_AGENT"):
        lifecycle.start(anna, "what?", strategy=REACT.name)
    assert not Run.objects.exists()

"""An agent as a value: its name, its prompts, its model, and the stage that its costs belong to."""

from __future__ import annotations

from dataclasses import dataclass

from memoryapp.engine.prompts.prompt import BuiltInPrompt


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent that is asked outside of runs, so that each of its questions is stored as a call.

    ``name`` is stored with the call, ``label`` is the English word for people. ``model`` names the setting with its
    model. ``stage`` is the stage of background work that its costs belong to, or ``runs`` for those of recalls.
    """

    name: str
    label: str
    prompts: tuple[BuiltInPrompt, ...]
    model: str
    stage: str

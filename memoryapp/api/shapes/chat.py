"""The body of ``POST /v1/chat/completions`` and its answer: OpenAI's, of which only what is read here is described."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from memoryapp.api.shapes.fields import KnownName, exemplified


class ChatBody(BaseModel):
    """A request as it would go to the provider. Everything is passed on unchanged, but for the system's message, which
    gets the context. ``user`` names the chat user, if no header does."""

    model_config = ConfigDict(
        extra="allow",
        **exemplified(
            model="google/gemini-3-flash-preview",
            user="anna",
            messages=[{"role": "user", "content": "What did I decide about the GPU?"}],
        ),
    )

    messages: Annotated[list[dict[str, Any]], Field(min_length=1)]
    model: str = ""
    user: KnownName | None = None

    def passed_on(self) -> dict[str, Any]:
        """The fields that were sent, as they were sent."""
        declared = {name: getattr(self, name) for name in self.model_fields_set if name in ChatBody.model_fields}
        return {**(self.model_extra or {}), **declared}


class ChatAnswer(BaseModel):
    """What the provider answered, unchanged."""

    model_config = ConfigDict(extra="allow")

    choices: list[dict[str, Any]] = []


class ProviderFault(BaseModel):
    """OpenAI's error: the provider's own, or what kept it from answering."""

    model_config = ConfigDict(extra="allow")

    message: str
    type: str | None = None
    param: str | None = None
    code: str | int | None = None


class ProviderErrorAnswer(BaseModel):
    """A refusal of the provider, with its own status, or 502 and 504 if it does not answer."""

    error: ProviderFault


class ModelsAnswer(BaseModel):
    """The provider's list of models; without one the model of the settings, or nothing."""

    model_config = ConfigDict(extra="allow")

    object: str = "list"
    data: list[dict[str, Any]]

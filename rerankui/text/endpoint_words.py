"""Why an endpoint gave no answer or no vectors, in the reader's language; the keys are codes of notes."""

from __future__ import annotations

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

WORDS: dict[str, Promise] = {
    "endpoint_unreachable": _("%(host)s cannot be reached%(quoted)s."),
    "endpoint_late": _("%(host)s gave no answer within %(seconds).1f s."),
    "endpoint_unaskable": _("%(host)s cannot be asked; check LLM_BASE_URL%(quoted)s."),
    "endpoint_400": _("%(host)s did not understand the request (%(status)s)%(quoted)s."),
    "endpoint_401": _("%(host)s does not accept the API key; check LLM_API_KEY (%(status)s)%(quoted)s."),
    "endpoint_402": _(
        "%(host)s says that the account has no credit left; top it up or use another key (%(status)s)%(quoted)s."
    ),
    "endpoint_403": _(
        "%(host)s does not allow this request; check what the key may do, or the provider's moderation"
        " (%(status)s)%(quoted)s."
    ),
    "endpoint_404": _(
        "%(host)s does not know the model or the address; check LLM_MODEL and LLM_BASE_URL (%(status)s)%(quoted)s."
    ),
    "endpoint_413": _(
        "%(host)s finds the request too large; show the model fewer or shorter topics (%(status)s)%(quoted)s."
    ),
    "endpoint_422": _("%(host)s did not accept the request (%(status)s)%(quoted)s."),
    "endpoint_429": _("%(host)s is limiting requests; wait, or raise the limit there (%(status)s)%(quoted)s."),
    "endpoint_failing": _("%(host)s cannot answer now (%(status)s)%(quoted)s."),
    "model_refused": _("The model refused to answer%(quoted)s."),
    "answer_filtered": _("The endpoint's content filter stopped the answer%(quoted)s."),
    "question_late": _("The model gave no answer in %(seconds)g seconds."),
    "turn_late": _("No answer within %(seconds).1f s."),
    "stream_unended": _("The stream ended without saying why; what had come is taken as the whole answer."),
    "stream_silent": _("The stream fell silent without an end; what had come is taken as the whole answer."),
    "calls_taken_apart": _("The endpoint sent several tool calls as one (%(n)s); they were taken apart."),
    "call_in_text": _("The model wrote its tool call as text; it was read as a call."),
    "call_in_reasoning": _("The tool call stood in the model's reasoning; it was read as a call."),
    "answer_in_call": _("The model gave its answer as the call of a tool %(name)s; it was read as the answer."),
    "answer_in_text": _("The answer was JSON written into a text of JSON; it was unpacked."),
    "answer_in_reasoning": _(
        "The reply was empty and the answer stood in the model's reasoning; it was taken from there."
    ),
    "embedder_unreachable": _("The embedding endpoint %(url)s cannot be reached%(quoted)s."),
    "embedder_late": _("The embedding endpoint %(url)s did not answer within %(seconds).0f seconds."),
    "embedder_unaskable": _("The embedding endpoint %(url)s cannot be asked%(quoted)s."),
    "embedder_too_long": _("The embedding endpoint %(url)s answered more than %(bytes)s bytes."),
    "embedder_401": _("The embedding endpoint %(url)s answered %(status)s%(quoted)s; check EMBEDDING_API_KEY."),
    "embedder_402": _("The embedding endpoint %(url)s answered %(status)s%(quoted)s; top up the account there."),
    "embedder_403": _("The embedding endpoint %(url)s answered %(status)s%(quoted)s; check what the key may do."),
    "embedder_404": _(
        "The embedding endpoint %(url)s answered %(status)s%(quoted)s; check EMBEDDING_BASE_URL and EMBEDDING_MODEL."
    ),
    "embedder_429": _("The embedding endpoint %(url)s answered %(status)s%(quoted)s; wait, or raise the limit there."),
    "embedder_failing": _("The embedding endpoint %(url)s answered %(status)s%(quoted)s."),
    "embedder_not_json": _("The embedding endpoint %(url)s did not answer with JSON."),
    "embedder_without_vectors": _("The embedding endpoint %(url)s answered without embeddings%(quoted)s."),
    "embedder_miscounted": _("The embedding endpoint %(url)s answered %(vectors)s vectors for %(texts)s texts."),
    "embedder_dimensions": _(
        "The embedding endpoint %(url)s answered %(got)s dimensions; EMBEDDING_DIMENSIONS is %(wanted)s."
    ),
    "embedder_no_numbers": _(
        "The embedding endpoint %(url)s answered no list of numbers; EMBEDDING_DIMENSIONS is %(wanted)s."
    ),
    "embedder_unusable": _("The embedding endpoint %(url)s answered a vector that cannot be used%(quoted)s."),
    "embedder_unnamed": _("Vectors of %(profile)s cannot be made: no setting names the address of %(provider)s."),
    "interrupted": _("It was interrupted."),
}

"""Notes: remarks of events, stored as codes with values and put into words where they are shown.

Programs read the English words in the ``note`` of an event, models read them in answers to tool calls. The same texts
are keys of the catalogue, from which pages take them in the reader's language.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from memoryapp.engine.json_values import Code

INSTEAD: Mapping[str, str] = {
    "nothing": "nothing was chosen",
    "requested": "the first topics it asked for stand in",
    "nearest": "the nearest topics by vector stand in",
}
ENGLISH: Mapping[str, str] = {
    # Why a rerank ended without a choice: by the code of its outcome, and what was selected instead.
    "all_hallucinated": "The model named only ids that are no candidates; {instead}.",
    "protocol_violation": "The model answered without reading any topic; {instead}.",
    "parse_error": "The model's answer could not be read; {instead}.",
    "timeout": "The time for the whole run was over; {instead}.",
    "turn_timeout": "The model took too long for one turn; {instead}.",
    "max_tool_calls": "The model kept calling tools instead of answering; {instead}.",
    "llm_error": "The chat model failed; {instead}.",
    "empty_response": "The model twice said nothing; {instead}.",
    "refused": "The model refused to answer; {instead}.",
    "content_filter": "The endpoint's content filter stopped the answer; {instead}.",
    "disabled": "The reranker is switched off; {instead}.",
    "no_candidates": "Search found no candidates; {instead}.",
    "nothing_relevant": "The model found nothing relevant among the candidates.",
    "none_similar": "No topic is similar enough to the query (the best {best}, at least {threshold}): answering "
    "without context.",
    "all_filtered": "{found} topics were found and all filtered out (the best {best}, at least {threshold}): answering "
    "without context.",
    # What a reader of an answer in words should know.
    "no_model": "No chat model is connected, or models are switched off, so nothing is answered: these are the "
    "passages nearest to the question. Set LLM_BASE_URL and LLM_API_KEY to connect one.",
    "no_answer": "The chat model gave no answer that can be used: these are the passages nearest to the question.",
    "searched_plainly": "Every search of the agent was late, so the question was searched for and answered once.",
    "statements_unsupported": "{n} of the model's statements were left out, because the messages they cite do not say "
    "so.",
    "wrong_citations": "{n} of the model's statements cited a message that does not say so; another one does, and is "
    "cited instead.",
    "nothing_within": "No message meets the filters {filters}.",
    "phrase_absent": "Nothing in the memory contains {phrases}.",
    "filters_widened": "Too little was found within {filters}, which was guessed from the question, so messages beyond "
    "it were searched too.",
    "filters_guessed": "Searched within {filters} alone, which was guessed from the question.",
    "said_by_others": "The question names {named}; what comes nearest to it was said by {who}.",
    "filters_unread": "These filters could not be read, write a day as 2026-05-31: {filters}.",
    # The same of earlier versions.
    "extracts_only": "No model was asked: the answer is put together of what the messages say.",
    "model_failed": "The model gave no answer that can be used, so the answer is put together of what the messages "
    "say.",
    "low_coverage": "The messages found speak of {coverage} of the question, at least {least} is needed.",
    "unsupported": "Of the claims checked {support} are borne out by the messages, at least {least} is needed.",
    "statements_uncited": "{n} of the model's statements cited no message that was found and were left out.",
    "nothing_found": "Nothing in the memory speaks of this.",
    "late_search": "The time for the whole run was over before search had found anything; nothing was chosen.",
    # How it is known what another program chose.
    "foreign_reranked": "Chosen is what the program's reranker returned.",
    "foreign_returned": "Chosen is what the search of the memory returned of what it had found.",
    "foreign_in_prompt": "Chosen are the documents whose words the model was sent afterwards.",
    "foreign_all_found": "The trace does not say what was used, so everything found counts as chosen.",
    # How a run was ended from outside.
    "interrupted_run": "The process that worked on this run was stopped; {instead}.",
    "abandoned": "The process that worked on this run was stopped, so nothing was chosen.",
    "stopped": "{by} stopped this run before the model had chosen.",
    "crashed": "A fault in the program ended this run, so nothing was chosen; the log of the server tells which.",
    "events_lost": "The database lost events of this run after a crash, so it ends behind the last one before the gap.",
    # Why the chat model gave no answer, most of them by the status of its endpoint.
    "endpoint_unreachable": "{host} cannot be reached{quoted}.",
    "endpoint_late": "{host} gave no answer within {seconds:.1f} s.",
    "endpoint_unaskable": "{host} cannot be asked; check LLM_BASE_URL{quoted}.",
    "endpoint_400": "{host} did not understand the request ({status}){quoted}.",
    "endpoint_401": "{host} does not accept the API key; check LLM_API_KEY ({status}){quoted}.",
    "endpoint_402": "{host} says that the account has no credit left; top it up or use another key ({status}){quoted}.",
    "endpoint_403": "{host} does not allow this request; check what the key may do, or the provider's moderation "
    "({status}){quoted}.",
    "endpoint_404": "{host} does not know the model or the address; check LLM_MODEL and LLM_BASE_URL "
    "({status}){quoted}.",
    "endpoint_413": "{host} finds the request too large; show the model fewer or shorter topics ({status}){quoted}.",
    "endpoint_422": "{host} did not accept the request ({status}){quoted}.",
    "endpoint_429": "{host} is limiting requests; wait, or raise the limit there ({status}){quoted}.",
    "endpoint_failing": "{host} cannot answer now ({status}){quoted}.",
    # Why a fork could not go on.
    "not_replayable": "The memory has changed since the run that this one forks, so that its replies no longer fit.",
    # Why a model that was reached gave no answer.
    "model_refused": "The model refused to answer{quoted}.",
    "answer_filtered": "The endpoint's content filter stopped the answer{quoted}.",
    "question_late": "The model gave no answer in {seconds:g} seconds.",
    "turn_late": "No answer within {seconds:.1f} s.",
    "turn_cut_off": "The run ended {seconds:.1f} s into this turn, so its answer was cut off here.",
    # How a reply was read that came in another way than it should.
    "stream_unended": "The stream ended without saying why; what had come is taken as the whole answer.",
    "stream_silent": "The stream fell silent without an end; what had come is taken as the whole answer.",
    "reply_at_limit": "The model reached its limit of tokens; its reply may be cut off.",
    "reply_breaks_off": "The reply breaks off, the second time too; what had come of it is read.",
    "reply_straightened": "The reply came with escapes of HTML, or with a call in an unusual form; it was put right.",
    "calls_taken_apart": "The endpoint sent {n} tool calls as one; they were taken apart.",
    "call_in_text": "The model wrote its tool call as text; it was read as a call.",
    "call_in_reasoning": "The tool call stood in the model's reasoning; it was read as a call.",
    "answer_in_call": "The model gave its answer as the call of a tool {name!r}; it was read as the answer.",
    "answer_in_text": "The answer was JSON in another spelling than asked for; it was put right.",
    "answer_in_words": "The answer was no JSON as asked for; the choice was read from its words.",
    "answer_in_reasoning": "The reply was empty and the answer stood in the model's reasoning; it was taken from "
    "there.",
    # Why the embedding model gave no vectors.
    "embedder_unreachable": "The embedding endpoint {url} cannot be reached{quoted}.",
    "embedder_late": "The embedding endpoint {url} did not answer within {seconds:.0f} seconds.",
    "embedder_unaskable": "The embedding endpoint {url} cannot be asked{quoted}.",
    "embedder_too_long": "The embedding endpoint {url} answered more than {bytes:,} bytes.",
    "embedder_401": "The embedding endpoint {url} answered {status}{quoted}; check EMBEDDING_API_KEY.",
    "embedder_402": "The embedding endpoint {url} answered {status}{quoted}; top up the account there.",
    "embedder_403": "The embedding endpoint {url} answered {status}{quoted}; check what the key may do.",
    "embedder_404": "The embedding endpoint {url} answered {status}{quoted}; check EMBEDDING_BASE_URL and "
    "EMBEDDING_MODEL.",
    "embedder_429": "The embedding endpoint {url} answered {status}{quoted}; wait, or raise the limit there.",
    "embedder_failing": "The embedding endpoint {url} answered {status}{quoted}.",
    "embedder_not_json": "The embedding endpoint {url} did not answer with JSON.",
    "embedder_without_vectors": "The embedding endpoint {url} answered without embeddings{quoted}.",
    "embedder_miscounted": "The embedding endpoint {url} answered {vectors} vectors for {texts} texts.",
    "embedder_dimensions": "The embedding endpoint {url} answered {got} dimensions; EMBEDDING_DIMENSIONS is {wanted}.",
    "embedder_no_numbers": "The embedding endpoint {url} answered no list of numbers; EMBEDDING_DIMENSIONS is "
    "{wanted}.",
    "embedder_unusable": "The embedding endpoint {url} answered a vector that cannot be used{quoted}.",
    "embedder_unnamed": "Vectors of {profile} cannot be made: no setting names the address of {provider}.",
    # Why background work failed.
    "interrupted": "It was interrupted.",
    # Why a file was not read.
    "media_missing": "There is no media {hash} in this memory.",
    "media_unreadable": "The media {hash} cannot be read: {error}.",
    "media_changed": "The media {hash} is not what was sent.",
    "file_encrypted": "The file is protected by a password. Remove it and send the file again.",
    "file_malformed": "The file is damaged, or is not what its name says.",
    "file_bomb": "The file would become far too large when unpacked.",
    "file_limits": "Reading the file took too much time or memory.",
    "file_empty": "There is no text in the file; it may be scanned pages.",
    "file_kind": "Files of this kind cannot be read; text, Markdown, PDF, Word, pictures and sound can.",
    "file_too_large": "The file has more than {most:,} bytes: it is not sent to the chat model.",
    "takes_no_audio": "{model} takes no sound. Connect a chat model that does, and read the file again.",
    "takes_no_image": "{model} takes no pictures. Connect a chat model that does, and read the file again.",
    "no_describer": "No chat model is connected that could describe pictures and sound.",
    "answer_unreadable": "The chat model’s answer cannot be read.",
    "answer_cut": "The chat model’s answer was cut off before it said what is in the file.",
    # Why a query has no vector.
    "embedding_failed": "{words}",
    "no_vector_in_time": "The embedding model gave no vector within {seconds:.3g} s.",
    # What was wrong with a tool call.
    "no_such_tool": "There is no tool {name!r}; {tools}.",
    "names_nothing": 'The call named no topics; its arguments must look like {{"ids": [42, 18]}}.',
    "out_of_time": "The call could not be answered in the time that was left.",
    "topics_out_of_time": "The topics could not be loaded in the time that was left.",
    "not_candidates": "Not among the candidates: {ids}.",
    "already_loaded": "Already loaded above: {ids}.",
    "no_longer_stored": "No longer stored: {ids}.",
    "cut": "Cut at {limit} characters: {ids}.",
}


@dataclass(frozen=True, slots=True)
class Note:
    """One remark. ``code`` is a key of ``ENGLISH``; ``values`` fill its sentence.

    Values are what JSON gives back: texts, numbers, and lists of them.
    """

    code: Code
    values: Mapping[Code, Any] = field(default_factory=dict)

    def stored(self) -> dict[str, Any]:
        """The note as JSON, without the words of an endpoint, which may repeat what it was sent."""
        return {"code": self.code, "values": {**self.values, **({"quoted": ""} if "quoted" in self.values else {})}}


class NotedError(Exception):
    """An error whose text is a sentence for people. ``note`` is the same as a code with values, if it has one."""

    def __init__(self, sentence: str | Note) -> None:
        super().__init__(english([sentence]) if isinstance(sentence, Note) else sentence)
        self.note = sentence if isinstance(sentence, Note) else None


Notes = tuple[Note, ...]


def english(notes: Sequence[Note]) -> str:
    """The notes as sentences; an unknown code is shown as it is."""
    return " ".join(sentence(note) for note in notes)


def sentence(note: Note, say: Callable[[str], str] = str) -> str:
    """The note as a sentence; ``say`` puts an English text, which is to be filled with the values, in other words."""
    if note.code not in ENGLISH:
        return note.code
    values = {name: _words(name, value, say) for name, value in note.values.items()}
    return say(ENGLISH[note.code]).format_map(values)


def _words(name: str, value: Any, say: Callable[[str], str]) -> Any:
    if name == "instead":
        return say(INSTEAD[value]) if value in INSTEAD else value
    if name == "quoted":
        return f": {value}" if value else ""
    listed = ", ".join(value) if isinstance(value, list) else value
    if name == "tools":
        return f"{'the only one is' if len(value) == 1 else 'there are'} {listed}"
    return listed

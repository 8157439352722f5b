"""Formats of the run page: seconds, tokens, bars, states."""

import difflib
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import date

from django import template
from django.template.defaultfilters import floatformat
from django.utils.formats import date_format
from django.utils.functional import Promise
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext, pgettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from memoryapp.engine.candidates import Candidate, ItemCandidate
from memoryapp.engine.chat.trial import TrialFinding
from memoryapp.engine.events import PromptMessage, QueryEnriched, ToolCall
from memoryapp.engine.kinds.kind import Totals
from memoryapp.engine.kinds.react import StatementCheck
from memoryapp.engine.offline.scorer import MODEL as EMBEDDED_MODEL
from memoryapp.engine.text.answers import topics_in
from memoryapp.models import Run
from rerankui.runs.page import outcomes, waterfall
from rerankui.runs.page.answer_view import DOES, marked_text
from rerankui.runs.page.fork import difference
from rerankui.runs.page.result import bounds, days, details, score_parts, sum_of_parts
from rerankui.templatetags.memory import money
from rerankui.text.differences import begins_as_json, indented
from rerankui.text.markdown import marked
from rerankui.text.talk import is_shown
from rerankui.text.words import OUTCOMES, QUESTIONS, part_name, part_words, plain_value

register = template.Library()
register.filter("fork_words", difference)
register.filter("marked_prose", marked_text)
register.filter("is_picture", is_shown)
register.filter(score_parts)
register.filter(sum_of_parts)
register.filter("days_named", days)
register.filter("days_bounded", bounds)

# Of one answer: a choice with long excerpts fits, a runaway model does not weigh the page down.
MOST_SHOWN = 100_000
# Of reasoning: about a screen of its column.
MOST_READ_AT_ONCE = 1_200

STAGES: dict[str, Promise] = {
    "enrich": pgettext_lazy("stage", "enrich"),
    "search": pgettext_lazy("stage", "search"),
    "turn": pgettext_lazy("stage", "turn"),
    "read": pgettext_lazy("stage", "read"),
    "start": pgettext_lazy("stage", "start"),
    "tools": pgettext_lazy("stage", "tools"),
    "check": pgettext_lazy("stage", "check"),
    "wait": pgettext_lazy("stage", "wait"),
}
PIECES: dict[str, Promise] = {
    "exact": _("exact"),
    "normalised": _("same but for case and spaces"),
    "altered": _("altered"),
    "absent": _("absent"),
}
MEDIA: dict[str, Promise] = {
    "image": pgettext_lazy("media", "picture"),
    "audio": pgettext_lazy("media", "sound"),
    "file": pgettext_lazy("media", "file"),
}
LANGUAGES: dict[str, Promise] = {"en": _("English"), "ru": _("Russian")}
ENRICH_NOTES: dict[str, Promise] = {
    "no_model": _("No model rewrote the query, so it is searched as typed."),
    "not_wanted": _("This strategy searches the query as typed."),
    "by_hand": _("Written by hand for this fork."),
    "respelled": _("Words that nobody wrote are read as those of the memory one letter off."),
    "disabled": _("The reranker is switched off, so the query is searched as typed."),
    "unrelated": _(
        "The enricher's line shares neither words nor meaning with what was said, so the query is searched as typed."
        " It wrote:"
    ),
    "guessed": _(
        "In the enricher's line a word of the query gave way to one that nobody said, so the query is searched as"
        " typed. It wrote:"
    ),
}


def _worded(words: Mapping[str, str | Promise], unknown: str | None = None) -> Callable[[str], str | Promise]:
    """What a code is called; one of another version is its own word, or ``unknown``."""

    def word(code: str) -> str | Promise:
        return words.get(code, code if unknown is None else unknown)

    return word


register.filter("does", _worded(DOES, ""))
register.filter("outcome_name", _worded(outcomes.NAMES))
register.filter("state_word", _worded(waterfall.WORDS))
register.filter("trial_question", _worded(QUESTIONS))
register.filter("trial_outcome", _worded(OUTCOMES))
register.simple_tag(_worded(MEDIA), name="media_type")
register.simple_tag(_worded(PIECES), name="piece_status")
register.simple_tag(_worded(STAGES), name="stage_word")
register.simple_tag(waterfall.counts, name="state_counts")


@register.filter
def seconds(value: float) -> str:
    """``0.42 s`` below ten seconds, ``12 s`` above, ``3 ms`` below a tenth of a second."""
    if value < 0.1:
        return gettext("%(n)s ms") % {"n": floatformat(value * 1000, 0)}
    return gettext("%(n)s s") % {"n": floatformat(value, 2 if value < 10 else 0)}


@register.filter
def asked_again(seconds_left: float) -> str:
    """When a capability that was given up is asked for again."""
    minutes = max(round(seconds_left / 60), 1)
    if minutes < 60:
        return ngettext("sent again in %(n)d minute", "sent again in %(n)d minutes", minutes) % {"n": minutes}
    hours = round(minutes / 60)
    return ngettext("sent again in %(n)d hour", "sent again in %(n)d hours", hours) % {"n": hours}


@register.filter
def tokens(totals: Totals) -> str:
    """Both directions together, ``12.4K`` from a thousand."""
    count = totals.input_tokens + totals.output_tokens
    return gettext("%(n)sK") % {"n": floatformat(count / 1000, 1)} if count >= 1000 else str(count)


@register.filter
def chars(size: int) -> str:
    if size >= 1000:
        return gettext("%(n)sK characters") % {"n": floatformat(size / 1000, 0)}
    return ngettext("%(n)s character", "%(n)s characters", size) % {"n": size}


@register.filter
def prompt_size(prompt: Sequence[PromptMessage]) -> str:
    return chars(sum(len(message.content) for message in prompt))


@register.filter
def shown_count(candidates: Sequence[Candidate | ItemCandidate]) -> int:
    return sum(candidate.shown for candidate in candidates)


@register.filter
def unshown_count(candidates: Sequence[Candidate | ItemCandidate]) -> int:
    return len(candidates) - shown_count(candidates)


@register.filter
def is_embedded(model: str) -> bool:
    """Whether this is the stand-in for a chat model."""
    return model == EMBEDDED_MODEL


@register.filter
def is_long(text: str) -> bool:
    """Whether a page shows only the beginning until more is asked for."""
    return len(text) > MOST_READ_AT_ONCE


@register.filter
def language_of_prompt(label: str) -> str | Promise:
    """Russian, of ``rerank-ru-3``."""
    parts = label.split("-")
    return LANGUAGES.get(parts[1], "") if len(parts) > 2 else ""


@register.filter
def state_of(states: Mapping[str, str], topic: str) -> str:
    return states.get(topic, "")


@register.filter
def wording(found_by: Mapping[str, int]) -> str:
    """Which wording of the query found a candidate, of the two that were searched."""
    if len(found_by) > 1:
        return pgettext("wording", "both wordings")
    return pgettext("wording", "as typed") if "original" in found_by else pgettext("wording", "as rewritten")


@register.filter
def wording_ranks(found_by: Mapping[str, int]) -> str:
    """The rank by each wording alone, ``as typed #3, as rewritten #1``."""
    words = {"original": pgettext("wording", "as typed"), "rewrite": pgettext("wording", "as rewritten")}
    return ", ".join(f"{words[name]} #{rank}" for name, rank in found_by.items() if name in words)


@register.simple_tag
def state_words() -> str:
    """Every state's word as JSON, for the page's script."""
    return json.dumps({state: str(words) for state, words in waterfall.WORDS.items()}, ensure_ascii=False)


@register.filter
def in_rows(
    candidates: Sequence[waterfall.AnyCandidate], by_similarity: bool = False
) -> list[tuple[waterfall.AnyCandidate, str]]:
    return list(waterfall.rows(candidates, by_similarity))


@register.filter
def cost(dollars: float, model: str) -> str:
    """Four digits, or that the embedded model costs nothing."""
    return gettext("free") if not dollars and model == EMBEDDED_MODEL else money(dollars)


@register.filter
def percent(share: float) -> str:
    return f"{round(100 * share)}\u202f%"


@register.filter
def score_bar(score: float) -> SafeString:
    """A bar as SVG, for the site's policy allows no inline styles."""
    width = round(max(0.0, min(score, 1.0)) * 100)
    return format_html(
        '<svg class="bar" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">'
        '<rect class="bar-ground" width="100" height="6" rx="1"/><rect class="bar-value" width="{}" height="6" rx="1"/>'
        "</svg>",
        width,
    )


@register.filter
def word_changes(enriched: QueryEnriched) -> SafeString:
    """The enriched query, with the words that the enricher brought in marked."""
    before, after = enriched.query.split(), enriched.enriched.split()
    matcher = difflib.SequenceMatcher(a=[w.lower() for w in before], b=[w.lower() for w in after], autojunk=False)
    parts = []
    for tag, _a, _b, start, end in matcher.get_opcodes():
        words = " ".join(after[start:end])
        if words:
            parts.append(format_html("<span>{}</span>" if tag == "equal" else "<ins>{}</ins>", words))
    return format_html_join(" ", "{}", ((part,) for part in parts))


@register.filter
def enrich_note(event: QueryEnriched) -> str:
    """Why the query is searched as typed; the words of an endpoint or a model are quoted unchanged."""
    code, _colon, quoted = event.note.partition(": ")
    sentence = _enricher_failed(event) if code == "failed" else ENRICH_NOTES.get(code)
    if sentence is None:
        return event.note
    return format_html("{} <q>{}</q>", sentence, quoted) if quoted else str(sentence)


def _enricher_failed(event: QueryEnriched) -> str:
    """Runs of earlier versions do not say why."""
    cause = outcomes.NO_ANSWER.get("timeout" if event.cause == "turn_timeout" else event.cause)
    if cause is None:
        return gettext("The enricher gave no answer, so the query is searched as typed.")
    why = f"{cause}, {event.status}" if event.status else cause
    return gettext("The enricher gave no answer (%(why)s), so the query is searched as typed.") % {"why": why}


register.filter(outcomes.remarks)


@register.filter
def marked_statement(check: StatementCheck) -> SafeString:
    """A statement of an answer with the words marked in which its messages differ."""
    return marked(check.text, (*check.missing, *check.turned))


@register.filter
def trial_notes(finding: TrialFinding) -> str:
    """How the answer was read that came in another way than it should."""
    return " ".join(map(outcomes.sentence_of, finding.notes))


register.filter(outcomes.error_words)
register.filter(outcomes.reading_words)
register.filter("item_details", details)
register.filter(part_name)
register.filter(part_words)
register.filter(plain_value)


@register.filter
def ending(run: Run) -> list[str]:
    """How a finished run ended in a list: why nobody chose, no answer, or what was chosen, kind by kind."""
    if run.ending in ("", "chosen"):
        return choice(run)
    return [str({**outcomes.NAMES, **outcomes.CHOICES}.get(run.ending, run.ending))]


@register.filter
def choice(run: Run) -> list[str]:
    """What a run chose of the memory, kind by kind: ``2 topics`` and ``1 person``, or ``nothing chosen`` alone."""
    return [words for _n, words in _kinds_chosen(run)] or [gettext("nothing chosen")]


@register.filter
def choice_in_short(run: Run) -> str:
    """The same where there is room for two words: the first kind, and how many there are of others, ``2 topics +1``."""
    more = sum(n for n, _words in _kinds_chosen(run)[1:])
    return f"{choice(run)[0]} +{more}" if more else choice(run)[0]


def _kinds_chosen(run: Run) -> list[tuple[int, str]]:
    topics, people, artifacts = run.selected_count, run.selected_people_count, run.selected_artifact_count
    kinds = (
        (topics, outcomes.chosen_words(run, topics)),
        (people, ngettext("%(n)s person", "%(n)s people", people)),
        (artifacts, ngettext("%(n)s artifact", "%(n)s artifacts", artifacts)),
    )
    return [(n, words % {"n": n}) for n, words in kinds if n]


@register.filter
def day_of(text: str) -> str:
    """A day of a candidate line, ``2026-03-01``, in the reader's format; any other text unchanged."""
    try:
        return date_format(date.fromisoformat(text), gettext("j M Y"))
    except ValueError:
        return text


@register.filter
def asked_ids(call: ToolCall) -> list[str]:
    return topics_in(call.arguments)


@register.filter
def pretty_json(text: str) -> str:
    """JSON indented for reading; anything else as it came, and of a very long text the beginning."""
    if len(text) > MOST_SHOWN:
        return _beginning(text)
    try:
        read = json.loads(text)
    except (ValueError, RecursionError):  # a model may write thousands of digits or of brackets
        return text
    # Indenting multiplies what is deeply nested, so the outcome is bounded too.
    return _beginning(indented(json.dumps(read, ensure_ascii=False) if "\\u" in text else text))


@register.filter
def being_written(text: str) -> str:
    """What a model has written so far, as ``pretty_json`` will show it."""
    return indented(text) if begins_as_json(text) and len(text) <= MOST_SHOWN else text


def _beginning(text: str) -> str:
    rest = len(text) - MOST_SHOWN
    return text if rest <= 0 else text[:MOST_SHOWN] + "\n" + gettext("… and %(size)s more") % {"size": chars(rest)}

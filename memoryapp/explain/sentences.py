"""Fates in words: one sentence for each stage and case, with what tells the run's time from today."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.formats import number_format
from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from memoryapp.explain.fate import Fate
from memoryapp.explain.wanted import Wanted

# By stage and case; a case that is not listed has the sentence of its stage.
SENTENCES: Mapping[tuple[str, str], Promise] = {
    ("unknown", ""): _("Nothing in this memory says that, in these words or in other words near to them in meaning."),
    ("unknown", "words"): _("Nothing in this memory says that in these words; meanings could not be compared."),
    ("unknown", "id"): _("This memory has nothing with this id, and no trace that it ever had."),
    ("unknown", "later"): _("%(what)s came into this memory only after this run had searched."),
    ("erased", ""): _("This was erased from the memory."),
    ("erased", "withdrawn"): _("%(what)s was withdrawn together with its import, so it is in no topic."),
    ("in_session", ""): _("%(what)s was in no topic yet when this run searched: its session had not been archived."),
    ("not_searched", ""): _("This run ended before its search had found anything, so nothing could be recalled."),
    ("no_vector", "query"): _("%(id)s shares no word with the query, and the query had no vector to compare."),
    ("no_vector", "passages"): _(
        "%(id)s had no vector yet when this run searched, and it shares no word with the query."
    ),
    ("no_vector", "no_passage"): _("%(id)s contains no text that could be searched."),
    ("filtered", ""): _("%(id)s has no message within the filters of this run: %(filters)s."),
    ("filtered", "never"): _("%(id)s is never recalled: somebody decided so before this run."),
    ("below_threshold", ""): _(
        "%(id)s shares no word with the query, and its similarity %(cosine)s is below %(threshold)s, so the model was"
        " not shown it."
    ),
    ("beyond_candidates", ""): _("%(id)s was ranked #%(rank)s, and only the first %(shown)s were shown to the model."),
    ("cut", "initial"): _("The first cut removed %(id)s: its similarity %(cosine)s is below %(bound)s."),
    ("cut", "initial_top_k"): _("The first cut removed %(id)s: it is #%(rank)s by similarity, and %(bound)s are kept."),
    ("cut", "threshold"): _("The second threshold removed %(id)s: its similarity %(cosine)s is below %(bound)s."),
    ("cut", "gap"): _(
        "%(id)s comes after the gap: similarity falls from %(before)s to %(after)s there, by more than %(bound)s."
    ),
    ("cut", "top_k"): _("%(id)s was similar enough, but only the first %(bound)s are kept; it is #%(rank)s."),
    ("not_requested", ""): _("The model saw %(id)s as #%(rank)s of the candidates, and did not ask to read it."),
    ("not_requested", "fallback"): _(
        "%(id)s was #%(rank)s of the candidates, but the model chose nothing (%(fallback)s) and had not asked for it."
    ),
    ("not_requested", "hits"): _(
        "%(id)s was #%(rank)s of the candidates, but none of its passages was among those that were read."
    ),
    ("not_requested", "scorer"): _(
        "The embedded scorer saw %(id)s as #%(rank)s of the candidates, and read others that promise more."
    ),
    ("did_not_fit", "size"): _(
        "The model asked for %(id)s, but its %(size_chars)s characters did not fit into the %(read_chars)s of one"
        " answer."
    ),
    ("did_not_fit", "late"): _("The model asked for %(id)s, but the run ended before it was read."),
    ("did_not_fit", "context"): _(
        "Passages of %(id)s were found, but did not fit into the %(context_tokens)s tokens of the sources."
    ),
    ("not_chosen", ""): _("The model read %(id)s and did not choose it."),
    ("not_chosen", "scorer"): _(
        "The embedded scorer read %(id)s and kept others: the last of them holds the answer with a chance of"
        " %(least)s, and this one with less."
    ),
    ("not_chosen", "scorer_chance"): _(
        "The embedded scorer read %(id)s and did not keep it: it holds the answer with a chance of %(chance)s, the last"
        " one kept with %(least)s."
    ),
    ("not_chosen", "scorer_none"): _("The embedded scorer read %(id)s, but no topic says enough about the query."),
    ("not_chosen", "item"): _("The model was shown %(id)s in full and did not choose it."),
    ("not_chosen", "fallback"): _("%(id)s was read, but the model chose nothing (%(fallback)s)."),
    ("beyond_limit", "order"): _("%(id)s is #%(place)s by similarity, and only the first %(limit)s are chosen."),
    ("beyond_limit", "picked"): _("The model chose %(id)s as no. %(place)s, but at most %(limit)s are kept."),
    ("beyond_limit", "stand_ins"): _(
        "The model asked for %(id)s but chose nothing (%(fallback)s); the first %(limit)s it asked for were used"
        " instead."
    ),
    ("beyond_limit", "passages"): _("%(id)s was found and read, but only the %(limit)s nearest are shown."),
    ("not_in_context", ""): _("%(id)s was chosen, but its messages were in the conversation already."),
    ("not_in_context", "message"): _("%(id)s was chosen, but this message of it did not enter the context."),
    ("not_used", ""): _("%(id)s was in the context, and the answer does not use it."),
    ("not_used", "refused"): _("%(id)s was among the sources, but they did not bear out an answer."),
    ("chosen", ""): _("It was not lost: %(id)s was chosen, as no. %(place)s."),
    ("chosen", "pinned"): _("It was not lost: %(id)s was handed over, because somebody pinned it."),
    ("chosen", "instead"): _("The model chose nothing (%(fallback)s); %(id)s was used instead."),
}
_DIGITS = {"cosine": 3, "threshold": 3, "before": 3, "after": 3}
# Written with two digits, as the scorer writes them.
_CHANCES = ("chance", "least")
# What the model did not do.
_BY_MODEL = ("not_requested", "not_chosen", "beyond_limit")


def sentence(fate: Fate, wanted: Wanted, *, by_scorer: bool = False) -> str:
    """What became of it, then what else there is to know about its ids. ``by_scorer``: no chat model chose."""
    template = SENTENCES.get((fate.stage, fate.case)) or SENTENCES.get((fate.stage, "")) or fate.stage
    if fate.stage == "beyond_candidates" and not fate.numbers.get("rank"):
        template = _("%(id)s was ranked beyond #200, and only the first %(shown)s were shown to the model.")
    values = {name: _written(name, value) for name, value in fate.numbers.items()}
    if "cosine" in values and values["cosine"] in (values.get("bound"), values.get("threshold")):
        values["cosine"] = str(number_format(fate.numbers["cosine"], 5, use_l10n=True))
    blank = dict.fromkeys(("rank", "fallback", "filters", "reason", "place", "limit", "shown"), "")
    what = _what(wanted, fate)
    lost = str(template) % {**blank, **values, "id": fate.id, "what": what}
    if wanted.case == "meaning" and wanted.ids:
        near = gettext("No message says that in these words; nearest in meaning is %(id)s.") % {"id": wanted.ids[0]}
        lost = f"{near} {lost}"
    return " ".join([lost, *_chooser(fate, by_scorer), *_more(fate, wanted)])


def _chooser(fate: Fate, by_scorer: bool) -> list[str]:
    """Who chose, where that was no chat model."""
    if fate.case.startswith("scorer"):
        return [gettext("The scorer chooses because no chat model was connected.")]
    told = by_scorer and fate.stage in _BY_MODEL
    return [gettext("In place of a chat model the embedded scorer chose.")] if told else []


def _what(wanted: Wanted, fate: Fate) -> str:
    if wanted.message is not None:
        return gettext("Message %(id)s") % {"id": wanted.message.external_id}
    return wanted.asked or fate.id


def _written(name: str, value: Any) -> str:
    if isinstance(value, float):
        written = round(value, _DIGITS.get(name, 2))
        return str(number_format(written, 2 if name in _CHANCES else None, use_l10n=True))
    return str(number_format(value, force_grouping=True)) if isinstance(value, int) else str(value)


def _more(fate: Fate, wanted: Wanted) -> list[str]:
    """What tells the run's time from today, and one id from another."""
    known: list[str] = []
    then = wanted.ids[0] if wanted.ids else ""
    if len(wanted.holders) > 1:
        known.append(gettext("%(topics)s say it alike.") % {"topics": ", ".join(wanted.holders)})
    if copy := fate.numbers.get("copy"):
        known.append(gettext("%(copy)s says the same, so only %(id)s was shown.") % {"copy": copy, "id": fate.id})
    elif wanted.message is not None and then and not wanted.holders:
        known.append(gettext("The message was in %(topic)s then.") % {"topic": then})
    elif wanted.asked and then and wanted.asked != then:
        known.append(
            gettext("%(asked)s was not live then; its messages were in %(topic)s.")
            % {"asked": wanted.asked, "topic": then}
        )
    if then and then not in wanted.now and wanted.now:
        known.append(gettext("Today they are in %(topics)s.") % {"topics": ", ".join(wanted.now[:3])})
    return known

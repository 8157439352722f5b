"""The kind of thing that a question asks for, as far as its words show it, and whether a sentence contains such a
thing.

"How long" asks for a duration, "кто" for a person, "why" for a reason. A sentence contains what is asked for if it has
a figure or a word of that kind that is not in the question: a question about Monday already knows Monday. There is no
expression for places, because nearly every sentence has a preposition.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from memoryapp.engine.text.lexical import normal

_UNITS = (
    r"(?:sec|min|hour|day|week|month|year|night)\w{0,4}"
    r"|сек\w*|мин\w*|час\w{0,3}|дн[яей]\w?|день|суток|сутки|недел\w+|месяц\w{0,3}|лет|год\w{0,2}"
)
_COUNTED = (
    r"one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty|forty|fifty|sixty|hundred|thousand"
    r"|dozen|half|once|twice"
    r"|од(?:ин|на|но|ной|ного)|дв[ае]|двух|три|трех|четыре\w?|пят[ьи]|шест[ьи]|сем[ьи]|восем[ьи]|девят[ьи]|десят[ьи]"
    r"|\w{3,6}надцат[ьи]|двадцат[ьи]|тридцат[ьи]|сорок|пятьдесят|сто|сотн\w+|тысяч\w*|вдвое|втрое|дважды"
)
_DAYS = (
    r"(?:mon|tues|wednes|thurs|fri|satur|sun)days?|today|yesterday|tomorrow|tonight|(?:last|next|this) \w+|ago"
    r"|weekends?|january|february|march|april|may \d|june|july|august|september|october|november|december|mornings?"
    r"|evenings?"
    r"|понедельник\w*|вторник\w*|сред[ауые]|четверг\w*|пятниц\w+|суббот\w+|воскресень\w+|(?:поза)?вчера|(?:после)?завтра"
    r"|сегодня|назад|(?:прошл|следующ|эт)\w{2,4} (?:недел\w+|месяц\w*|год\w*)|выходн\w+"
    r"|январ\w+|феврал\w+|март\w?|апрел\w+|ма[йяе]|июн\w+|июл\w+|август\w?|сентябр\w+|октябр\w+|ноябр\w+|декабр\w+"
)
_PEOPLE = (
    r"m[uo]m|mother|dad|father|wife|husband|brother|sister|son|daughter|cousin|uncle|aunt|boss|doctor|vet|friend"
    r"|мам\w{1,2}|пап\w{1,2}|жен[аыуе]|муж\w{0,2}|брат\w{0,2}|сестр\w{1,2}|сын\w{0,2}|доч\w+|дяд\w+|тет\w+|врач\w*"
    r"|подруг\w+|друг\w?|начальни\w+|сосед\w+"
)
# A name inside a sentence, where a capital letter does not merely begin the sentence.
_NAME = re.compile(r"(?<=[^\W\d_][ ,«“\"(]|[,;:] )([A-ZА-ЯЁ][^\W\d_]+)")
# So many first letters identify a name in every grammatical case.
_STEM_CHARS = 4


# More specific kinds come first.
_ASKED: Mapping[str, re.Pattern[str]] = {
    "clock": re.compile(r"\b(?:what time|at what hour|в котором часу|во сколько|[дс]о скольки)\b"),
    "duration": re.compile(
        r"\b(?:how (?:long|quickly|soon)|как долго|за сколько"
        r"|сколько (?:минут|секунд|часов|дней|недель|месяцев|лет|времени))\b"
    ),
    "money": re.compile(
        r"\b(?:how much (?:\w+ ){0,4}?(?:costs?|pay|paid|spen[dt]|charged?|earn|owe)|price|salary|budget|sums?"
        r"|стоит|стоил\w?|стоимост\w+|почем|денег|цен[аыуе]|зарплат\w+|заплатил\w?|сумм\w+|бюджет\w?)\b"
    ),
    "share": re.compile(r"\b(?:percent\w*|shares? of|sla|rate|процент\w*|дол[яюи]|ставк\w+)\b"),
    "day": re.compile(
        r"\b(?:when|(?:what|which) (?:day|date|month|year|morning|evening|weekend)s?"
        r"|когда|как\w{2,3} (?:числ[оае]|день|дня|дне|месяц\w?|год[ау]?))\b"
    ),
    "person": re.compile(
        r"\b(?:who|whom|whose|what is the name|which (?:author|partner|friend|colleague|doctor)"
        r"|кто|кого|кому|кем|чей|чь[яеи]|чьей|чьему|чьим|чьего|зовут)\b"
    ),
    "reason": re.compile(r"\b(?:why|what for|what made|почему|зачем|отчего|из-за чего)\b"),
    "figure": re.compile(
        r"\b(?:how (?:many|much|old|fast|heavy|deep|tall|far|big|large|often|high|wide|busy)|what (?:score|number|size)"
        r"|сколько|скольк\w+|как\w{2,3} (?:счет|вес|рост|размер|балл\w*|отметк\w+|оценк\w+))\b"
    ),
}
_HOLDING: Mapping[str, re.Pattern[str]] = {
    "clock": re.compile(
        r"\d{1,2}[:.]\d\d|\d\s?[ap]\.?m\b|o.clock|\bnoon|midnight|полдень|полноч\w+|\d (?:час|утра|вечера|ночи)"
    ),
    "duration": re.compile(
        rf"(?:\d|\b(?:{_COUNTED}|an?|несколько|пар[уа]))[\s-]?(?:{_UNITS})\b|полчаса|полгода|полтора\b"
    ),
    "money": re.compile(
        r"[$€£¥₽]\s?\d|\d\s?(?:k|к|тыс\w*|млн|миллион\w*|руб\w*|долл\w*|евро|[ий]ен\w?)\b|\bтысяч\w*"
        r"|\d\s?(?:dollars?|euros?|pounds?|thousand|million)\b"
    ),
    "share": re.compile(r"\d\s?%|percent|процент|\d[.,]\d"),
    "day": re.compile(rf"\b(?:{_DAYS})\b|\b(?:19|20)\d\d\b|\b\d{{1,2}}[./-]\d\d?\b|\b\d{{1,2}}(?:st|nd|rd|th|-?го)\b"),
    "person": re.compile(rf"\b(?:{_PEOPLE})\b"),
    "reason": re.compile(
        r"\b(?:because|since|so that|due to|otherwise|or else|too \w+|can.?t|cannot"
        r"|потому|поэтому|так как|чтобы|иначе|из-за|ведь|поскольку|причин\w*|слишком|нельзя)\b|[:;]|—"
    ),
    "figure": re.compile(rf"\d|\b(?:{_COUNTED})\b"),
}


def kind_asked_for(question: str) -> str:
    """The kind that a question names first; of two at the same place, the more specific one. Empty when its words name
    none."""
    text = normal(question)
    places = [(found.start(), number) for number, each in enumerate(_ASKED.values()) if (found := each.search(text))]
    return list(_ASKED)[min(places)[1]] if places else ""


def holds(kind: str, sentence: str, question: str) -> bool:
    """Whether a ``sentence`` contains a thing of this kind that is not in the ``question``."""
    known = normal(question)
    things = [each[0] for each in _HOLDING[kind].finditer(normal(sentence))]
    names = [normal(name)[:_STEM_CHARS] for name in _NAME.findall(sentence)] if kind == "person" else []
    return any(each not in known for each in (*things, *names))

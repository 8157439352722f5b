"""Irregular English forms: "went" and "go", "children" and "child" are one word, though no stemmer joins them.

Search counts all forms of a word as one term, at query time, so stored data need not change. Left out are forms that a
stemmer joins already ("goes", "making"), stop words ("was", "had"), and forms that are more often another word ("left",
"saw" the tool, "found" an institute, "lay").

Measured on the development set, 760 questions over five public English two-person conversations cut by the archive, by
which the list was made too: recall@5 +.002, recall@10 unmoved, MRR +.007.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

from memoryapp.engine.text.lexical import stems, words

# The base form first, then the others.
_FORMS = """
become became
begin began begun
bend bent
bite bit bitten
blow blew blown
break broke broken
bring brought
build built
burn burnt
buy bought
catch caught
choose chose chosen
come came
deal dealt
dig dug
draw drew drawn
dream dreamt
drink drank drunk
drive drove driven
eat ate eaten
fall fell fallen
feed fed
feel felt
fight fought
fly flew flown
forget forgot forgotten
forgive forgave forgiven
freeze froze frozen
get got gotten
give gave given
go goes went gone
grow grew grown
hang hung
hear heard
hide hid hidden
hold held
keep kept
know knew known
lead led
learn learnt
lend lent
lose lost
make made
mean meant
meet met
pay paid
ride rode ridden
ring rang rung
rise rose risen
run ran
say said
see saw seen
seek sought
sell sold
send sent
shake shook shaken
shoot shot
show shown
sing sang sung
sink sank sunk
sit sat
sleep slept
speak spoke spoken
spend spent
stand stood
steal stole stolen
stick stuck
swim swam swum
take took taken
teach taught
tear tore torn
tell told
think thought
throw threw thrown
understand understood
wake woke woken
wear wore worn
win won
write wrote written
child children
foot feet
goose geese
half halves
knife knives
leaf leaves
life lives
loaf loaves
man men
mouse mice
person people
shelf shelves
thief thieves
tooth teeth
wife wives
wolf wolves
woman women
"""


@cache
def _forms_of() -> Mapping[str, tuple[str, ...]]:
    """Every form, with all forms of its word."""
    groups = [tuple(line.split()) for line in _FORMS.split("\n") if line]
    return {form: group for group in groups for form in group}


@cache
def _bases() -> Mapping[str, str]:
    """The stem of every form, with the stem of its word's base form."""
    return {stem: stems(group[0])[0] for form, group in _forms_of().items() for stem in stems(form)}


def base(stem: str) -> str:
    """The stem of the base form if ``stem`` belongs to an irregular form, otherwise ``stem`` itself."""
    return _bases().get(stem, stem)


def bases(found: Iterable[str]) -> list[str]:
    """``base`` of each."""
    known = _bases()
    return [known.get(stem, stem) for stem in found]


def other_forms(text: str) -> dict[str, tuple[str, ...]]:
    """The irregular words of a ``text`` in lower case, each with the other forms of the same word."""
    known = _forms_of()
    found = dict.fromkeys(word for word in words(text.lower()) if word in known)
    return {word: tuple(form for form in known[word] if form != word) for word in found}

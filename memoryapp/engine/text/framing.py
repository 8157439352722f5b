"""Wording of a question that carries nothing: greetings, courtesy, "remind me", "do you know", "again".

It is taken off before words count and before a vector is made, so a question finds the same with and without it. The
phrases are data, compared word by word in one spelling, which makes case, accents and punctuation alike.
"""

from collections.abc import Collection, Iterator, Mapping
from functools import cache
from itertools import product

from memoryapp.engine.text.lexical import is_question_word, normal
from memoryapp.engine.text.scripts import WORD

# Phrases are separated by commas; of alternatives between strokes one is meant, and an empty
# one may be missing. Words before a question:
_OPENING = """
hey, hi, hello, hey there, hi there, ok, okay, so, well, um, uh, sorry, please, pls, plz, btw, by the way, quick
question, question, can|could|would|will you, remind|tell|give|show me, just|quickly remind|tell me, help me
remember|recall|find, let me know, do|did you happen to know|remember|recall, do|did you know|remember|recall, i
forgot|forget|wonder, i can t remember|recall, i cannot|can remember|recall, i don t remember|recall|know, i need|want
to know|remember, i d like to know, i would like to know, i was wondering, i am|m trying to remember|recall, any idea,
do you have any idea, look up, find out, say, привет, здравствуй|здравствуйте, эй, слушай|слушайте, скажи|скажите,
подскажи|подскажите, напомни|напомните, расскажи|расскажите, пожалуйста, плиз, пж, кстати, а скажи,
скажи|напомни|подскажи|расскажи мне, не подскажешь|подскажете|напомнишь|помнишь|знаешь|скажешь, ты не помнишь|знаешь,
помнишь|помните, знаешь|знаете, ты помнишь|знаешь, можешь|можете|мог_бы|могли_бы напомнить|сказать|подсказать,
можешь|можете мне напомнить|сказать|подсказать, ты можешь напомнить|сказать|подсказать, я забыл|забыла, я не помню, не
помню, хочу|хотел_бы|хотела_бы знать|вспомнить|узнать, интересно, ну, слушай а, так, hallo, hi, hey, guten tag, bitte,
sag|sagen|erinner|erinnere|verrat mir|mich, sag|sagen|erinner|erinnere mal, sagen|erinnern sie mir|mich,
kannst|könntest|können|könnten du|sie mir|mich |bitte |nochmal |sagen|verraten|erinnern|helfen, weißt|erinnerst du
|noch, wissen sie |noch, ich habe vergessen, ich weiß nicht mehr, übrigens, sag, also, salut, bonjour, coucou, dis,
dis moi, dites moi, rappelle|rappelez moi, s il te|vous plait, stp, svp, peux|pourrais tu, pouvez|pourriez vous, tu
peux, peux|pourrais tu me|m dire|rappeler, pouvez|pourriez vous me|m dire|rappeler, tu peux me|m dire|rappeler, tu
sais|te_souviens|te_rappelles, sais|te_souviens tu, te souviens tu, sais tu, j ai oublié, je ne sais|me_souviens plus,
au fait, hola, oye, por favor, porfa, dime, dígame, recuérdame, recuérdeme, me puedes|podrías decir|recordar,
puedes|podrías|puede|podría decirme|recordarme, sabes, te acuerdas |de, recuerdas, olvidé, no recuerdo, se me olvidó,
por cierto, buenas, ciao, scusa, per favore, dimmi, ricordami, mi puoi|potresti dire|ricordare, puoi|potresti
dirmi|ricordarmi, sai, ti ricordi, ho dimenticato, non ricordo, a proposito, oi, olá, por favor, me
diz|diga|lembra|lembre, diz me, diga me, lembra me, você|voce pode|poderia me dizer|lembrar, pode|podes|poderia me
dizer|lembrar, podes|pode dizer|lembrar me, sabes, você|voce sabe|lembra, lembras te, esqueci, não me lembro, aliás,
hoi, hallo, alsjeblieft, zeg, vertel me|mij, herinner me|mij |er |even |aan, kun|kan|kunt je|u me|mij |nog |even |eens
|vertellen|zeggen|herinneren, weet je|u |nog, ik ben vergeten, trouwens, cześć, hej, proszę, powiedz |mi, przypomnij
|mi, możesz|mógłbyś|mogłabyś |mi |proszę powiedzieć|przypomnieć, wiesz |może, pamiętasz |może, czy wiesz|pamiętasz,
zapomniałem, zapomniałam, nie pamiętam, a_propos, słuchaj, merhaba, selam, hey, lütfen, bana söyle|hatırlat,
söyle|hatırlat |bana, söyler|hatırlatır misin|mısın, bana söyler|hatırlatır misin|mısın, biliyor|hatırlıyor musun,
unuttum, bu arada, acaba, привіт, слухай, скажи|скажіть, підкажи|підкажіть, нагадай|нагадайте |мені, будь ласка, чи
пам'ятаєш|знаєш, ти пам ятаєш|знаєш, чи пам ятаєш, пам ятаєш, можеш нагадати|сказати|підказати, я забув|забула, не пам
ятаю, ahoj, prosím, řekni|pověz|připomeň mi, můžeš|mohl_bys|mohla_bys mi |prosím říct|připomenout, víš, pamatuješ |si,
nevíš, zapomněl|zapomněla jsem, nepamatuju si, hele, مرحبا, أهلا, من فضلك, لو سمحت, قل لي, أخبرني, ذكرني, هل
تذكر|تعرف|تعلم, هل يمكنك أن تخبرني|تذكرني, هل يمكنك تذكيري|إخباري, نسيت, بالمناسبة, नमस्ते, सुनो, कृपया, प्लीज़, मुझे
बताओ|बताइए, बताओ, बताइए, याद दिलाओ|दिलाइए, मुझे याद दिलाओ|दिलाइए, क्या तुम्हें|आपको|तुमको याद है |कि, क्या तुम|आप
जानते|जानती हो|हैं |कि, क्या तुम|आप बता सकते|सकती हो|हैं |कि, मैं भूल गया|गई, वैसे, 안녕, 저기, 혹시, 알려줘, 말해줘, 기억나, 그런데,
"""
# Words that join those to the question.
_JOINING = """
about, of, if, whether, that, me, is it that, о, об, про, насчет, ли, еще раз, мне, а, ob, dass, noch, mal, noch
mal, nochmal, est ce que, di, of, dat, even, czy, że, o, jestli, že, чи, про, мені, أن, عن, إن, कि
"""
# Words after a question:
_CLOSING = """
again, please, pls, plz, thanks, thank you, thx, do you know|remember|recall, remind me, i forgot|forget, by any
chance, if you remember|know, can you remind|tell me, any idea, right, пожалуйста, плиз, пж, спасибо,
напомни|напомните, напомни мне, не помнишь|подскажешь|знаешь, помнишь, еще раз, я забыл|забыла, скажи, там, bitte,
nochmal, noch mal, noch gleich, nochmals, danke, weißt du |das |noch, s il te|vous plait, stp, svp, merci, déjà, tu
sais|te_souviens, por favor, porfa, gracias, otra vez, te acuerdas, recuerdas, sabes, per favore, grazie, di nuovo, ti
ricordi, obrigado|obrigada, de novo, mesmo, lembras, alsjeblieft, bedankt, ook alweer, alweer, ook weer, proszę,
dzięki, jeszcze raz, pamiętasz, wiesz, lütfen, teşekkürler, hatırlıyor|biliyor musun, hatırlat, söyle, будь ласка,
дякую, нагадай |мені, ще раз, prosím, díky, ještě jednou, víš, من فضلك, لو سمحت, شكرا, مرة أخرى, कृपया, प्लीज़,
धन्यवाद, फिर से, याद दिलाओ, बताओ, 알려줘, 말해줘, 좀, 기억나,
"""
# Asked for by what it is called: the word says only that a name is wanted.
_CALLED = "called, named, name again"
# Within a text without spaces.
_UNSPACED_OPENING = (
    "请问 請問 请提醒我一下 请提醒我 提醒我一下 提醒我 请告诉我 告诉我 你还记得 你记得 你知道 对了"
    " ねえ すみません ちなみに"
)
_UNSPACED_CLOSING = "来着 谢谢 拜托 请告诉我 教えてください 教えて 覚えてる 覚えていますか でしたっけ だっけ ช่วยบอกหน่อย"
_LONGEST = 2_000
_MOST = 12


def bare(question: str) -> str:
    """The question without what frames it; the whole of it where nothing else would remain, and of a long text."""
    if len(question) > _LONGEST:
        return question
    found = list(WORD.finditer(question))
    words = [normal(word[0]) for word in found]
    first, last = _opened(words), len(words)
    while last > first and (length := _length(words[first:last][::-1], _closings())):
        last -= length
    if words[first : first + 1] in (["what"], ["how"]) and (length := _length(words[first:last][::-1], _called())):
        last -= length
    if not any(not is_question_word(word) for word in words[first:last]):
        return _unspaced(question)
    if (first, last) == (0, len(words)):
        return _unspaced(question)
    # What follows the last word is of the question where it is its mark.
    end = found[last - 1].end()
    mark = next((mark for mark in question[end:] if mark in "?？؟"), "")
    return question[found[first].start() : end] + mark


def _opened(words: list[str]) -> int:
    """The place of the first word after the opening."""
    at = 0
    while length := _length(words[at : at + _MOST], _openings()):
        at += length
        at += _length(words[at : at + _MOST], _joining())
    return at


def _unspaced(text: str) -> str:
    plain = text.strip()
    for phrase in _UNSPACED_OPENING.split():
        plain = plain.removeprefix(phrase).lstrip(" ,、，:：")
    ended = plain.rstrip("?？。.! ")
    for phrase in _UNSPACED_CLOSING.split():
        ended = ended.removesuffix(phrase)
    plain = ended.rstrip(" ,、，") if ended != plain.rstrip("?？。.! ") else plain
    return plain if WORD.search(plain) and len(plain) < len(text.strip()) else text


def _length(words: list[str], phrases: Mapping[str, Collection[tuple[str, ...]]]) -> int:
    """How many of the first ``words`` the longest of the phrases takes; 0 for none."""
    known = phrases.get(words[0], ()) if words else ()
    fitting = (len(phrase) for phrase in known if tuple(words[: len(phrase)]) == phrase)
    return max(fitting, default=0)


def _phrases(written: str) -> Iterator[tuple[str, ...]]:
    for phrase in written.replace("\n", " ").split(","):
        slots = [slot.split("|") for slot in phrase.split(" ") if slot]
        for words in product(*slots):
            parts = " ".join(word.replace("_", " ") for word in words if word)
            if parts:
                yield tuple(normal(found[0]) for found in WORD.finditer(parts))


def _by_first(phrases: Iterator[tuple[str, ...]]) -> Mapping[str, Collection[tuple[str, ...]]]:
    found: dict[str, set[tuple[str, ...]]] = {}
    for phrase in phrases:
        found.setdefault(phrase[0], set()).add(phrase)
    return found


@cache
def _openings() -> Mapping[str, Collection[tuple[str, ...]]]:
    return _by_first(_phrases(_OPENING))


@cache
def _joining() -> Mapping[str, Collection[tuple[str, ...]]]:
    return _by_first(_phrases(_JOINING))


@cache
def _closings() -> Mapping[str, Collection[tuple[str, ...]]]:
    return _by_first(phrase[::-1] for phrase in _phrases(_CLOSING))


@cache
def _called() -> Mapping[str, Collection[tuple[str, ...]]]:
    return _by_first(phrase[::-1] for phrase in _phrases(_CALLED))

"""Terms of words in other alphabets than Latin and Cyrillic, and one spelling for letters that differ only by a mark.

Where no space separates words, every pair of neighbouring characters is a term, and so is every Chinese character,
which is a word or a part of one: single characters and pairs together find more than either alone (Nie, Gao, Zhang and
Zhou 2000, "On the use of words and n-grams for Chinese information retrieval"); pairs are what Lucene's CJK analyser
makes. Characters of a question or of grammar alone separate terms and are none. Korean words lose their particle first.
Hindi words are stemmed by Snowball; Arabic and Hebrew ones lose what is written together with them: the article,
prepositions, plurals. Japanese writes one word in either syllabary (ネコ, ねこ), so their terms are the same.
"""

import re
import threading
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

import snowballstemmer

# What stands on, under or beside a letter and belongs to it; not the marks that make an emoji of a digit.
MARK_RANGES = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670"
    "\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u0900-\u0903\u093a-\u094f\u0951-\u0957\u0962\u0963"
    "\u0981-\u0983\u09bc-\u09cd\u0a01-\u0a4d\u0a81-\u0acd\u0b01-\u0b03\u0b3c-\u0b57\u0b82\u0bbe-\u0bd7\u0c00-\u0c04"
    "\u0c3e-\u0c56\u0c81-\u0c83\u0cbe-\u0cd6\u0d00-\u0d03\u0d3e-\u0d4d\u0d57\u0d82\u0d83\u0dca-\u0ddf\u0e31"
    "\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ece\u102b-\u103e\u1056-\u1059\u17b4-\u17d3\u3099\u309a"
)
# Persian and Hindi join or part letters of one word with characters of no width.
JOINERS = "\u200c\u200d"
WORD = re.compile(rf"[^\W_](?:[^\W_]|[{MARK_RANGES}{JOINERS}])*")

_HAN = "\u2e80-\u2fdf\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"
_HIRAGANA, _KATAKANA, _HANGUL = "\u3041-\u309f", "\u30a0-\u30ff\u31f0-\u31ff", "\u1100-\u11ff\uac00-\ud7af"
# Thai, Lao, Burmese and Khmer.
_SOUTHEAST = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
_RUN = re.compile(
    rf"(?P<han>[{_HAN}]+)|(?P<hiragana>[{_HIRAGANA}]+)|(?P<katakana>[{_KATAKANA}]+)|(?P<hangul>[{_HANGUL}]+)"
    rf"|(?P<southeast>[{_SOUTHEAST}]+)|(?P<arabic>[\u0600-\u06ff\u0750-\u077f]+)|(?P<hebrew>[\u0590-\u05ff]+)"
    rf"|(?P<hindi>[\u0900-\u097f]+)"
    rf"|(?P<other>[^{_HAN}{_HIRAGANA}{_KATAKANA}{_HANGUL}{_SOUTHEAST}\u0590-\u06ff\u0750-\u077f\u0900-\u097f]+)"
)
_ALPHABETS = re.compile("[^\x00-\u058f\u1e00-\u2e7f]")
_AS_HIRAGANA = {code: code - 0x60 for code in range(ord("ァ"), ord("ヶ") + 1)}
# Characters of scripts without spaces, for a class of an expression.
UNSPACED_RANGES = f"{_HAN}{_HIRAGANA}{_KATAKANA}{_SOUTHEAST}"
_UNSPACED = re.compile(f"[{UNSPACED_RANGES}]")
# What belongs to the character before it, which it changes, colours or joins to the next one.
_JOINED = re.compile(rf"[{MARK_RANGES}{JOINERS}\ufe00-\ufe0f\U0001f3fb-\U0001f3ff]")
_LONGEST_WORD = 30
# A letter with the marks on it.
_CLUSTER = re.compile(rf".[{MARK_RANGES}]*", re.DOTALL)

# Of characters that also make words ("的" in "目的") only those are here that seldom do.
_HAN_GRAMMAR = """
为什么 為什麼 什么 什麼 怎么 怎麼 怎样 怎樣 哪里 哪裡 哪裏 哪儿 哪兒 哪些 哪个 哪個 多少 多久 我们
我們 你们 你們 他们 他們 她们 她們 这个 這個 那个 那個 没有 沒有 吗 嗎 呢 吧 的 了 是 我 你 您 他 她
在 也 很 都 就 谁 誰 何 私 僕 俺
"""
_HIRAGANA_GRAMMAR = """
ありませんでした ありました ありません あります いました います でしょうか でしょう でした です
ませんでした ません ましょう ました ます ください どうして どんな どうやって どう どこ どれ どの
どちら だれ なに なぜ なん いつ いくつ いくら これ それ あれ この その あの ここ そこ について
という とき こと もの ている ていた ていて てから てしまった する した して しない され から まで
より けど けれど ので のに だった だけ など ある あった ない なかった なった なる わたし
"""
_HIRAGANA_PARTICLES = "はがをにでともへのかやねよ"
_HANGUL_GRAMMAR = """
무엇 무엇을 뭐 뭘 뭐야 뭐예요 뭐라고 무슨 어떤 어떻게 어디 어디에 어디서 어디에서 언제 누구 누가 왜
얼마 얼마나 얼마예요 몇 나 나는 내 내가 저 저는 제 제가 우리 너 그 이 저 것 수 있어 있어요 있다
있나요 있었어 있었어요 없어 없어요 했어 했어요 했나요 했다 하는 하고 해요 합니다 했습니다 입니다
이에요 예요 그리고 그래서 때 에서
"""
_HANGUL_PARTICLE = re.compile(
    r"(?<=.)(?:에게서|한테서|에서는|에서|에게|한테|께서|으로는|으로|부터|까지|처럼|보다|이라고|라고|이랑|랑|하고"
    r"|에는|에|은|는|이|가|을|를|의|로|와|과|도|만|요)$"
)
_HANGUL_ENDINGS_WRITTEN = """
어요 아요 해요 에요 예요 니다 습니 합니 입니 했어 했다 었어 았어 었다 았다 였어 였다 는데
나요 가요 까요 네요 지요 하는 하고 하기 라고
"""
_HANGUL_ENDINGS = frozenset(_HANGUL_ENDINGS_WRITTEN.split())
_SOUTHEAST_GRAMMAR = """
เมื่อไหร่ เมื่อไร อย่างไร ยังไง ที่ไหน ตรงไหน อะไรบ้าง อะไร ทำไม เท่าไหร่ เท่าไร ใคร ไหม หรือ และ ของ แล้ว เป็น ครับ
ค่ะ คะ ผม ฉัน ดิฉัน เรา จะ ที่ ได้ ให้ ว่า
"""
_ARABIC_GRAMMAR = """
ما ماذا متى اين أين كيف لماذا من هل كم في على إلى الى عن مع هو هي هم أنا انا نحن أنت هذا هذه ذلك تلك
التي الذي كان كانت قد أن ان إن لا لم لن و ثم أو او چه کجا کی چرا چگونه چطور است را از به در که این
آن با برای بود شد
"""
_HEBREW_GRAMMAR = """
מה מי איפה מתי למה מדוע איך כמה איזה איזו האם של את על עם אל אני אתה הוא היא אנחנו הם זה זאת זו יש
אין לא כן גם כי אם או לי שלי שלנו שלו שלה היה הייתה
"""
_HINDI_GRAMMAR = """
क्या कब कहाँ कहां क्यों कैसे कौन किस किसने किसे कितना कितने कितनी कौन सा सी से का के की को में पर ने है हैं था थी थे हो
और या यह वह ये वे मैं मैंने मेरा मेरी मेरे हम हमारा हमारी हमारे तुम आप उस इस भी तो ही नहीं कि जो एक लिए गया गई गए
रहा रही रहे हुआ हुई हमने तुमने आपने उसने किया करना करते किससे किसको होगी होगा होंगे होता होती होते
"""

# Chinese characters as Taiwan and Hong Kong write them, and as the mainland does: the more frequent ones with a
# kSimplifiedVariant in Unicode's Unihan database. Two traditional ones may have one simplified form (發 and 髮).
_TRADITIONAL = """
萬與專業東絲兩嚴喪個豐臨為麗舉麼義烏樂喬習鄉書買亂爭虧雲亞產畝親褻億僅從侖倉儀們價眾優會傘偉傳傷倫偽體餘傭債傾僑僕僥
兒黨蘭關興養獸內岡冊寫軍農馮沖決況凍淨涼減湊凜幾鳳憑凱擊鑿劃劉則剛創刪別劑劍劇勸辦務動勵勁勞勢勳匯區醫華協單賣盧鹵臥
衛卻廠廳歷曆厲壓厭廁廂廈廚縣參雙發髮變敘疊葉號嘆嚇嗎啟吳員嗚詠嚨嚮後聽吶噸呂響啞問喲嘩喚園圍圓圖團國場壞塊堅壇壩墳墜
壘塵牆壯聲殼壺處備復複夠頭夾奪奮獎奧妝婦媽嫵嬌娛嬰孫學寧寶實寵審憲宮寬賓寢對尋導壽將爾層屜屆屬歲豈崗島嶺嶽巒幣帥師帳
帶幫幹乾並廣莊慶廬庫應廟廢開異棄張彈強歸當錄彥徹徑憶憂懷態慫憐總戀恆恥惡惱悅懸驚懼慘慣願憤懶慮戲戰戶撲執擴掃揚擾撫拋
搶護報擔擬攏揀擁攔擇掛摯撓擋揮損換據擄擺搖攝撐擻敗敵數齋斂鬥斬斷無舊時曠暢曬曉暈暫術機殺雜權條來楊極構槍楓櫃檸標棧棟
欄樹樣橋橫檢樓歐歡歎殘毀畢氈氣漢湯洶溝沒瀝淪滄滬濘淚澤潔灑窪淺漿澆濁測濟瀏渾濃濤澇渦潤漲澀淵漁滲灣濕溫遊滾滿濾濫濱灘
燈災爐爛煉煩燒燙熱煥愛爺牽犧狀猶獨獅獄貓獵環現瑪瓊電畫疇療瘋癢癡癥瘡皺盞鹽監蓋盤睜矚礦碼磚確禮禍禪離種積稱穩窮竅窩競
筆筍築簡籃籠籬類糧糾紅約級紀純紗納綱紙紋紐線練組紳細終絆紹經綁絨結繞繪給絡絕統繼綿綠維綜緊緒續繩緩編緣縛縫縮纖罵羅罰
罷聖職聯聰肅腸膚腎腫脹脅膽勝腦腳臉臘艦艙藝節薦榮藥蘋蘇虛蟲雖蝦蟻蠶補襯襖襲見觀規視覽覺觸計訂認討讓訊訓議記講諱許論設
訪證評識詐訴診詞試詩誠話詢該詳語誤說請諸課誰調談謀謊謝謠譜讀負財責賢貨質販貪貧購貫費賀貼貴貸貿資賽贏趕趙躍車軌軟轉輪
輕載較輔輛輸轟邊遼達遷過運還這進遠違連遲適選遞鄧鄭鄰釋鑒針釘鈔鐘鋼錢鑰鐵鈴鉛銀銅銷鎖鍋錯鏡長門閃閉闖間悶鬧聞閱隊陽陰
陣階際陸陳險隨隱難靜頁頂項順須頓預領頗頻題顏額風飛飯飲飽飾餃餅館饅馬駕駛騎騙騰驗驕骯髒鬆魚鮮鳥雞鳴鴨鴻麥黃齊齒龍龜臺
籲癱颱檯點製裡裏錶範鬱麵隻嚐噁繫週
"""
_SIMPLIFIED = """
万与专业东丝两严丧个丰临为丽举么义乌乐乔习乡书买乱争亏云亚产亩亲亵亿仅从仑仓仪们价众优会伞伟传伤伦伪体余佣债倾侨仆侥
儿党兰关兴养兽内冈册写军农冯冲决况冻净凉减凑凛几凤凭凯击凿划刘则刚创删别剂剑剧劝办务动励劲劳势勋汇区医华协单卖卢卤卧
卫却厂厅历历厉压厌厕厢厦厨县参双发发变叙叠叶号叹吓吗启吴员呜咏咙向后听呐吨吕响哑问哟哗唤园围圆图团国场坏块坚坛坝坟坠
垒尘墙壮声壳壶处备复复够头夹夺奋奖奥妆妇妈妩娇娱婴孙学宁宝实宠审宪宫宽宾寝对寻导寿将尔层屉届属岁岂岗岛岭岳峦币帅师帐
带帮干干并广庄庆庐库应庙废开异弃张弹强归当录彦彻径忆忧怀态怂怜总恋恒耻恶恼悦悬惊惧惨惯愿愤懒虑戏战户扑执扩扫扬扰抚抛
抢护报担拟拢拣拥拦择挂挚挠挡挥损换据掳摆摇摄撑擞败敌数斋敛斗斩断无旧时旷畅晒晓晕暂术机杀杂权条来杨极构枪枫柜柠标栈栋
栏树样桥横检楼欧欢叹残毁毕毡气汉汤汹沟没沥沦沧沪泞泪泽洁洒洼浅浆浇浊测济浏浑浓涛涝涡润涨涩渊渔渗湾湿温游滚满滤滥滨滩
灯灾炉烂炼烦烧烫热焕爱爷牵牺状犹独狮狱猫猎环现玛琼电画畴疗疯痒痴症疮皱盏盐监盖盘睁瞩矿码砖确礼祸禅离种积称稳穷窍窝竞
笔笋筑简篮笼篱类粮纠红约级纪纯纱纳纲纸纹纽线练组绅细终绊绍经绑绒结绕绘给络绝统继绵绿维综紧绪续绳缓编缘缚缝缩纤骂罗罚
罢圣职联聪肃肠肤肾肿胀胁胆胜脑脚脸腊舰舱艺节荐荣药苹苏虚虫虽虾蚁蚕补衬袄袭见观规视览觉触计订认讨让讯训议记讲讳许论设
访证评识诈诉诊词试诗诚话询该详语误说请诸课谁调谈谋谎谢谣谱读负财责贤货质贩贪贫购贯费贺贴贵贷贸资赛赢赶赵跃车轨软转轮
轻载较辅辆输轰边辽达迁过运还这进远违连迟适选递邓郑邻释鉴针钉钞钟钢钱钥铁铃铅银铜销锁锅错镜长门闪闭闯间闷闹闻阅队阳阴
阵阶际陆陈险随隐难静页顶项顺须顿预领颇频题颜额风飞饭饮饱饰饺饼馆馒马驾驶骑骗腾验骄肮脏松鱼鲜鸟鸡鸣鸭鸿麦黄齐齿龙龟台
吁瘫台台点制里里表范郁面只尝恶系周
"""

_AS_SIMPLIFIED = dict(zip("".join(_TRADITIONAL.split()), "".join(_SIMPLIFIED.split()), strict=True))

# Letters without a decomposition that people write for one another.
_SAME = str.maketrans(
    {"ё": "е", "ı": "i", "ł": "l", "ø": "o", "đ": "d", "ß": "ss", "æ": "ae", "œ": "oe", "ς": "σ"}
    | dict.fromkeys("أإآٱ", "ا")
    | {"ى": "ي", "ی": "ي", "ة": "ه", "ک": "ك", "ـ": "", "\u200c": "", "\u200d": ""}
    # The dots under letters of loanwords (फ़ोन), and the two signs of a nasal vowel (पाँच, पांच), in Hindi and others.
    | dict.fromkeys("\u093c\u09bc\u0a3c\u0abc", "")
    | {"\u0901": "\u0902"}
    # The apostrophe that Ukrainian keyboards have as a letter.
    | {"\u02bc": "'"}
    | _AS_SIMPLIFIED
)


class _OneSpelling(dict[int, str]):
    """For ``str.translate``, filled as characters come: a lower-case letter without the marks that its readers leave
    out, which are accents of Latin and Greek, stress in Cyrillic, and the vowels of Arabic and Hebrew. Digits of any
    script become those of ASCII."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        self[code] = found = _spelled(character)
        return found


def _spelled(character: str) -> str:
    if "\u0300" <= character <= "\u036f" or (
        unicodedata.category(character) == "Mn" and "\u0591" <= character <= "\u06ed"
    ):
        return ""
    if character.isdecimal():
        return str(unicodedata.decimal(character))
    first = unicodedata.normalize("NFD", character)[0]
    has_accent = unicodedata.name(first, "").startswith(("LATIN", "GREEK", "DEVANAGARI"))
    return (first if has_accent else character).translate(_SAME)


_one_spelling = _OneSpelling()
# The terms of longer words, which are whole sentences without spaces, seldom come again.
_KNOWN_CHARS = 30


def one_spelling(text: str) -> str:
    """``text``, in lower case and composed, with one spelling for letters that people write for one another: ``i`` for
    the ``ı`` of Istanbul, ``e`` for ``é``, in Russian ``е`` for ``ё``, in Chinese the simplified character."""
    return text.translate(_one_spelling)


def is_spaced(word: str) -> bool:
    """Whether ``word`` comes from a script that puts spaces between words."""
    return not _UNSPACED.search(word)


def beginning(text: str, most: int) -> str:
    """At most ``most`` characters of a text, cut after a word; where no space is near, as where none are written, after
    a whole character with its marks."""
    if len(text) <= most:
        return text
    space = text.rfind(" ", max(0, most - _LONGEST_WORD), most)
    end = space if space > 0 else most
    while end > 0 and (_JOINED.match(text, end) or text[end - 1] == JOINERS[-1]):
        end -= 1
    return text[: end or most]


def has_own_terms(text: str) -> bool:
    """Whether ``text`` contains letters of another alphabet, for which ``terms`` has rules."""
    return not text.isascii() and _ALPHABETS.search(text) is not None


def terms(word: str) -> tuple[str, ...]:
    """The terms of a ``word`` in one spelling, in order; parts in Latin or Cyrillic letters stay as they are."""
    return _known_terms(word) if len(word) <= _KNOWN_CHARS else _terms(word)


@lru_cache(maxsize=50_000)
def _known_terms(word: str) -> tuple[str, ...]:
    return _terms(word)


def _terms(word: str) -> tuple[str, ...]:
    found: list[str] = []
    before = ""
    for run in _RUN.finditer(word):
        found += _terms_of(run.lastgroup or "other", run[0], before)
        before = run.lastgroup or ""
    return tuple(found)


def _terms_of(script: str, run: str, before: str) -> Iterator[str]:
    if script == "han":
        yield from (term for part in _HAN_SEPARATOR.split(run) for term in (*part, *_pairs(tuple(part))))
    elif script == "hiragana":
        yield from _hiragana(run, before)
    elif script == "hangul":
        yield from _hangul(run)
    elif script == "southeast":
        yield from (term for part in _SOUTHEAST_SEPARATOR.split(run) for term in _paired(_CLUSTER.findall(part)))
    elif script == "katakana":
        yield from _paired(run.translate(_AS_HIRAGANA))
    else:
        yield from _whole(script, run)


def _hiragana(run: str, before: str) -> Iterator[str]:
    """Pairs without particles; what follows a Chinese character is mostly its ending."""
    for part in _HIRAGANA_SEPARATOR.split(run):
        bare = part.rstrip(_HIRAGANA_PARTICLES) if len(part) > 2 or before else part
        bare = bare.lstrip(_HIRAGANA_PARTICLES) if before else bare
        yield from _pairs(tuple(bare))


def _hangul(word: str) -> Iterator[str]:
    bare = _HANGUL_PARTICLE.sub("", word)
    if word not in _HANGUL_WORDS and bare not in _HANGUL_WORDS:
        yield from (term for term in _paired(bare) if term not in _HANGUL_ENDINGS)


def _whole(script: str, word: str) -> Iterator[str]:
    stem = _STEMMED[script](word) if script in _STEMMED else word
    if word not in _WHOLE_GRAMMAR and stem not in _WHOLE_GRAMMAR:
        yield stem


def _hindi(word: str) -> str:
    stem: str = _hindi_stemmer.snowball.stemWord(word)
    return stem or word


_ARABIC_LETTERS = 3
# "And" before three letters or more, the article with a preposition before two or more. A preposition without the
# article cannot be told from the first letter of a word (كتاب).
_ARABIC_BEFORE = re.compile(r"و?(?:[وبكف]?ال|لل)(?=.{2})|و(?=.{3})")
_ARABIC_SUFFIXES = ("تها", "تهم", "تنا", "ته", "تي", "ها", "هم", "نا", "ان", "ات", "ون", "ين", "يه", "ه", "ي")


def _arabic(word: str) -> str:
    """What Larkey's light10, which Lucene uses, removes: conjunctions, prepositions and the article before a word,
    pronouns and plurals after it."""
    before = _ARABIC_BEFORE.match(word)
    bare = word[before.end() :] if before else word
    for suffix in _ARABIC_SUFFIXES:
        least = _ARABIC_LETTERS if len(suffix) > 1 else _ARABIC_LETTERS - 1
        bare = bare.removesuffix(suffix) if len(bare) - len(suffix) >= least else bare
    return bare


_HEBREW_LETTERS = 3
# Letters with a form of their own at the end of a word: שכן, שכנים.
_WITHIN_A_WORD = str.maketrans("ךםןףץ", "כמנפצ")


def _hebrew(word: str) -> str:
    bare = word
    for plural in ("ים", "ות"):
        bare = bare.removesuffix(plural) if len(bare) - len(plural) >= _HEBREW_LETTERS else bare
    while len(bare) > _HEBREW_LETTERS and bare[0] in "הושבלמכ":
        bare = bare[1:]
    return bare.translate(_WITHIN_A_WORD)


def _paired(characters: str | list[str]) -> list[str]:
    """The pairs, or the one character."""
    return _pairs(tuple(characters)) or list(characters)


def _pairs(characters: tuple[str, ...]) -> list[str]:
    return [f"{one}{other}" for one, other in zip(characters, characters[1:], strict=False)]


def _separator(written: str, more: str = "") -> re.Pattern[str]:
    longest_first = sorted(written.split(), key=len, reverse=True)
    return re.compile("|".join([*(re.escape(word) for word in longest_first), *([more] if more else [])]))


class _HindiStemmer(threading.local):
    """A stemmer keeps the word it works on, so each thread has its own."""

    def __init__(self) -> None:
        self.snowball = snowballstemmer.stemmer("hindi")


_hindi_stemmer = _HindiStemmer()
_STEMMED = {"arabic": _arabic, "hebrew": _hebrew, "hindi": _hindi}
_HAN_SEPARATOR = _separator(_HAN_GRAMMAR)
_HIRAGANA_SEPARATOR = _separator(_HIRAGANA_GRAMMAR, "を")
_SOUTHEAST_SEPARATOR = _separator(one_spelling(unicodedata.normalize("NFKC", _SOUTHEAST_GRAMMAR)))
_HANGUL_WORDS = frozenset(_HANGUL_GRAMMAR.split())
_WHOLE_GRAMMAR = frozenset(one_spelling(f"{_ARABIC_GRAMMAR} {_HEBREW_GRAMMAR} {_HINDI_GRAMMAR}").split())

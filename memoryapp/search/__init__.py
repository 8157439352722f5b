"""Search: in comes a query to the memory of one chat user, out come ranked topics, people and artifacts with their
scores.

**The score.** Of each passage p of n, in standard deviations over the n (``scores.scored``, by ``fusion.Sum``):

    score(p)    = meaning(p) + words(p) + lifts(p)              ``fused`` and its ``parts``
    meaning(p)  = 1.2 z(cosine(p))                              ``fusion.MEANING``; 0 without a vector; -2 to 9
    words(p)    = z(BM25(p)), deviation at least .02 of a       ``fusion.LEXICAL_FLOOR``, ``lexical.bm25``;
                  match of all words                            -1 to 19; of another script than the
                                                                query's at least .7 z(cosine) (FOREIGN_SHARE)
    lifts(p)    = dates(p) + reply_alone(p) + instruction(p)    ``lifts``; 0 to 4, -1 or 0, 0 or 4
    z(x)        = (x - mean) / standard deviation               ``fusion.z_scores``

Of a topic T, which has the best of its n(T) passages (``TopicPassages.best``, ``ScoredTexts.topic_lifts``):

    score(T)    = max score(p) + topic(T) + summary(T) + cross_encoder(T)
    topic(T)    = .5 mean meaning(p) (1 - 1 / n(T))             ``fusion.WHOLE_TALK``; -1 to 2
    summary(T)  = z(rarity of the query's words in its          ``summaries``; 0 to 8
                  summary) - max words(p), at least 0
    cross_encoder(T) = 3 z(log odds) of the first topics        ``reranking``; 0 without one

People and artifacts have score(p) of their cards, without lifts. What is shown of a score is
1 / (1 + exp((7 - score) / 5)) (``fusion.shown_scores``). Of two wordings of a query each text counts with the better
one (``scores.better``). The ranges are those on the demo memory and the development set of ``fusion``, where every
constant was measured. With another ``Fusion`` (``ReciprocalRanks``, ``by_meaning``) lifts are not added.

**The way of a query.** ``wording.word_query`` gives it its vectors. ``retrieval.search`` makes two round trips, in
which each statement comes with the reader of its rows (``SqlRead``). The first (``similarity.compare``) asks for the
distances of all vectors, the ``words`` that occur (in a large memory without the ``common_words``), standing
instructions (``lifts``), and what ``where`` permits; ``scores`` adds them up. The second asks for what candidates show:
topics, ``items``, the best ``passages``.

``index_cache`` keeps what only a change of the memory changes (``memory_index``), ``search_cache`` keeps results for
seconds, ``reranking`` asks a cross-encoder. ``cards`` and ``vectors`` keep up to date what is searched. Search may
import the engine, the models, operations, chat_users and work; it imports neither runs nor clients nor pages."""

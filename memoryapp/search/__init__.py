"""Search: a query of one chat user comes in, out come ranked topics, people and artifacts with their numbers.

``wording`` gives the query its vectors, ``similarity`` compares it with every passage and card of the owner, ``words``
counts its words in them, without the ``common_words`` in a large memory, ``where`` bounds it by days, chats and
authors, ``retrieval`` makes candidates of the topics, of ``copies`` one alone, and ``items`` of people and artifacts.
``index_cache`` keeps what only an edit changes. ``query_vectors`` keeps a query's vectors under the id of its run.
``cards`` and ``vectors`` keep what is searched up to date. Search may import the engine, the models, operations,
erasure and work; it imports neither runs, clients nor pages.
"""

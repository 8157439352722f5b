"""Search: in comes a query to the memory of one chat user, out come ranked topics, people and artifacts with their
scores.

``wording`` gives the query its vectors. ``similarity`` compares it with every passage and card of the owner; ``words``
counts its words in them, in a large memory without the ``common_words``. ``where`` restricts the search to days, chats
and authors. ``retrieval`` makes candidates of topics, one of several ``copies``, and ``items`` makes candidates of
people and artifacts. ``index_cache`` keeps what only an edit changes, ``query_vectors`` the vectors of a run's query.
``cards`` and ``vectors`` keep up to date what is searched. Search may import the engine, the models, operations,
chat_users and work; it imports neither runs nor clients nor pages.
"""

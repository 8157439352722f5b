"""Items that programs keep for a chat user: values of their own under a namespace and a key, found by filter and by
meaning.

In: the owner, and what a program writes or asks for. Out: rows of ``StoredItem``. The room imports rows, the vectors of
the search, and chat users; its embedder comes from whoever calls. Recall does not search items.
"""

from memoryapp.items.namespaces import LONGEST_PAGE, MatchCondition, namespaces
from memoryapp.items.searching import FilterError, ItemQuery, search
from memoryapp.items.storing import MOST_ITEMS, TooManyItems, Written, embed, read, write

__all__ = [
    "LONGEST_PAGE",
    "MOST_ITEMS",
    "FilterError",
    "MatchCondition",
    "TooManyItems",
    "ItemQuery",
    "Written",
    "embed",
    "namespaces",
    "read",
    "search",
    "write",
]

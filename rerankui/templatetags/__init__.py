"""Filters and tags of the templates, one library a subject: the memory, runs, curation, the history.

In: a value of a template's context. Out: text in the reader's language, or escaped HTML. A library may import every
module of the site that words or formats values, and no view; a filter writes nothing.
"""

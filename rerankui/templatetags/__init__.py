"""Filters and tags for templates, one library for each subject: the memory, runs, curation, the history. In: a value of
a template's context. Out: text in the reader's language, or escaped HTML. A library may import every module of the site
that formats values or puts them into words, but no view; a filter writes nothing."""

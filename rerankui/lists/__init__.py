"""What a list is, and what it has beside its rows: facets, files, saved views; and the figures of quality."""

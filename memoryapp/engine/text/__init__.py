"""Text: quoting for models, reading of their answers, passages, words, summaries and titles. In come texts and
messages, out come texts and values. It imports values of the engine, and no model, client or row."""

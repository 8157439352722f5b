"""Text: how it is quoted for models, read back from them, cut into passages, folded into words and made into titles.

In come texts and messages, out come texts and values. It imports values of the engine and no model, client or row.
"""

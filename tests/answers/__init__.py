"""Answers in words: their page, their settings, and their judgements."""

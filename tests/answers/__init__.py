"""Answers in words: their page, their settings, and what becomes of judgements."""

"""Judgements of answers and candidates, and golden questions."""

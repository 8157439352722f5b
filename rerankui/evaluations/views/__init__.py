"""Evaluations: their figures, the sets of golden questions that they ask, and how one starts."""

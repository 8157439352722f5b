"""Labelled questions through strategies, and how well each did.

In come a file of questions and clients, out go scores, the report of each strategy, and what tells one report from
another: differences with their intervals, whether a strategy is good enough, and which questions got worse. A question
names the messages that hold its answer, so that its labels survive any edit of topics. The room imports runs and rows.
"""

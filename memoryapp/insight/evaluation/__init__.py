"""Evaluation: labelled questions are run through strategies, and each strategy is scored.

In come a file of questions and clients; out go scores, the report of each strategy, and the comparison of two reports:
differences with their intervals, whether a strategy is good enough, and which questions got worse. A question names the
messages that contain its answer, so its labels stay valid whatever becomes of the topics. The room imports runs and
rows."""

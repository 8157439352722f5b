"""What people think of answers and of candidates, and the golden questions made of it.

In: an operator's judgement of an answer, or their grade of a candidate. Out: what all operators think of the
candidates of a run, the nDCG of its order, and golden questions with the messages that answer them. Grades lie on
messages, so they survive every edit of topics. The room imports runs and the models.
"""

from memoryapp.evaluation.judgements.answers import judge, questions

__all__ = ["judge", "questions"]

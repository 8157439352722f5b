"""Golden sets asked each night, compared with a baseline, and an alarm when one drops.

``schedule`` says when and begins the evaluation, which the worker asks like any other; ``judging`` compares an ended
one by the gate of ``evaluation.comparison``; ``alarms`` puts a drop into inboxes, announces it to webhooks and mails
it. Everything is a state in the row of the night, so a killed worker loses nothing. The room imports evaluation,
judgements and webhooks.
"""

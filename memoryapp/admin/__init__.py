"""Django's administration: shows every row, and changes operators, tokens and settings that are rows.

In: requests of an admin or a superuser, because it shows every chat user's memory. Out: Django's pages. What a
memory consists of is read-only: topics, people, facts and artifacts link to the pages where they are curated. It
imports the models and accounts; only Django imports it."""

from memoryapp.admin import operators, rows

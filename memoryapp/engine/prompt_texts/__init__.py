"""The prompts as they come with the program, in two languages: those of strategies and those of agents.

A text is a ``string.Template``. A variable that holds what people wrote brings its own tags along
(``prompts.TAGS``), so a text only marks its place. The names of tags and of the JSON's fields are English
in both languages: programs read them back. ``engine.prompts`` lists their variables. It imports nothing.
"""

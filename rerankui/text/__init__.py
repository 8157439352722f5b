"""Messages and texts as pages show them: conversations, time axes, prose, differences, words about prompts, media. In:
messages, media and texts of the domain. Out: escaped HTML, dataclasses that templates show, or the response with a
media file. These modules import the engine and the models, and of the site only each other."""

"""Commands that a page shows, to be pasted into a terminal."""

import shlex

from django import template
from django.conf import settings

from memoryapp.platform.embedded import paths

register = template.Library()


@register.simple_tag
def program() -> str:
    """How this program is called in a terminal for this data folder."""
    return paths.program(settings.DATA_DIR)


@register.filter
def shell(name: str) -> str:
    """A name as a shell takes it for one word, whatever is in it."""
    return shlex.quote(name)

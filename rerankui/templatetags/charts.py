"""What the pictures of runs need in templates."""

from django import template
from django.utils.functional import Promise

from rerankui.compare.pair import STATE_WORDS

register = template.Library()


@register.simple_tag
def state_word(state: str) -> str | Promise:
    return STATE_WORDS.get(state, state)

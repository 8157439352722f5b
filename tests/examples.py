"""How many examples a law is tried with, by the profile that is in force."""

import hypothesis

WHOLE = 100


def examples(most: int) -> int:
    """``most`` of them where a law has Hypothesis's usual hundred, and the same share where it has fewer."""
    return max(1, most * hypothesis.settings.default.max_examples // WHOLE)

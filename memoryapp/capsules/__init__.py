"""A run as a file that needs no server: its events, and the talk that it read or chose, with personal data masked if
that is wished.

In: a finished run, or the bytes of such a file of another installation. Out: a ``Capsule``, its JSON document, and the
same with names, numbers and addresses masked. It imports the models and ``runs``.
"""

from memoryapp.capsules.capsule import (
    LARGEST_BYTES,
    Capsule,
    CapsuleError,
    CapsuleMessage,
    capsule_of,
    document,
    opened,
)
from memoryapp.capsules.masking import masked

__all__ = ["LARGEST_BYTES", "Capsule", "CapsuleError", "CapsuleMessage", "capsule_of", "document", "masked", "opened"]

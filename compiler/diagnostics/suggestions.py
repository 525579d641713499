"""What a misspelt name may have meant."""

from __future__ import annotations

import re
from collections.abc import Collection

MOST = 3
"""How many names a message suggests at most."""


def nearest(name: str, known: Collection[str]) -> list[str]:
    """The known names that `name` may stand for, the likeliest first.

    Those that begin with it; else those of which it is a word (`kernels` in `--fuse-kernels`); else the one that is
    spelt most like it.
    """
    word = name.strip("-")
    if word:
        beginning = [one for one in known if one.strip("-").startswith(word)]
        containing = [one for one in known if word in re.split(r"\W", one)]
        found = beginning or containing
        if found:
            return found[:MOST]
    from difflib import get_close_matches  # only errors need it

    return get_close_matches(name, known, n=1)


def did_you_mean(names: Collection[str]) -> str:
    """`; did you mean 'a' or 'b'?`, to be put at the end of a message; nothing if there are no names."""
    quoted = [f"'{name}'" for name in names]
    return f"; did you mean {' or '.join(quoted)}?" if quoted else ""

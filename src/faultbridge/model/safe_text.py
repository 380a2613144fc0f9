"""Safe text: makes invisible and control characters visible before operators read text from records.

Records come from other systems. Their text can contain terminal escapes, which change what a terminal shows, and marks
of writing direction, which change the order in which text is read.
"""

from __future__ import annotations

import json
import re

# C0 without tab and newline, DEL, C1, soft hyphen, direction marks, zero-width and invisible characters, separators of
# lines and paragraphs, interlinear marks, tags, and halves of surrogate pairs.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f\ud800-\udfff]"
)


def visible(text: str) -> str:
    r"""Return the text with control and invisible characters replaced by JSON escapes such as `\u001b`.

    Tabs and newlines are kept. JSON text remains equivalent JSON.
    """
    return _UNSAFE.sub(_escape, text)


def visible_line(text: str) -> str:
    """Return the text on one line: newlines and tabs become spaces, and unsafe characters are escaped."""
    return visible(re.sub(r"[\n\t]+", " ", text))


def _escape(found: re.Match[str]) -> str:
    # JSON does not escape DEL.
    return r"\u007f" if found[0] == "\x7f" else json.dumps(found[0])[1:-1]

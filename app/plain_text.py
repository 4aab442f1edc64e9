"""Text from anywhere made fit for where it is shown: a page, a Markdown field, a terminal.

Knows none of these places. Called by the presenters, the handlers, the terminal and the command
line. File names that are not UTF-8 reach Python with half surrogate pairs, which nothing can send.
"""

import re

__all__ = ["displayable", "displayable_name", "literal_markdown", "on_one_line", "shortened"]

# What Markdown, HTML and formulas see in a line, at its start, and in addresses; white space but
# single spaces. As few as possible: a screen reader is told the references as they stand.
_MARKUP = re.compile(
    r"[&<>*_`~\[\]\\$@|]|\A[-+#=]|(?<=\A\d)[.)]|(?<=\A\d\d)[.)]|\A\d(?=\d{2,8}[.)])"
    r"|:(?=//)|(?<=www)\.|[^\S ]|(?<!\S) | (?!\S)",
    re.IGNORECASE,
)
# controls (not DEL, which does nothing), line and paragraph ends, changes of direction, surrogates
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x80-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_DIRECTIONS = re.compile(r"[\u202a-\u202e\u2066-\u2069]")


def displayable(text: str) -> str:
    """The text as it can be sent: `?` stands for each half of a surrogate pair."""
    return text.encode("utf-8", "replace").decode("utf-8")


def displayable_name(text: str) -> str:
    """The name or title as it can be sent, without marks that turn round what stands beside it."""
    return _DIRECTIONS.sub("", displayable(text))


def literal_markdown(text: str) -> str:
    """Markdown that is shown as `text`, sign for sign, in one paragraph that keeps white space.

    What has a meaning in Markdown, HTML or a formula becomes a character reference, and so does all
    white space but single spaces between words.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _MARKUP.sub(lambda match: f"&#{ord(match[0])};", displayable(text))


def on_one_line(text: str) -> str:
    r"""The text without what would move a terminal's cursor: `\x1b`, `\n` … are written out."""
    return _UNPRINTABLE.sub(
        lambda match: match[0].encode("unicode_escape", "surrogatepass").decode("ascii"), text
    )


def shortened(text: str, length: int) -> str:
    """At most so many characters, `…` at the end where there were more."""
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"

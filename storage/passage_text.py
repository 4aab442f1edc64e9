"""Texts as passages: where one may begin and end, and which words of a question look for them.

Strings in, character ranges out. Used by the store of passages.
"""

import re
from collections.abc import Iterator, Sequence

__all__ = ["Span", "content_words", "likely_spans", "split_passages"]

Span = tuple[int, int]  # first character, end

PASSAGE_LENGTH = 1_000  # characters that a passage should have
MAX_PASSAGE_LENGTH = 1_500
MAX_REGIONS = 200  # of a long text
MAX_WORDS = 64  # of a question

# A paragraph, or what a heading opens: blank lines end it, and so does the next heading.
_BLOCK = re.compile(r"\S(?:(?!\n[ \t]*\n|\n#{1,6} ).)*", re.DOTALL)
_ENDS = (re.compile(r"\n"), re.compile(r"[.!?。！？]\s"), re.compile(r"\s"))
_HEADING = re.compile(r"#{1,6} ")

# Words that questions are made of; what is asked about is in the others.
_QUESTION_WORDS = frozenset(
    re.findall(
        r"\w+",
        "a about all am an and any are as at be but by can could did do does every explain for "
        "from give had has have how i if in into is it its me my no not of on or our please say "
        "says "
        "should so some tell than that the their them then there these they this those to us was "
        "we were what when where which who whom whose why will with would you your",
    )
)


def content_words(question: str) -> list[str]:
    """The words to look for, each once: without those every question has, if others are left."""
    words = [word.lower() for word in re.findall(r"\w+", question)]
    telling = [word for word in words if word not in _QUESTION_WORDS]
    return list(dict.fromkeys(telling or words))[:MAX_WORDS]


def split_passages(text: str, start: int, end: int) -> Iterator[Span]:
    """Passages from `start` to `end`: whole paragraphs where they fit, without space around them.

    A heading begins one. Together they hold all that is not white space.
    """
    first, last = -1, -1
    for block in _BLOCK.finditer(text, start, end):
        for begin, stop in _pieces(text, *block.span()):
            is_heading = _HEADING.match(text, begin) is not None
            is_full = stop - first > PASSAGE_LENGTH or (is_heading and last - first > 200)
            if first >= 0 and is_full:
                yield first, last
                first = -1
            if first < 0:
                first = begin
            last = stop
    if first >= 0:
        yield first, last


def _pieces(text: str, start: int, end: int) -> Iterator[Span]:
    """A paragraph as it is, or cut at line ends, sentences or spaces where it is too long."""
    while end - start > MAX_PASSAGE_LENGTH:
        limit = start + PASSAGE_LENGTH
        cut = limit
        for pattern in _ENDS:
            ends = [match.end() for match in pattern.finditer(text, start, limit)]
            if ends and ends[-1] - start > PASSAGE_LENGTH // 4:
                cut = ends[-1]
                break
        stop = start + len(text[start:cut].rstrip())
        yield start, stop
        start = cut
        while start < end and text[start].isspace():
            start += 1
    if end > start:
        yield start, start + len(text[start:end].rstrip())


def likely_spans(text: str, words: Sequence[str]) -> list[Span]:
    """The regions of a long text that hold most of the words, in order; none overlap."""
    pattern = re.compile(rf"\b(?:{'|'.join(map(re.escape, words))})", re.IGNORECASE)
    found: dict[int, set[str]] = {}
    for match in pattern.finditer(text):
        found.setdefault(match.start() // MAX_PASSAGE_LENGTH, set()).add(match[0].lower())
    ranked = sorted(found, key=lambda place: (-len(found[place]), place))[:MAX_REGIONS]
    spans: list[Span] = []
    for place in sorted(ranked):
        start, end = place * MAX_PASSAGE_LENGTH, (place + 1) * MAX_PASSAGE_LENGTH
        if spans and spans[-1][1] >= start:
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((start, end))
    return [(_line_start(text, start), end) for start, end in spans]


def _line_start(text: str, place: int) -> int:
    return text.rfind("\n", max(0, place - MAX_PASSAGE_LENGTH // 2), place) + 1 or place

"""Times as they stand in the database: ISO 8601 text in UTC, which sorts as it reads."""

from datetime import UTC, datetime

__all__ = ["now", "parse_time", "time_text"]


def now() -> str:
    """The present, to the microsecond."""
    return time_text(datetime.now(UTC))


def time_text(time: datetime) -> str:
    """An aware datetime as text."""
    return time.astimezone(UTC).isoformat(timespec="microseconds")


def parse_time(text: str) -> datetime:
    """The aware datetime that `now` wrote."""
    return datetime.fromisoformat(text)

"""Where the app keeps what it keeps: data, cache and configuration folders.

Knows no settings and creates nothing. Called by settings, services and the command line.
"""

import os
from pathlib import Path

import platformdirs

from lookahead.embedded_model import default_cache_dir

__all__ = ["PathError", "cache_dir", "config_dir", "data_dir", "expanded"]

APP_NAME = "lookahead-chat"


class PathError(Exception):
    """A path cannot be understood. The message says which and why."""


def expanded(text: str) -> Path:
    """The path with `~` and `~user` put out in full.

    Raises:
        PathError: there is no such user, or the text can be no path.
    """
    if "\0" in text:
        raise PathError("A path cannot have a NUL character in it. Check the path.")
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise PathError(f"{text}: the home folder that it names is not known.") from None


def data_dir() -> Path:
    """Folder of what is precious (chats, documents); `LOOKAHEAD_CHAT_DATA_DIR` overrides."""
    return _overridden("DATA_DIR") or platformdirs.user_data_path(APP_NAME, appauthor=False)


def cache_dir() -> Path:
    """Folder of what can be made again (models, segments); `LOOKAHEAD_CHAT_CACHE_DIR` overrides."""
    return _overridden("CACHE_DIR") or default_cache_dir()


def config_dir() -> Path:
    """Folder of `config.toml`; `LOOKAHEAD_CHAT_CONFIG_DIR` overrides."""
    return _overridden("CONFIG_DIR") or platformdirs.user_config_path(APP_NAME, appauthor=False)


def _overridden(name: str) -> Path | None:
    value = os.environ.get(f"LOOKAHEAD_CHAT_{name}")
    return expanded(value).absolute() if value else None

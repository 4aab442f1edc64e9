"""Where the app keeps what it keeps: data, cache and configuration folders.

Knows no settings and creates nothing. Called by settings, services and the command line.
"""

import os
from pathlib import Path

import platformdirs

from lookahead.embedded_model import default_cache_dir

__all__ = ["cache_dir", "config_dir", "data_dir"]

APP_NAME = "lookahead-chat"


def data_dir() -> Path:
    """Folder of what is precious (chats, documents); `LOOKAHEAD_CHAT_DATA_DIR` overrides."""
    return _overridden("DATA_DIR") or platformdirs.user_data_path(APP_NAME, appauthor=False)


def cache_dir() -> Path:
    """Folder of what can be made again (models, segments); `LOOKAHEAD_CHAT_CACHE_DIR` overrides."""
    return default_cache_dir()


def config_dir() -> Path:
    """Folder of `config.toml`; `LOOKAHEAD_CHAT_CONFIG_DIR` overrides."""
    return _overridden("CONFIG_DIR") or platformdirs.user_config_path(APP_NAME, appauthor=False)


def _overridden(name: str) -> Path | None:
    value = os.environ.get(f"LOOKAHEAD_CHAT_{name}")
    return Path(value).expanduser().absolute() if value else None

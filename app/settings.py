"""What a user can set, each with its default, and where the values come from.

Precedence: command line, `LOOKAHEAD_CHAT_*` environment, `config.toml` in the config folder,
defaults. `log_level` is `--log-level` on the command line, `LOOKAHEAD_CHAT_LOG_LEVEL` in the
environment and `log_level` in the file; on the command line a few have another name (`_FLAGS`).

Knows no page and runs no engine. Called by the command line; read by the server.
"""

import difflib
import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app import paths
from lookahead.embedded_model import EMBEDDED_MODEL_NAME

__all__ = ["DTYPES", "LOG_LEVELS", "LOOPBACK_ADDRESSES", "Settings", "SettingsError", "resolve"]

DTYPES = ("auto", "float32", "bfloat16", "float16", "float64")
LOG_LEVELS = ("debug", "info", "warning", "error")
LOOPBACK_ADDRESSES = ("127.0.0.1", "localhost", "::1")

_ENVIRONMENT_PREFIX = "LOOKAHEAD_CHAT_"
_MAX_NAME_BYTES = 255  # of a file on the usual disks; names on a hub are shorter
_FLAGS = {
    "allowed_hosts": "--allowed-host",
    "lookahead": "--no-lookahead",
    "idle_learning": "--no-idle-learning",
    "open_browser": "--open",
}


class SettingsError(Exception):
    """A setting has a value it cannot have. The message says where, and what it may be."""


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of one run.

    Args:
        model: a folder, a name on a model hub, or the embedded model's name.
        device: `auto`, `cpu`, `cuda`, `cuda:1`, `mps`.
        dtype: `auto` or the floating-point type of the weights.
        context_length: tokens of context to use at most; None: all the model has.
        strict: True: bit for bit plain decoding. False: flexible. None: what suits the machine.
        lookahead: whether answers are drafted unless the page says otherwise.
        idle_learning: whether the model prepares drafts while nothing is asked.
        host: address to listen on. There is no login, so it must be this machine's own.
        port: port to listen on; None: 7860, or the next free one.
        allowed_hosts: further host names under which the page may be opened.
        data_dir: folder of chats and documents.
        offline: never ask the network.
        open_browser: whether the page is opened at start.
        log_level: least severity that is logged.
    """

    model: str = EMBEDDED_MODEL_NAME
    device: str = "auto"
    dtype: str = "auto"
    context_length: int | None = None
    strict: bool | None = None
    lookahead: bool = True
    idle_learning: bool = True
    host: str = "127.0.0.1"
    port: int | None = None
    allowed_hosts: tuple[str, ...] = ()
    data_dir: Path = field(default_factory=paths.data_dir)
    offline: bool = False
    open_browser: bool = True
    log_level: str = "info"

    def service_values(self) -> dict[str, Any]:
        """The arguments of the chat service's configuration."""
        names = (
            "data_dir",
            "model",
            "device",
            "dtype",
            "strict",
            "context_length",
            "idle_learning",
        )
        return {name: getattr(self, name) for name in names} | {"cache_dir": paths.cache_dir()}


def resolve(
    command_line: Mapping[str, object], environment: Mapping[str, str], config_dir: Path
) -> Settings:
    """Merge the places a setting can come from.

    Args:
        command_line: values by setting name; None where the user said nothing.
        environment: the process environment.
        config_dir: folder that may hold a `config.toml`.

    Raises:
        SettingsError: a value is not possible, or the file has an unknown name in it.
    """
    config_path = config_dir / "config.toml"
    config = _read_config(config_path)
    values: dict[str, object] = {}
    for name, parse in _PARSERS.items():
        variable = _ENVIRONMENT_PREFIX + name.upper()
        places = (
            (command_line.get(name), _FLAGS.get(name, f"--{name.replace('_', '-')}")),
            (environment.get(variable) or None, variable),
            (config.get(name), f"{name} in {config_path}"),
        )
        for value, place in places:
            if value is not None:
                try:
                    values[name] = parse(value)
                except ValueError as error:
                    raise SettingsError(f"{place} must be {error}, not {value!r}.") from None
                break
    return Settings(**values)  # type: ignore[arg-type]  # each parser returns its field's type


def _read_config(path: Path) -> dict[str, object]:
    try:
        config = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"{path} cannot be read: {error}. Correct or delete it.") from error
    for name in config:
        if name not in _PARSERS:
            similar = difflib.get_close_matches(name, _PARSERS, n=1)
            advice = f"did you mean {similar[0]}?" if similar else f"known: {', '.join(_PARSERS)}."
            raise SettingsError(f"{path} sets {name}, which is no setting; {advice}")
    return config


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("a text")
    return value.strip()


def _one_of(choices: tuple[str, ...]) -> Callable[[object], str]:
    def parse(value: object) -> str:
        if value not in choices:
            raise ValueError(f"one of {', '.join(choices)}")
        return str(value)

    return parse


def _whole_number(lowest: int, highest: int) -> Callable[[object], int]:
    def parse(value: object) -> int:
        try:
            number = int(value) if isinstance(value, str) else value
        except ValueError:
            number = None
        if isinstance(number, bool) or not isinstance(number, int):
            raise ValueError("a whole number")
        if not lowest <= number <= highest:
            raise ValueError(f"between {lowest} and {highest}")
        return number

    return parse


def _flag(value: object) -> bool:
    words = {"1": True, "true": True, "yes": True, "on": True}
    words |= {"0": False, "false": False, "no": False, "off": False}
    flag = words.get(value.strip().lower()) if isinstance(value, str) else value
    if not isinstance(flag, bool):
        raise ValueError("true or false")
    return flag


def _names(value: object) -> tuple[str, ...]:
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise ValueError("a list of names")
    return tuple(name.strip() for name in names if name.strip())


def _path(value: object) -> Path:
    return _expanded(_text(value)).absolute()


def _expanded(text: str) -> Path:
    try:
        return paths.expanded(text)
    except paths.PathError:
        raise ValueError("a path whose home folder is known") from None


def _model(value: object) -> str:
    """A folder given by its path must be there; every other name is looked up when it loads."""
    name = _text(value)
    if name == EMBEDDED_MODEL_NAME:
        return name
    path = _expanded(name)
    if os.path.isdir(path):  # False, not an error, where the name is too long
        return str(path.absolute())
    is_too_long = len(os.fsencode(name)) > _MAX_NAME_BYTES
    if path.is_absolute() or name.startswith(".") or is_too_long:
        raise ValueError("an existing folder, a name on a model hub, or " + EMBEDDED_MODEL_NAME)
    return name


_PARSERS: dict[str, Callable[[object], object]] = {
    "model": _model,
    "device": _text,
    "dtype": _one_of(DTYPES),
    "context_length": _whole_number(64, 10_000_000),
    "strict": _flag,
    "lookahead": _flag,
    "idle_learning": _flag,
    "host": _one_of(LOOPBACK_ADDRESSES),
    "port": _whole_number(1, 65_535),
    "allowed_hosts": _names,
    "data_dir": _path,
    "offline": _flag,
    "open_browser": _flag,
    "log_level": _one_of(LOG_LEVELS),
}

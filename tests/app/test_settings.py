"""Settings: who wins, and what is said about a value that cannot be."""

from dataclasses import fields
from pathlib import Path

import pytest

from app import settings as settings_module
from app.settings import Settings, SettingsError, resolve


def test_command_line_wins_over_environment_over_file_over_default(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('port = 1001\ndtype = "float32"\nhost = "::1"\n')
    environment = {"LOOKAHEAD_CHAT_PORT": "1002", "LOOKAHEAD_CHAT_DTYPE": "bfloat16"}
    settings = resolve({"port": "1003", "dtype": None}, environment, tmp_path)
    assert (settings.port, settings.dtype, settings.host) == (1003, "bfloat16", "::1")
    assert settings.log_level == Settings().log_level


def test_every_setting_can_be_set_from_every_place(tmp_path: Path) -> None:
    values = {
        "model": str(tmp_path),
        "device": "cuda:1",
        "dtype": "float16",
        "context_length": "512",
        "strict": "no",
        "lookahead": "false",
        "idle_learning": "false",
        "host": "localhost",
        "port": "7000",
        "allowed_hosts": "a.example, b.example",
        "data_dir": str(tmp_path / "data"),
        "offline": "1",
        "open_browser": "off",
        "log_level": "debug",
    }
    expected = Settings(
        model=str(tmp_path),
        device="cuda:1",
        dtype="float16",
        context_length=512,
        strict=False,
        lookahead=False,
        idle_learning=False,
        host="localhost",
        port=7000,
        allowed_hosts=("a.example", "b.example"),
        data_dir=tmp_path / "data",
        offline=True,
        open_browser=False,
        log_level="debug",
    )
    assert set(values) == {field.name for field in fields(Settings)}
    environment = {f"LOOKAHEAD_CHAT_{name.upper()}": value for name, value in values.items()}
    assert resolve({}, environment, tmp_path) == expected
    assert resolve(values, {}, tmp_path) == expected
    lines = [f"{name} = '{value}'" for name, value in values.items()]
    (tmp_path / "config.toml").write_text("\n".join(lines))
    assert resolve({}, {}, tmp_path) == expected
    (tmp_path / "config.toml").write_text("strict = false\nport = 7000\nallowed_hosts = ['c']")
    typed = resolve({}, {}, tmp_path)
    assert (typed.strict, typed.port, typed.allowed_hosts) == (False, 7000, ("c",))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("port", "http", "LOOKAHEAD_CHAT_PORT must be a whole number, not 'http'"),
        ("port", "70000", "between 1 and 65535"),
        ("dtype", "int3", "must be one of auto, float32"),
        ("host", "0.0.0.0", "must be one of 127.0.0.1"),
        ("strict", "maybe", "must be true or false"),
        ("model", "./nowhere", "must be an existing folder"),
        ("model", "x" * 300, "must be an existing folder"),
        ("model", "~no-such-user/m", "a path whose home folder is known"),
        ("data_dir", "~no-such-user/d", "a path whose home folder is known"),
        ("data_dir", "a\0b", "a path"),
    ],
)
def test_an_impossible_value_is_named_with_its_place(
    name: str, value: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(SettingsError, match=message):
        resolve({}, {f"LOOKAHEAD_CHAT_{name.upper()}": value}, tmp_path)


def test_a_misspelt_name_in_the_file_is_an_error_with_the_right_one(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("prot = 1\n")
    with pytest.raises(SettingsError, match=r"config\.toml sets prot.*did you mean port"):
        resolve({}, {}, tmp_path)


def test_a_file_that_is_no_toml_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("port: 1\n")
    with pytest.raises(SettingsError, match=r"config\.toml cannot be read"):
        resolve({}, {}, tmp_path)


def test_an_empty_variable_counts_as_not_set(tmp_path: Path) -> None:
    assert resolve({}, {"LOOKAHEAD_CHAT_PORT": ""}, tmp_path).port is None


def test_folders_follow_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("data_dir", "cache_dir", "config_dir"):
        monkeypatch.setenv(f"LOOKAHEAD_CHAT_{name.upper()}", str(tmp_path / name))
        assert getattr(settings_module.paths, name)() == tmp_path / name
    assert Settings().data_dir == tmp_path / "data_dir"
    assert Settings().service_values()["cache_dir"] == tmp_path / "cache_dir"

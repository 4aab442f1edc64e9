"""A model folder is whole or not there."""

from pathlib import Path

import pytest

from lookahead.model_folder import is_whole, new_model_folder


def make(folder: Path, text: str = "weights") -> None:
    with new_model_folder(folder) as temporary:
        (temporary / "model").write_text(text)


def test_a_folder_appears_whole_and_replaces_a_damaged_one(tmp_path: Path) -> None:
    folder = tmp_path / "models" / "one"
    assert not is_whole(folder)
    folder.mkdir(parents=True)
    (folder / "old").touch()
    make(folder)
    assert is_whole(folder)
    assert sorted(path.name for path in folder.iterdir()) == ["manifest.json", "model"]
    assert list(folder.parent.iterdir()) == [folder]


def test_an_error_leaves_nothing_behind(tmp_path: Path) -> None:
    def fill_the_disk() -> None:
        with new_model_folder(tmp_path / "one") as temporary:
            (temporary / "model").write_text("half")
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        fill_the_disk()
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_is_never_taken_for_a_model(tmp_path: Path) -> None:
    folder = tmp_path / "one"
    left = tmp_path / "one.part"
    left.mkdir()
    (left / "other").write_text("half")
    assert not is_whole(folder)
    make(folder)
    assert not left.exists()
    assert not (folder / "other").exists()


@pytest.mark.parametrize("damage", ["truncate", "remove", "manifest", "no manifest"])
def test_a_damaged_folder_is_not_whole(damage: str, tmp_path: Path) -> None:
    folder = tmp_path / "one"
    make(folder)
    model, manifest = folder / "model", folder / "manifest.json"
    if damage == "truncate":
        model.write_text("weight")
    elif damage == "remove":
        model.unlink()
    elif damage == "manifest":
        manifest.write_text("[]")
    else:
        manifest.unlink()
    assert not is_whole(folder)

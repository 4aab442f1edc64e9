"""Where a model's files come from: a folder, the embedded model, or a model hub.

Loads no weights and imports no torch, so that a wrong name is told before anything long starts.
Called by the loader and by the command line.
"""

import logging
from collections.abc import Callable
from pathlib import Path

from lookahead.embedded_model import EMBEDDED_MODEL_NAME, ensure_embedded_model
from lookahead.errors import ModelNotFoundError

__all__ = ["Report", "prepare_model"]

_logger = logging.getLogger(__name__)

Report = Callable[[str], None]


def prepare_model(
    name: str | Path,
    report: Report | None = None,
    *,
    may_download: bool = True,
    with_weights: bool = True,
) -> Path:
    """The folder of a model's files, fetched if need be; no weights are loaded.

    Args:
        name: a folder, a name on a model hub, or the embedded model's name.
        report: told in sentences what takes long.
        may_download: False: only what is on this machine already.
        with_weights: False: of a model on a hub, all but those.

    Raises:
        ModelNotFoundError: no such folder or model.
        ModelSetupError: the embedded model could not be set up.
    """
    if str(name) == EMBEDDED_MODEL_NAME:
        return ensure_embedded_model(report=report, may_download=may_download)
    folder = Path(name).expanduser()
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise ModelNotFoundError(
                f"{folder} holds no config.json: give the folder of a model in the Hugging Face "
                "layout (config.json, safetensors, tokenizer)."
            )
        return folder
    return _fetch_from_hub(str(name), report or _logger.info, may_download, with_weights)


def _fetch_from_hub(name: str, report: Report, may_download: bool, with_weights: bool) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    report(f"Fetching {name}")
    patterns = ["*.json", "*.model", "*.txt", "*.jinja"]
    if with_weights:
        patterns.append("*.safetensors")
    try:
        return Path(
            snapshot_download(name, allow_patterns=patterns, local_files_only=not may_download)
        )
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        raise ModelNotFoundError(
            f"There is no folder {name!r}, and the model hub did not give a model of that name "
            f"({type(error).__name__}). Check the spelling and the network, log in if the model "
            f"is gated, or use --model {EMBEDDED_MODEL_NAME}."
        ) from error

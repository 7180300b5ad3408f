"""Puts the folder of a repaired model or of an export on the Hub."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..data import MANIFEST_FILE, json_content, read_manifest
from ..errors import ConfigError, GuardrailError, RunError
from ..models import quiet_transformers
from ..saving import GUARDRAIL_FILE, first_line
from .exporting import EXPORT_FILE

CARD = "README.md"


def push_to_hub(
    folder: str | Path,
    repo_id: str,
    *,
    private: bool = True,
    license: str | None = None,
    revision: str | None = None,
    token: str | None = None,
) -> str:
    """Put a folder that `fit` or `export` wrote on the Hub, in one commit.

    Files of an earlier call that the folder no longer has are removed there. Other files stay, here and there.

    Args:
        repo_id: As "owner/name". It is made if there is none.
        private: Whether a new repository is private. The shortcuts come from your texts.
        license: For the model card, as the Hub writes it, e.g. "mit". `None` takes that of the original model.
        revision: Branch; it has to exist.
        token: `None` takes that of `hf auth login`.

    Returns:
        The address of the commit.

    Raises:
        ConfigError: It is no such folder.
        RunError: The Hub does not respond, or refuses.
    """
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi

    folder, api = Path(folder), HfApi(token=token)
    names = [*(read_manifest(folder) or ())]
    if not {GUARDRAIL_FILE, EXPORT_FILE} & {*names}:
        raise ConfigError(f"'{folder}' is no folder that fit or export wrote. Give one of these.")
    names.append(MANIFEST_FILE)
    try:
        with quiet_transformers():
            api.create_repo(repo_id, private=private, exist_ok=True)
            steps: list[Any] = [
                *(CommitOperationDelete(name) for name in _of_earlier(api, repo_id, revision) if name not in names),
                *(CommitOperationAdd(name, folder / name) for name in names if name != CARD),
                CommitOperationAdd(CARD, _licensed(folder, license, token)),
            ]
            made = api.create_commit(repo_id, steps, commit_message="Write with Shortcut Guardrail", revision=revision)
    except GuardrailError:
        raise
    except Exception as error:  # HTTP clients of several versions raise what they like
        raise RunError(
            f"'{folder}' could not be put on the Hub as '{repo_id}': {first_line(error)}. See whether it answers, and "
            "whether `hf auth whoami` may write there."
        ) from error
    return str(made.commit_url)


def _of_earlier(api: Any, repo_id: str, revision: str | None) -> list[str]:
    """What an earlier push wrote there, as its manifest says."""
    there = api.list_repo_files(repo_id, revision=revision)
    if MANIFEST_FILE not in there:
        return []
    file = api.hf_hub_download(repo_id, MANIFEST_FILE, revision=revision)
    return [name for name in read_manifest(Path(file).parent) or () if name in there]


def _licensed(folder: Path, license: str | None, token: str | None) -> bytes:
    """The card of a folder, with a licence where one is given or known, and the card names none yet."""
    from huggingface_hub import ModelCard

    card = ModelCard.load(folder / CARD)
    known: dict[str, Any] = {"license": license} if license else {}
    if not known and not card.data.get("license"):
        known = _license_of_base(folder, token)
    for key, value in known.items():
        card.data[key] = value
    return str(card).encode()


def _license_of_base(folder: Path, token: str | None) -> dict[str, Any]:
    """What the card of the base model says of its licence; nothing where there is no such card."""
    from huggingface_hub import ModelCard, hf_hub_download

    record = GUARDRAIL_FILE if (folder / GUARDRAIL_FILE).exists() else EXPORT_FILE
    base = json_content(folder / record, advice="")["base_model"]
    try:
        file = Path(base["name"]) / CARD
        if not Path(base["name"]).is_absolute():
            file = Path(hf_hub_download(base["name"], CARD, revision=base["revision"], token=token))
        said = ModelCard.load(file).data
    except Exception:  # no name, no card, none that can be read, and what HTTP clients of several versions raise
        return {}
    return {key: said[key] for key in ("license", "license_name", "license_link") if said.get(key)}

"""Puts the folder of a guard or of an export on the Hub."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..data import MANIFEST_FILE, read_manifest
from ..errors import ConfigError, GuardrailError, RunError
from ..models import quiet_transformers
from ..saving import GUARDRAIL_FILE, first_line
from .exporting import EXPORT_FILE


def push_to_hub(
    folder: str | Path, repo_id: str, *, private: bool = True, revision: str | None = None, token: str | None = None
) -> str:
    """Put a folder that `fit` or `export` wrote on the Hub, in one commit.

    What an earlier call put there and the folder no longer has is removed. Other files stay, here and there.

    Args:
        repo_id: As "owner/name". It is made where there is none.
        private: Whether a new repository is private. The words that a guard neutralises come from your texts.
        revision: Branch; it has to exist.
        token: `None` takes that of `hf auth login`.

    Returns:
        The address of the commit.

    Raises:
        ConfigError: It is no such folder.
        RunError: The Hub does not answer, or refuses.
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
                *(CommitOperationAdd(name, folder / name) for name in names),
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

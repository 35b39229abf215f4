"""Checks of a model before a run starts: its files, its chat template, and whether prompts and replies fit."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from omegaconf import DictConfig

from veritas_rl.chat_template import check_template, end_warning, prompt_ids, render, reply_ids
from veritas_rl.checkpoints.adapter import dropout_of, headers, only_bin
from veritas_rl.checkpoints.packaged import local_name, provide
from veritas_rl.envs.registry import get_environment, is_remote, spread
from veritas_rl.envs.task import Task
from veritas_rl.errors import UserError
from veritas_rl.launch.configuration import tasks_of
from veritas_rl.verl_plugin import dropout

PROMPTS = 3
"""The number of tasks of a catalogue whose prompts are checked before the start."""

MEASURED = 64
"""The number of tasks whose prompts are measured for a forecast."""


def check_model(path: str, context: int = 0, *, critic: bool = False) -> None:
    """Check that a model's configuration and tokenizer can be read from a local folder or the hub. The folder of a
    packaged model is written if necessary.

    Args:
        path: The folder, or the hub id.
        context: The required context in tokens.
        critic: Whether the run also needs a critic of this model.

    Raises:
        UserError: The model cannot be read, its weights are incomplete, it has no chat template that shows a question,
            its context is too small, or it has no critic class.
    """
    from transformers import (
        MODEL_FOR_CAUSAL_LM_MAPPING,
        MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING,
        AutoConfig,
        AutoTokenizer,
    )

    path = provide(path)
    try:
        config = AutoConfig.from_pretrained(path)
        tokenizer = AutoTokenizer.from_pretrained(path)
    except Exception as error:  # a damaged file makes transformers and tokenizers raise many types of errors
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UserError(
            f"the model {path} cannot be read ({reason}): set AGENT_MODEL_REPO_ID to a hub id, or to a folder with "
            "config.json, weights and a tokenizer"
        ) from error
    if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING:
        raise UserError(
            f"transformers has no causal language model for {path} (model type {config.model_type}): choose "
            "another model"
        )
    check_weights(path)
    check_template(tokenizer, path)
    if critic and type(config) not in MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING:
        raise UserError(
            f"transformers has no critic for {path} (model type {config.model_type}): set ALGORITHM=grpo or "
            "ALGORITHM=rae, which need no critic"
        )
    limit = getattr(config.get_text_config(), "max_position_embeddings", None)
    if limit is not None and limit < context:
        raise UserError(
            f"{path} has a context of {limit} tokens, and the run needs {context}: set data.max_prompt_length and "
            "data.max_response_length to less, and actor_rollout_ref.rollout.max_model_len if you set it"
        )


def check_weights(path: str) -> None:
    """Check that a model's weights are complete safetensors files. Only headers are read. On the hub only their kind is
    looked up, and nothing is if the hub does not answer.

    Args:
        path: The model's folder, or its hub id.

    Raises:
        UserError: Weights are missing, damaged, or not in safetensors.
    """
    from huggingface_hub import get_safetensors_metadata
    from huggingface_hub.errors import NotASafetensorsRepoError

    if Path(path).is_dir():
        headers(Path(path))
        return
    try:
        get_safetensors_metadata(path)
    except NotASafetensorsRepoError as error:
        raise UserError(only_bin(path)) from error
    except Exception:  # a hub that cannot be asked is reported when the weights are downloaded
        return


def check_prompts(path: str, catalogues: Iterable[Sequence[Task]]) -> None:
    """Check that a model's chat template accepts the prompts of a run: its system messages, and in conversations its
    earlier replies.

    Args:
        path: The model's folder, or its hub id.
        catalogues: The tasks of the run.

    Raises:
        UserError: The template does not accept a prompt.
    """
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(path)
    for task in (task for catalogue in catalogues for task in spread(catalogue, PROMPTS)):
        if is_remote(task):
            continue  # its server writes the prompts, and would begin a game for each
        for turn in get_environment(task.env).start(task).turns():
            talks = task.manner.context == "conversation"
            try:
                render(tokenizer, turn.chat_after("...", "...") if talks else turn.messages)
            except UserError as error:
                raise UserError(f"{path} cannot answer tasks of {task.env}: {error}; choose another model") from error


def tokenizer_of(model: str | Path | None, words: Sequence[str] = (), *, conversation: bool = False) -> Any:
    """A run's tokenizer.

    Args:
        model: The model's folder or hub id, or a packaged model's name; None for the model that the launcher makes.
        words: The words of that model's tokenizer.
        conversation: Whether the chat template of a named model must show earlier turns.

    Raises:
        UserError: The tokenizer cannot be read, or its chat template does not show a conversation.
    """
    # These import torch, which a run with one reply in each row does not need before its start.
    from transformers import AutoTokenizer

    from veritas_rl.launch.tiny_model import byte_tokenizer

    if model is None:
        return byte_tokenizer(words)
    try:
        tokenizer = AutoTokenizer.from_pretrained(local_name(str(model)))
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"the tokenizer of {model} cannot be read ({' '.join(str(error).split())[:100]})") from error
    if conversation:
        check_template(tokenizer, model, conversation=True)
    return tokenizer


def check_replies(
    tokenizer: Any, catalogues: Iterable[Sequence[Task]], key: str, limit: int, *, enable_thinking: bool
) -> None:
    """Check that some task of a run can be answered within the limit of a reply.

    Args:
        tokenizer: The model's tokenizer, with a chat template.
        catalogues: The tasks of the run.
        key: The key of the limit.
        limit: The most tokens of a reply, its end included.
        enable_thinking: Whether a hybrid model thinks before it answers.

    Raises:
        UserError: Every known answer of the tasks looked at is longer.
    """
    shortest: tuple[int, str] | None = None
    for task in (task for catalogue in catalogues for task in spread(catalogue, PROMPTS)):
        if is_remote(task):
            return
        for turn in get_environment(task.env).start(task).turns():
            answers = turn.answers or ((turn.solution,) if turn.solution else ())
            if not answers:
                return
            for answer in answers:
                length = len(reply_ids(tokenizer, answer, enable_thinking=enable_thinking))
                if length <= limit:
                    return
                shortest = min(shortest or (length, answer), (length, answer))
    if shortest is not None:
        raise UserError(
            f"{key}={limit} is too short for any answer: the shortest, {shortest[1]!r}, has {shortest[0]} tokens with "
            f"its end: set {key} to {shortest[0]} or more"
        )


def end_note(path: str) -> str | None:
    """A warning if tokenizer and generation config of a model end replies differently; see `end_warning`.

    Args:
        path: The model's folder, or its hub id.
    """
    from transformers import AutoTokenizer

    from veritas_rl.checkpoints.models import generation_config_of

    return end_warning(AutoTokenizer.from_pretrained(path), generation_config_of(path), path)


def mean_prompt(configuration: DictConfig) -> dict[str, int]:
    """The mean tokens of a prompt of training as `{"prompt": tokens}`; empty if the model's tokenizer is not on this
    machine, or a server writes the prompts.

    Args:
        configuration: The resolved configuration, with a named model.
    """
    from transformers import AutoTokenizer

    tasks = list(spread(tasks_of(configuration, "train"), MEASURED))
    if any(map(is_remote, tasks)):
        return {}
    try:
        tokenizer = AutoTokenizer.from_pretrained(
            local_name(configuration.actor_rollout_ref.model.path), local_files_only=True
        )
    except (OSError, ValueError):
        return {}
    turns = [turn for task in tasks for turn in get_environment(task.env).start(task).turns()]
    return {"prompt": round(fmean(len(prompt_ids(tokenizer, turn.messages)) for turn in turns))}


def dropout_note(path: str, adapter: str | None) -> str | None:
    """What RL turns off in a model, in one line; None if there is nothing.

    Args:
        path: The model's folder or hub id.
        adapter: The folder of the adapter from which training continues, or None.
    """
    from transformers import AutoConfig

    names = dropout.typed(dropout.found(AutoConfig.from_pretrained(path)))
    if adapter is not None and (share := dropout_of(Path(adapter))):
        names.append(f"lora_dropout={share}")
    if not names:
        return None
    return f"dropout is off in RL, because rollout and reference have none: {', '.join(names)} of the model is set to 0"

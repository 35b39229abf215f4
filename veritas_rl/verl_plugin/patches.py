"""Where the behaviour of verl, TransferQueue or tensordict is changed: one small function for each fault.

Each names the fault, looks that the fault is still there, and refuses on a version that it was not written for, so that
an upgrade can never leave a stale patch at work unseen.
"""

import functools
import importlib.metadata
import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement


class PatchRefused(RuntimeError):
    """A package is not the version that a patch was written for, or the fault that it mends is gone."""


def required_version(package: str) -> str:
    """The version of a package that this one pins (train/verl/*.txt, read through the metadata)."""
    for line in importlib.metadata.requires("veritas-rl") or []:
        requirement = Requirement(line)
        if requirement.name == package:
            return str(requirement.specifier).removeprefix("==")
    raise PatchRefused(f"the installed veritas-rl names no {package}: install it again, with pip install -e .")


def _require_fault(function: Callable[..., Any], line: str, package: str = "verl") -> None:
    """Refuse unless this is the pinned version and `line` stands in the source of `function`."""
    installed, required, name = importlib.metadata.version(package), required_version(package), function.__name__
    if installed != required:
        raise PatchRefused(f"{package} {installed} is installed, the patch of {name} is for {package} {required}")
    if line not in inspect.getsource(function):
        raise PatchRefused(f"{name} of {package} {installed} no longer has the fault: {line}")


def gloo_process_group(module: Any) -> None:
    """On a CPU the backend string becomes "cpu:gloo,cpu:gloo", which torch refuses: pass plain "gloo"."""
    original = module.initialize_global_process_group_ray
    _require_fault(original, 'backend or f"cpu:gloo,{get_device_name()}:{get_nccl_backend()}"')

    @functools.wraps(original)
    def initialize(timeout_second: float | None = None, backend: str | None = None) -> None:
        if module.get_device_name() == "cpu":
            backend = backend or "gloo"
        original(timeout_second=timeout_second, backend=backend)

    module.initialize_global_process_group_ray = initialize


def gloo_process_group_of_torchrun(module: Any) -> None:
    """The same for processes that torchrun starts, which cannot name a backend: make the group before verl looks."""
    original = module.initialize_global_process_group
    _require_fault(original, 'backend = f"cpu:gloo,{get_device_name()}:{get_nccl_backend()}"')

    @functools.wraps(original)
    def initialize(timeout_second: int = 36000) -> tuple[int, int, int]:
        if module.get_device_name() != "cpu":
            return original(timeout_second)
        module.torch.distributed.init_process_group(backend="gloo", timeout=module.timedelta(seconds=timeout_second))
        return int(os.environ["LOCAL_RANK"]), int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])

    module.initialize_global_process_group = initialize


CHUNK_ELEMENTS = 1 << 24
"""How many logits are exponentiated at once."""


def log_probabilities(module: Any) -> None:
    """Without flash-attn, log-probabilities are made one token at a time, each a node of the graph: make many at once.

    On a CPU this was more than half of an update of a small model. Those of bf16 logits are also rounded to bf16, to
    steps of 1/32 where they are about -5: compute in fp32, as flash-attn does.
    """
    from torch.utils.checkpoint import checkpoint

    original = module.logprobs_from_logits_v2
    _require_fault(original, "torch.stack([torch.logsumexp(logit, dim=-1) for logit in logits])")
    _require_fault(original, "row_logprobs = F.log_softmax(row_logits, dim=-1)")

    def normaliser(chunk: Any) -> Any:
        return module.torch.logsumexp(chunk.float(), dim=-1)

    @functools.wraps(original)
    def logprobs(logits: Any, labels: Any) -> Any:
        torch = module.torch
        chosen = torch.gather(logits, dim=-1, index=labels.unsqueeze(-1)).squeeze(-1).float()
        rows = logits.flatten(0, -2)
        chunks = rows.split(max(1, CHUNK_ELEMENTS // rows.shape[-1]))
        if rows.dtype == torch.float32:
            found = [normaliser(chunk) for chunk in chunks]
        else:
            # The backward pass makes the fp32 copies again, instead of keeping them all.
            found = [checkpoint(normaliser, chunk, use_reentrant=False, preserve_rng_state=False) for chunk in chunks]
        return chosen - torch.cat(found).view_as(chosen)

    module.logprobs_from_logits_v2 = logprobs


def whole_batches(module: Any) -> None:
    """Rows are selected by taking nested tensors apart, also where all are wanted in their order: hand out the same.

    verl does so twice an epoch, and a small batch is one mini-batch and one micro-batch.
    """
    original = module.index_select_tensor_dict
    _require_fault(original, "selected_tensors = [tensor_lst[idx] for idx in indices]")

    @functools.wraps(original)
    def select(batch: Any, indices: Any) -> Any:
        if batch is not None and [int(index) for index in indices] == list(range(len(batch))):
            return batch.copy()
        return original(batch, indices)

    module.index_select_tensor_dict = select


def short_padding(module: Any) -> None:
    """What fills a batch is 128 tokens long, and all rows of a micro-batch are computed as long as the longest."""
    _require_fault(
        module.construct_minimal_padding_template, "prompts = torch.full((SYNTHETIC_PADDING_SEQ_LEN - 1,), eos_token_id"
    )
    module.SYNTHETIC_PADDING_SEQ_LEN = 2


def one_part(module: Any) -> None:
    """Rows are dealt to parts of the same work by long sorting, also where there is one part: give it all of them."""
    original = module.get_seqlen_balanced_partitions
    _require_fault(original, "partitions = karmarkar_karp(")

    @functools.wraps(original)
    def partitions(seqlen_list: Any, k_partitions: int, equal_size: bool) -> list[list[int]]:
        if k_partitions == 1:
            return [list(range(len(seqlen_list)))]
        return original(seqlen_list, k_partitions, equal_size)

    module.get_seqlen_balanced_partitions = partitions


def padded_responses(module: Any) -> None:
    """What was computed for a reply is cut out and padded one sample at a time: index all of them at once."""
    original = module.no_padding_2_padding
    _require_fault(original, "for resp_len, seq_offset in zip(response_lens, sequence_offsets, strict=True):")

    @functools.wraps(original)
    def pad(tensor: Any, data: Any) -> Any:
        torch = module.torch
        values = tensor.values() if tensor.is_nested else tensor
        if values.ndim > 1 or not data["prompts"].is_nested or "max_response_len" in data:
            return original(tensor, data)
        lengths = data["responses"].offsets().diff()
        ends = (data["prompts"].offsets().diff() + lengths).cumsum(0)
        places = torch.arange(int(lengths.max()), device=values.device)
        inside = places < lengths[:, None]
        # A token is predicted one place before it stands.
        sources = torch.where(inside, (ends - lengths - 1)[:, None] + places, 0)
        return torch.where(inside, values[sources], 0.0)

    module.no_padding_2_padding = pad


def nested_responses(module: Any) -> None:
    """The same twice more, for what is carried without padding."""
    from veritas_rl.verl_plugin.cells import jagged

    from_nested, to_nested = module.response_from_nested, module.response_to_nested
    _require_fault(from_nested, "for resp_len, seq_offset in zip(response_lens, offsets[1:], strict=True):")
    _require_fault(to_nested, "for i in range(tensor.shape[0]):")

    @functools.wraps(from_nested)
    def response_from_nested(tensor: Any, response_mask: Any) -> Any:
        offsets = response_mask.offsets()
        lengths = offsets.diff()
        # A token is predicted one place before it stands.
        shifts = (tensor.offsets()[1:] - lengths - 1 - offsets[:-1]).repeat_interleave(lengths)
        places = module.torch.arange(len(shifts), device=shifts.device) + shifts
        return jagged(tensor.values()[places], offsets)

    @functools.wraps(to_nested)
    def response_to_nested(tensor: Any, response_mask: Any) -> Any:
        offsets = response_mask.offsets()
        inside = module.torch.arange(tensor.shape[1], device=tensor.device) < offsets.diff()[:, None]
        return jagged(tensor[inside], offsets)

    module.response_from_nested, module.response_to_nested = response_from_nested, response_to_nested


def small_cells(module: Any) -> None:
    """TransferQueue carries each cell as a tensor of its own, about 10 µs to write and again to read: carry bytes.

    A step writes and reads some 60 columns, with a cell for each reply.
    """
    from veritas_rl.verl_plugin import cells

    manager = module.AsyncSimpleStorageManager
    metadata: Any = inspect.getmodule(module.extract_field_schema)
    select, pack, schema = manager._select_by_positions, manager._pack_field_values, metadata.extract_field_schema
    for function, line in (
        (select, "unbound = field_data.unbind()"),
        (pack, "return torch.nested.as_nested_tensor(values, layout=torch.jagged)"),
        (schema, "[tuple(t.shape) for t in value.unbind()]"),
    ):
        _require_fault(function, line, "TransferQueue")

    @functools.wraps(select)
    def select_by_positions(field_data: Any, positions: list[int]) -> Any:
        return cells.pack(field_data, positions) if cells.is_plain(field_data) else select(field_data, positions)

    @functools.wraps(pack)
    def pack_field_values(values: list[Any]) -> Any:
        if not any(map(cells.is_cell, values)):
            return pack(values)
        column = cells.unpack(values) if all(map(cells.is_cell, values)) else None
        return column if column is not None else pack([cells.tensor_of(value) for value in values])

    @functools.wraps(schema)
    def extract_field_schema(data: Any) -> dict[str, dict[str, Any]]:
        if not len(data):
            return schema(data)
        plain = {name for name, column in data.items() if cells.is_plain(column) and column.is_nested}
        rest = schema(data.select(*(name for name, _ in data.items() if name not in plain)))
        return {name: cells.describe(column) if name in plain else rest[name] for name, column in data.items()}

    manager._select_by_positions = staticmethod(select_by_positions)
    manager._pack_field_values = staticmethod(pack_field_values)
    module.extract_field_schema = metadata.extract_field_schema = extract_field_schema


def whole_descriptions(module: Any) -> None:
    """What is known of each row is copied, entry by entry, to divide it among parts: one part gets what there is."""
    among_ranks, among_partitions = module.BatchMeta.chunk, module.BatchMeta.chunk_by_partition
    _require_fault(among_ranks, "chunk = self.select_samples(indices)", "TransferQueue")
    _require_fault(among_partitions, "[self.select_samples(idx) for idx in", "TransferQueue")

    @functools.wraps(among_ranks)
    def chunk(self: Any, chunks: int) -> list[Any]:
        return [self] if chunks == 1 else among_ranks(self, chunks)

    @functools.wraps(among_partitions)
    def chunk_by_partition(self: Any) -> list[Any]:
        return [self] if len(set(self.partition_ids)) == 1 else among_partitions(self)

    module.BatchMeta.chunk, module.BatchMeta.chunk_by_partition = chunk, chunk_by_partition


def padded_tensors(module: Any) -> None:
    """Padding the tensors of a batch makes every word and dict in it anew, one at a time: leave them as they are."""
    original = module.TensorDictBase.to_padded_tensor
    _require_fault(original, "result = self._apply_nest(", "tensordict")

    @functools.wraps(original)
    def to_padded_tensor(self: Any, padding: float = 0.0, mask_key: Any = None) -> Any:
        words = {name: column for name, column in self.items() if module.is_non_tensor(column)}
        made = original(self.select(*(name for name, _ in self.items() if name not in words)), padding, mask_key)
        for name, column in words.items():
            made.set(name, column)
        return made

    module.TensorDictBase.to_padded_tensor = to_padded_tensor


def critic_head(module: Any) -> None:
    """The critic is loaded with flash attention whatever the configuration says: use the attention it names.

    Its new head is drawn at random, so its first values are noise, and a checkpoint that holds adapters alone could
    never give the same critic back: begin with zeros.
    """
    original = module.load_valuehead_model
    _require_fault(original, 'attn_implementation="flash_attention_2"')

    @functools.wraps(original)
    def load(local_path: str, torch_dtype: Any, model_config: Any, trust_remote_code: bool) -> Any:
        from transformers import AutoModelForTokenClassification

        model, told = AutoModelForTokenClassification.from_pretrained(
            local_path,
            dtype=torch_dtype,
            config=model_config,
            attn_implementation=model_config._attn_implementation,
            trust_remote_code=trust_remote_code,
            output_loading_info=True,
        )
        for name, parameter in model.named_parameters():
            if name in told["missing_keys"]:
                parameter.data.zero_()
        return model

    module.load_valuehead_model = load


def reference_offload(module: Any) -> None:
    """The reference is offloaded to pinned memory, which takes a GPU: on a CPU it stays where it is."""
    original = module.CPUOffloadPolicy
    _require_fault(module.FSDPEngine._build_fsdp_module, "offload_policy = CPUOffloadPolicy(pin_memory=True)")
    module.CPUOffloadPolicy = lambda pin_memory: None if module.get_device_name() == "cpu" else original(pin_memory)


def critic_adapter(module: Any) -> None:
    """The critic's adapter is made for a model that generates, which a critic does not: make it for one that reads."""
    _require_fault(module.FSDPEngine._build_lora_module, '"task_type": TaskType.CAUSAL_LM')
    original = module.get_peft_model

    @functools.wraps(original)
    def get_peft_model(model: Any, config: Any) -> Any:
        if not hasattr(model, "prepare_inputs_for_generation"):
            config.task_type = module.TaskType.FEATURE_EXTRACTION
        return original(model, config)

    module.get_peft_model = get_peft_model


def metrics_file(module: Any) -> None:
    """The file logger empties the file of a run that goes on: append to it."""
    logger = module.FileLogger
    original = logger.__init__
    _require_fault(original, 'open(self.filepath, "wb", buffering=0)')

    @functools.wraps(original)
    def initialize(self: Any, project_name: str, experiment_name: str) -> None:
        path = os.environ.get("VERL_FILE_LOGGER_PATH")
        if path is None:
            original(self, project_name, experiment_name)
            return
        self.project_name, self.experiment_name, self.filepath = project_name, experiment_name, path
        self.fp = Path(path).open("ab", buffering=0)  # noqa: SIM115 (its `finish` closes it)

    logger.__init__ = initialize

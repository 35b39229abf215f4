"""The launcher recognizes errors that vLLM, SGLang, torch and Ray print."""

from pathlib import Path

import pytest
from rich.console import Console

from veritas_rl.launch.known_faults import FAULTS, faults_in
from veritas_rl.launch.process import cause_of_end

PRINTED = {
    "weight names": "ValueError: There is no module or parameter named 'block' in Qwen3ForCausalLM",
    "flash_attn": "ImportError: /usr/lib/python3/flash_attn_2_cuda.cpython-312-x86_64-linux-gnu.so: undefined symbol: "
    "_ZN3c104cuda9SetDeviceEi",
    "SGLang's requests": "ImportError: cannot import name 'ReleaseMemoryOccupationReqInput' from "
    "'sglang.srt.managers.tokenizer_manager' (/usr/lib/tokenizer_manager.py)",
    "imports of the rollout": "ImportError: cannot import name 'LLM' from 'vllm' (unknown location)",
    "SGLang's patch of torch": '  File "/usr/lib/sglang/srt/patch_torch.py", line 66, in _modify_tuple\n'
    "    return *t[:index], modifier(t[index]), *t[index + 1 :]\n                                ~^^^^^^^\n"
    "IndexError: tuple index out of range",
    "free GPU memory": "ValueError: Free memory on device cuda:0 (7.34/15.49 GiB) on startup is less than desired GPU "
    "memory utilization (0.8, 12.39 GiB). Decrease GPU memory utilization or reduce GPU memory used by others.",
    "KV cache": "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`",
    "GPU memory": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
    "driver": "RuntimeError: The NVIDIA driver on your system is too old (found version 12020).",
    "compiler": "RuntimeError: Failed to find C compiler. Please specify via CC environment variable",
    "OpenSpiel": "ModuleNotFoundError: No module named 'pyspiel'",
    "shared memory": "Bus error (core dumped)",
    "disk": "OSError: [Errno 28] No space left on device: '/data/model.safetensors'",
    "open files": "OSError: [Errno 24] Too many open files",
    "Hugging Face": "huggingface_hub.errors.GatedRepoError: 403 Client Error.",
    "Weights & Biases": "wandb.errors.UsageError: api_key not configured (no-tty). call wandb.login()",
    "Ray's address": "ConnectionError: Could not connect to Ray at 10.0.0.1:6379",
    "vLLM's worker": "\x1b[36m(vLLMHttpServer pid=9)\x1b[0m ERROR 11-27 03:34:19 [multiproc_executor.py:284] "
    "Worker proc VllmWorker-0 died unexpectedly",
    "Ray's folder": "OSError: validate_socket_filename failed: AF_UNIX path length cannot exceed 107 bytes: /a",
}


@pytest.mark.parametrize("name", PRINTED)
def test_an_error_is_recognized(name: str) -> None:
    noise = "\n".join(f"(Worker pid={number}) step {number} took 3 s" for number in range(50))
    ((fault, line),) = faults_in(f"{noise}\n{PRINTED[name]}\n{noise}")
    assert fault.name == name
    assert line.split()[-1] in PRINTED[name]
    assert "\x1b" not in line
    assert len(line) <= 200
    assert fault.mend


def test_every_known_error_has_a_test() -> None:
    assert [fault.name for fault in FAULTS] == list(PRINTED)


def test_a_sound_log_and_other_index_errors_hold_none() -> None:
    assert list(faults_in("step 1\nIndexError: tuple index out of range\nfree memory: 3 GiB\n")) == []
    assert list(faults_in("")) == []


def test_a_run_that_ends_with_one_says_what_mends_it(tmp_path: Path) -> None:
    log = tmp_path / "verl.log"
    log.write_text(f"Traceback\n{PRINTED['free GPU memory']}\n")
    message = cause_of_end(log, 1, Console(quiet=True))
    assert message.startswith("verl ended with ValueError: Free memory on device cuda:0 (7.34/15.49 GiB)")
    assert message.endswith("(nvidia-smi lists them), or set GPU_MEMORY_UTILIZATION=0.3")
    assert str(log) in message

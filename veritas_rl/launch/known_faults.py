"""Errors that users of verl, vLLM, SGLang and Ray meet, each with what it is and what mends it.

`train/tools/doctor.py` looks for most of them before a run; here they are recognized in what a run printed.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

LINES = 2000
"""How many of a log's last lines are searched: what follows an error in it is often longer than the error."""


@dataclass(frozen=True)
class Fault:
    """An error that is known.

    Attributes:
        name: What it is called in the doctor's table.
        pattern: What it prints: a regular expression over the lines of a log.
        cause: What it is, in one sentence.
        mend: What to type or to change.
    """

    name: str
    pattern: str
    cause: str
    mend: str

    def line_in(self, text: str) -> str | None:
        """The line of a log that shows it, cut to 200 characters; None where there is none."""
        found = re.search(self.pattern, text)
        if found is None:
            return None
        start, end = text.rfind("\n", 0, found.start()) + 1, text.find("\n", found.end())
        return " ".join(text[start : end if end >= 0 else None].split())[:200]


PINNED = "bash train/scripts/setup.sh installs versions that fit"

FAULTS = (
    Fault(
        "weight names",
        r"There is no module or parameter named '[^']*' in \w+",
        "the checkpoint names its weights otherwise than vLLM's class of this model does",
        "rollout=transformers, or a model of another family: doctor.py --model lists the names",
    ),
    Fault(
        "flash_attn",
        r"flash_attn[^\n]*undefined symbol",
        "flash_attn was built for another torch or CUDA",
        "pip uninstall -y flash-attn (torch's attention is used then), or install the one built for this torch",
    ),
    Fault(
        "SGLang's requests",
        r"cannot import name 'ReleaseMemoryOccupationReqInput'",
        "verl and SGLang are of versions that do not fit: this class has moved",
        f"{PINNED}: ROLLOUT_BACKEND=sglang VENV=.venv-sglang",
    ),
    Fault(
        "imports of the rollout",
        r"cannot import name '\w+' from '(?:vllm|sglang|transformers)[\w.]*'",
        "verl and what it imports here are of versions that do not fit",
        PINNED,
    ),
    Fault(
        "SGLang's patch of torch",
        r"patch_torch\.py(?:[^\n]*\n){1,8}?[^\n]*IndexError: tuple index out of range",
        "SGLang rewrites an argument with which torch sends a tensor; this torch, or a tensor on the CPU, has fewer",
        "ROLLOUT_BACKEND=vllm, or SGLang and torch as pinned, in an environment of their own: ROLLOUT_BACKEND=sglang "
        "VENV=.venv-sglang bash train/scripts/setup.sh",
    ),
    Fault(
        "free GPU memory",
        r"Free memory on device[^\n]*less than desired GPU memory utilization",
        "other processes hold memory of the GPU, and the rollout's share is more than what is left",
        "end them (nvidia-smi lists them), or GPU_MEMORY_UTILIZATION=0.3",
    ),
    Fault(
        "KV cache",
        r"No available memory for the cache blocks|larger than the available KV cache memory",
        "the rollout's share of the GPU holds the weights and no cache for one sequence",
        "a larger GPU_MEMORY_UTILIZATION, or a smaller data.max_response_length: train/tools/plan.py shows both",
    ),
    Fault(
        "GPU memory",
        r"CUDA out of memory|torch\.(?:cuda\.)?OutOfMemoryError",
        "a step needs more memory than the GPU has",
        "train/tools/plan.py names the largest micro-batch that fits, and what else makes it fit",
    ),
    Fault(
        "driver",
        r"NVIDIA driver on your system is too old|CUDA driver version is insufficient",
        "the driver is older than the CUDA that torch was built for",
        "update the driver of this machine",
    ),
    Fault(
        "compiler",
        r"Failed to find C compiler|fatal error: Python\.h: No such file",
        "Triton compiles, and finds no compiler or no headers of Python",
        "apt-get install gcc python3-dev",
    ),
    Fault(
        "OpenSpiel",
        r"No module named 'pyspiel'",
        "OpenSpiel is not installed in this Python",
        "bash train/scripts/setup.sh",
    ),
    Fault(
        "shared memory",
        r"Bus error|/dev/shm[^\n]*No space left on device|No space left on device[^\n]*/dev/shm|"
        r"insufficient shared memory \(shm\)",
        "/dev/shm is full; Docker gives a container 64 MiB",
        "docker run --ipc host, or --shm-size 32g",
    ),
    Fault("disk", r"No space left on device|Disk quota exceeded", "a disk is full", "free some, or another folder"),
    Fault("open files", r"Too many open files", "more files are open than a process may", "ulimit -n 65536"),
    Fault(
        "Hugging Face",
        r"GatedRepoError|Cannot access gated repo|401 Client Error[^\n]*huggingface",
        "the model is gated",
        "accept its licence on its page, and set HF_TOKEN in .env",
    ),
    Fault(
        "Weights & Biases",
        r"(?i)api[_ ]key not configured|No API key configured",
        "trainer.logger holds wandb, and no key is set",
        "WANDB_API_KEY in .env, or WANDB_MODE=offline and `wandb sync` later",
    ),
    Fault(
        "Ray's address",
        r"Could not connect to Ray|Failed to connect to GCS|Unable to connect to GCS",
        "the Ray cluster that is named does not answer",
        "set RAY_ADDRESS to a head that runs, or start it again",
    ),
    Fault(
        "Ray's folder",
        r"AF_UNIX path length cannot exceed",
        "the path of Ray's temporary folder is too long for its sockets",
        "RAY_TMPDIR=/tmp",
    ),
)
"""Every known error, the special ones before those whose words they share."""


def faults_in(log: str) -> Iterator[tuple[Fault, str]]:
    """The known errors in a log, each with the line that shows it; of two that share a line, the first of `FAULTS`.

    Args:
        log: What a run printed.
    """
    text = "\n".join(log.splitlines()[-LINES:])
    seen = set[str]()
    for fault in FAULTS:
        line = fault.line_in(text)
        if line is not None and line not in seen:
            seen.add(line)
            yield fault, line

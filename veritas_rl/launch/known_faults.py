"""Known errors of verl, vLLM, SGLang and Ray, each with its cause and its fix.

`train/tools/doctor.py` checks for most of them before a run. This module recognizes them in a run's log.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

LINES = 2000
"""How many last lines of a log are searched. The output after an error is often longer than the error."""

COLOURS = re.compile(r"\x1b\[[\d;]*m")
"""The codes of colours in Ray's output."""


@dataclass(frozen=True)
class Fault:
    """A known error.

    Attributes:
        name: The error's name in the doctor's table.
        pattern: A regular expression that matches the error's output in a log.
        cause: The cause, in one sentence.
        mend: What to type or to change.
    """

    name: str
    pattern: str
    cause: str
    mend: str

    def line_in(self, text: str) -> str | None:
        """The first matching line of a log, cut to 200 characters; None if no line matches."""
        found = re.search(self.pattern, text)
        if found is None:
            return None
        start, end = text.rfind("\n", 0, found.start()) + 1, text.find("\n", found.end())
        return " ".join(text[start : end if end >= 0 else None].split())[:200]


PINNED = "run bash train/scripts/setup.sh, which installs matching versions"

ENGINE_DIED = Fault(
    "vLLM's worker",
    r"Worker proc \S+ died unexpectedly",
    "a process of vLLM was killed, or memory ran out",
    "type the same command to resume from the last checkpoint; if memory ran out, set "
    "actor_rollout_ref.rollout.max_num_seqs to less",
)
"""Each game that waited for the engine adds its traceback after this error."""

FAULTS = (
    Fault(
        "weight names",
        r"There is no module or parameter named '[^']*' in \w+",
        "the checkpoint's weight names differ from those of vLLM's class of this model",
        "set rollout=transformers, or choose another model (doctor.py --model lists the names)",
    ),
    Fault(
        "flash_attn",
        r"flash_attn[^\n]*undefined symbol",
        "flash_attn was built for another torch or CUDA",
        "run pip uninstall -y flash-attn to use torch's attention, or install the build for this torch",
    ),
    Fault(
        "SGLang's requests",
        r"cannot import name 'ReleaseMemoryOccupationReqInput'",
        "the versions of verl and SGLang do not match, because SGLang has moved this class",
        "run ROLLOUT_BACKEND=sglang VENV=.venv-sglang bash train/scripts/setup.sh, which installs matching versions",
    ),
    Fault(
        "imports of the rollout",
        r"cannot import name '\w+' from '(?:vllm|sglang|transformers)[\w.]*'",
        "the versions of verl and of a package that it imports do not match",
        PINNED,
    ),
    Fault(
        "SGLang's patch of torch",
        r"patch_torch\.py(?:[^\n]*\n){1,8}?[^\n]*IndexError: tuple index out of range",
        "SGLang changes an argument of torch's tensor transfer that this torch, or a tensor on the CPU, does not have",
        "set ROLLOUT_BACKEND=vllm, or install the pinned SGLang and torch in a separate environment with "
        "ROLLOUT_BACKEND=sglang VENV=.venv-sglang bash train/scripts/setup.sh",
    ),
    Fault(
        "free GPU memory",
        r"Free memory on device[^\n]*less than desired GPU memory utilization",
        "other processes use memory of the GPU, and the rollout's share is more than the free memory",
        "end these processes (nvidia-smi lists them), or set GPU_MEMORY_UTILIZATION=0.3",
    ),
    Fault(
        "KV cache",
        r"No available memory for the cache blocks|larger than the available KV cache memory",
        "the rollout's share of the GPU is too small for the weights and the KV cache of one sequence",
        "set GPU_MEMORY_UTILIZATION to more, or data.max_response_length to less (train/tools/plan.py forecasts both)",
    ),
    Fault(
        "GPU memory",
        r"CUDA out of memory|torch\.(?:cuda\.)?OutOfMemoryError",
        "a step needs more memory than the GPU has",
        "run train/tools/plan.py, which lists settings that fit",
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
        "Triton needs a C compiler and Python's headers, and one of them is missing",
        "run apt-get install gcc python3-dev",
    ),
    Fault(
        "OpenSpiel",
        r"No module named 'pyspiel'",
        "OpenSpiel is not installed in this Python",
        "run bash train/scripts/setup.sh",
    ),
    Fault(
        "shared memory",
        r"Bus error|/dev/shm[^\n]*No space left on device|No space left on device[^\n]*/dev/shm|"
        r"insufficient shared memory \(shm\)",
        "/dev/shm is full; Docker gives a container 64 MiB",
        "start the container with docker run --ipc host, or with --shm-size 32g",
    ),
    Fault(
        "disk",
        r"No space left on device|Disk quota exceeded",
        "a disk is full",
        "free some space, or use a folder on another disk",
    ),
    Fault(
        "open files", r"Too many open files", "the limit of open files per process is reached", "run ulimit -n 65536"
    ),
    Fault(
        "Hugging Face",
        r"GatedRepoError|Cannot access gated repo|401 Client Error[^\n]*huggingface",
        "the model is gated",
        "accept the licence on the model's page, and set HF_TOKEN in .env",
    ),
    Fault(
        "Weights & Biases",
        r"(?i)api[_ ]key not configured|No API key configured",
        "trainer.logger includes wandb, and no key is set",
        "set WANDB_API_KEY in .env, or set WANDB_MODE=offline and run `wandb sync` later",
    ),
    Fault(
        "Ray's address",
        r"Could not connect to Ray|Failed to connect to GCS|Unable to connect to GCS",
        "the named Ray cluster does not answer",
        "set RAY_ADDRESS to a running head, or start the head again",
    ),
    ENGINE_DIED,
    Fault(
        "Ray's folder",
        r"AF_UNIX path length cannot exceed",
        "the path of Ray's temporary folder is too long for its sockets",
        "set RAY_TMPDIR=/tmp",
    ),
)
"""All known errors. Specific patterns come before general ones."""


def faults_in(log: str) -> Iterator[tuple[Fault, str]]:
    """The known errors in a log, each with its line. A line counts for the first matching error of `FAULTS`.

    Args:
        log: The output of a run.
    """
    text = COLOURS.sub("", "\n".join(log.splitlines()[-LINES:]))
    seen = set[str]()
    for fault in FAULTS:
        line = fault.line_in(text)
        if line is not None and line not in seen:
            seen.add(line)
            yield fault, line

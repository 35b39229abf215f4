"""Slow checks, which import libraries, start Ray, connect to the hub and make a plan."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import httpx
from omegaconf import DictConfig

from veritas_rl.checkpoints.packaged import PACKAGED, folder_of, local_name
from veritas_rl.doctor.asked import Asked
from veritas_rl.doctor.findings import Finding, ok
from veritas_rl.doctor.probing import ProbeError, broken, probe
from veritas_rl.envs.openspiel import engines
from veritas_rl.envs.openspiel.engines.spec import KINDS
from veritas_rl.envs.trace.sandbox.layers import layers
from veritas_rl.errors import UserError, last_line
from veritas_rl.launch import configuration as conf
from veritas_rl.launch import machine_checks, model_checks, sft
from veritas_rl.launch.hardware import Hardware
from veritas_rl.launch.known_faults import PINNED
from veritas_rl.planning.compose import plan_of, sft_plan_of
from veritas_rl.planning.models import UnknownShape
from veritas_rl.planning.plan import Plan
from veritas_rl.planning.sft import SftPlan

GIB = 1 << 30
ANSWER_SECONDS = 10
CLOCK_SECONDS = 300
"""The tolerated difference from the hub's clock in seconds. The hub refuses signatures of downloads after some
minutes."""

WANDB = "https://api.wandb.ai"
SERVERS = ("vllm", "sglang")
Check = Callable[[], Iterator[Finding]]


@dataclass
class Examination:
    """The thorough checks of a run. Later checks use results of earlier checks.

    Attributes:
        asked: The requested run.
        model: The model named with `--model`, or None.
    """

    asked: Asked
    model: str | None
    _found: dict[str, dict[str, Any]] = field(default_factory=dict)

    def checks(self) -> list[tuple[str, Check]]:
        """Every thorough check by name, in the order of their dependencies."""
        return [
            ("torch", self.torch),
            ("flash_attn", self.flash_attn),
            ("rollout", self.rollout),
            ("SGLang's patch", self.sglang_patch),
            ("plugin", self.plugin),
            ("OpenSpiel", self.openspiel),
            ("Ray", self.ray),
            ("configuration", self.settings),
            ("Hugging Face", self.hub),
            ("model", self.read_model),
            ("weight names", self.weight_names),
            ("memory", self.memory),
            ("free GPU memory", self.free_memory),
            ("checkpoints", self.checkpoints),
            ("Weights & Biases", self.wandb),
            ("sandbox", sandbox),
            ("engines", found_engines),
        ]

    @cached_property
    def hardware(self) -> Hardware:
        """The machine as torch sees it."""
        gpus = self._found.get("torch", {}).get("gpus", [])
        return Hardware(len(os.sched_getaffinity(0)), len(gpus), min((gpu["bytes"] for gpu in gpus), default=0))

    @cached_property
    def overrides(self) -> list[str]:
        """The Hydra overrides of the run, including the hardware group."""
        key = "model.path" if self.asked.sft else "actor_rollout_ref.model.path"
        named = [f"{key}={self.model}"] if self.model else []
        make = sft.overrides_for if self.asked.sft else conf.overrides_for
        return make([*self.asked.overrides, *named], self.asked.environment, self.hardware)

    @cached_property
    def configuration(self) -> DictConfig:
        """The resolved configuration.

        Raises:
            UserError: An override is invalid.
        """
        return conf.compose_configuration(self.overrides, sft.SFT_CONFIG if self.asked.sft else conf.RL_CONFIG)

    @property
    def path(self) -> str | None:
        """The model to train; None if the launcher makes one."""
        sft, settings = self.asked.sft, self.configuration
        named = settings.model.path if sft else settings.actor_rollout_ref.model.path
        return None if named is None else local_name(named)

    @property
    def server(self) -> str | None:
        """The rollout server that takes a share of each GPU, or None."""
        name = None if self.asked.sft else self.configuration.actor_rollout_ref.rollout.name
        return name if name in SERVERS else None

    def torch(self) -> Iterator[Finding]:
        """Check that torch computes on the GPUs."""
        try:
            found = self._found["torch"] = probe("torch")
        except ProbeError as error:
            yield broken("torch", error, PINNED)
            return
        built = f"{found['version']}, built for {'CUDA ' + found['cuda'] if found['cuda'] else 'CPUs'}"
        if self.asked.cpu:
            yield ok("torch", built)
        elif not found["cuda"]:
            yield Finding("torch", "fault", f"{built}: it cannot use GPUs", "bash train/scripts/setup.sh")
        elif not found["gpus"]:
            mend = "install a driver for this CUDA, or a torch for the driver; CUDA_VISIBLE_DEVICES may hide GPUs"
            yield Finding("torch", "fault", f"{built}: it sees no GPU", mend)
        else:
            yield ok("torch", f"{built}; it computes on {len(found['gpus'])} x {found['gpus'][0]['name']}")

    def flash_attn(self) -> Iterator[Finding]:
        """Check that flash_attn is missing or works."""
        try:
            fault = probe("flash_attn")["fault"]
        except ProbeError as error:
            fault = last_line(str(error), "the check failed")
        if fault is None:
            yield ok("flash_attn", "it can be imported")
        elif fault == "it is not installed":
            yield ok("flash_attn", "it is not installed: torch's own attention is used")
        else:
            # Libraries check whether flash_attn is installed, not whether it works.
            yield broken("flash_attn", ProbeError(f"flash_attn: {fault}"), "run pip uninstall -y flash-attn")

    def rollout(self) -> Iterator[Finding]:
        """Check that verl's modules for vLLM or SGLang can be imported."""
        backend = self.asked.backend
        if backend not in SERVERS:
            yield ok("rollout", backend or "supervised fine-tuning has no rollout")
            return
        try:
            self._found["rollout"] = probe(backend)
        except ProbeError as error:
            yield broken("rollout", error, PINNED)
            return
        yield ok("rollout", f"{backend} can be imported with verl")

    def sglang_patch(self) -> Iterator[Finding]:
        """Check that SGLang's patch matches torch."""
        if self.asked.backend != "sglang":
            return
        try:
            patch = probe("sglang_patch")
        except ProbeError as error:
            yield broken("SGLang's patch", error, PINNED)
            return
        if patch["expected"] == patch["real"]:
            yield ok("SGLang's patch", f"{patch['module'] or 'none'} matches this torch")
            return
        found = (
            f"{patch['module']} expects the device at index {patch['expected']} of torch's arguments, but it is at "
            f"{patch['real']}: weights cannot be sent (tuple index out of range)"
        )
        mend = (
            "set ROLLOUT_BACKEND=vllm, or install the pinned SGLang and torch: ROLLOUT_BACKEND=sglang VENV=.venv-sglang"
        )
        yield Finding("SGLang's patch", "fault", found, f"{mend} bash train/scripts/setup.sh")

    def plugin(self) -> Iterator[Finding]:
        """Check that verl has the pinned version and loads the plugin."""
        try:
            probe("plugin")
        except ProbeError as error:
            yield broken("plugin", error, "bash train/scripts/setup.sh")
        else:
            yield ok("plugin", "verl loads this package's plugin")

    def openspiel(self) -> Iterator[Finding]:
        """Check that OpenSpiel can be imported."""
        try:
            found = probe("openspiel")
        except ProbeError as error:
            yield broken("OpenSpiel", error, "bash train/scripts/setup.sh")
        else:
            yield ok("OpenSpiel", f"{found['games']} games")

    def ray(self) -> Iterator[Finding]:
        """Check that Ray starts or joins the cluster, and runs a task."""
        if self.asked.sft:
            yield Finding("Ray", "skipped", "supervised fine-tuning does not use Ray")
            return
        try:
            found = probe("ray", self.asked.ray_address)
        except ProbeError as error:
            yield broken("Ray", error, "run ray stop --force, and see /tmp/ray/session_latest/logs")
        else:
            yield ok("Ray", f"Ray ran a task, on {found['nodes']} node{'s' if found['nodes'] > 1 else ''}")

    def settings(self) -> Iterator[Finding]:
        """Check that the overrides compose, and that the machine has the configured devices."""
        check = sft.check_devices if self.asked.sft else machine_checks.check_devices
        check(self.configuration, self.hardware)
        yield ok("configuration", f"valid, with hardware={self._group()}")

    def _group(self) -> str:
        groups = ("hardware=", f"{sft.GROUPS['hardware']}=")
        chosen = [item.partition("=")[2] for item in self.overrides if item.startswith(groups)]
        return chosen[-1] if chosen else self.asked.named("hardware") or "h200x1"

    def hub(self) -> Iterator[Finding]:
        """Check that the hub lets this user download the model, if necessary."""
        path = self.path
        if path is None or Path(path).expanduser().is_dir() or Path(path) in map(folder_of, PACKAGED):
            yield Finding("Hugging Face", "skipped", "no model is downloaded")
            return
        from huggingface_hub import HfApi, constants, get_token
        from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, RepositoryNotFoundError

        if constants.HF_HUB_OFFLINE:
            yield ok("Hugging Face", "HF_HUB_OFFLINE=1: only the cache is read")
            return
        key = "a token is set" if get_token() else "no token is set"
        page = f"{constants.ENDPOINT}/{path}"
        try:
            HfApi().auth_check(path)
        except GatedRepoError:
            mend = f"accept the licence at {page}, and set HF_TOKEN in .env"
            yield Finding("Hugging Face", "fault", f"{path} is gated, and {key}", mend)
        except RepositoryNotFoundError:
            mend = "set AGENT_MODEL_REPO_ID to another model, or set HF_TOKEN in .env if the model is private"
            yield Finding("Hugging Face", "fault", f"the hub has no model {path} that you may read, and {key}", mend)
        except (HfHubHTTPError, httpx.HTTPError, OSError) as error:
            reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            mend = "check the network and HTTPS_PROXY, or set HF_HUB_OFFLINE=1 and name a local folder"
            yield Finding("Hugging Face", "fault", f"{constants.ENDPOINT} does not answer ({reason})", mend)
            # Later checks then read only the cache, without retries.
            constants.HF_HUB_OFFLINE = True
        else:
            yield ok("Hugging Face", f"{path} may be downloaded; {key}")
        yield from self._clock(constants.ENDPOINT)

    def _clock(self, server: str) -> Iterator[Finding]:
        try:
            date = httpx.head(server, timeout=ANSWER_SECONDS).headers.get("date")
        except httpx.HTTPError:
            return
        if date is None:
            return
        apart = (datetime.now(UTC) - parsedate_to_datetime(date)).total_seconds()
        if abs(apart) > CLOCK_SECONDS:
            found = (
                f"the clock is {abs(apart) / 60:.0f} minutes {'ahead of' if apart > 0 else 'behind'} that of {server}"
            )
            yield Finding("clock", "fault", found, "set the clock: timedatectl set-ntp true, or date -s")

    def read_model(self) -> Iterator[Finding]:
        """Check that the model's configuration and tokenizer can be read, and that the rollout supports its class."""
        if self.path is None:
            yield ok("model", "no model is named: the launcher makes a small one")
            return
        if self.asked.sft:
            model_checks.check_model(self.path, self.configuration.data.max_length)
        else:
            critic = self.configuration.algorithm.adv_estimator == "gae"
            model_checks.check_model(self.path, conf.context_tokens(self.configuration), critic=critic)
        from veritas_rl.launch.weight_names import class_names

        known = self._found.get("rollout", {}).get("architectures") or []
        own = class_names(self.path)
        if known and own and not set(own) & set(known):
            mend = "set rollout=transformers, or choose another model"
            yield Finding(
                "model", "fault", f"{self.asked.backend} has no class {own[0]}, which {self.path} needs", mend
            )
        else:
            yield ok("model", f"{self.path}: {', '.join(own)}")

    def weight_names(self) -> Iterator[Finding]:
        """Check that the checkpoint's weight names match its class."""
        if self.path is None:
            yield Finding("weight names", "skipped", "the launcher makes the model")
            return
        # This imports torch and transformers, which is not needed without a model.
        from veritas_rl.launch import weight_names

        names = weight_names.stored_names(self.path)
        made = weight_names.model_class(self.path)
        unknown = weight_names.unknown_parts(names, made, exact=self.server is not None)
        kind = type(made).__name__
        if not unknown:
            yield ok("weight names", f"{len(names)} weights, whose names match {kind}")
            return
        listed = ", ".join(unknown[:3]) + (f" and {len(unknown) - 3} more" if len(unknown) > 3 else "")
        fails = (
            f"{self.server} ends with \"There is no module or parameter named '{unknown[0]}' in {kind}\""
            if self.server
            else "transformers would use random weights instead"
        )
        mend = "load the model with the code that saved it and save it with save_pretrained(), or choose another model"
        yield Finding("weight names", "fault", f"{kind} has no {listed}: {fails}", mend)

    @cached_property
    def _plan(self) -> Plan | SftPlan | None:
        if self.asked.cpu or self.hardware.gpus:
            if self.asked.sft:
                return machine_checks.sft_forecast(self.configuration, self.overrides, self.hardware)
            return machine_checks.forecast(self.configuration, self.overrides, self.hardware)
        if self.path is None:
            return None
        try:
            return (sft_plan_of if self.asked.sft else plan_of)(self.configuration, self._group())
        except UnknownShape:
            return None

    def memory(self) -> Iterator[Finding]:
        """Check that the run fits into the memory of the GPUs, or of the machine."""
        plan = self._plan
        if plan is None:
            yield Finding("memory", "skipped", "no model is named, or its dimensions are unknown")
            return
        peak = plan.peak
        found = f"{peak.name} needs {peak.total / GIB:.1f} of {plan.device.memory / GIB:.1f} GiB of {plan.device.name}"
        mend = next(iter(plan.changes()), None) or "choose a smaller model (python train/tools/plan.py shows each part)"
        if (reason := plan.refusal()) is not None:
            yield Finding("memory", "fault", reason, mend)
        elif not plan.fits:
            yield Finding("memory", "warning", f"{found}: tight", mend)
        else:
            yield ok("memory", found)

    def free_memory(self) -> Iterator[Finding]:
        """Check that each GPU has free memory for the rollout's share."""
        if not self.asked.gpus or self.server is None:
            yield Finding("free GPU memory", "skipped", "the machine has no GPU, or the rollout takes no share of it")
            return
        rollout = self.configuration.actor_rollout_ref.rollout
        visible = self.asked.environment.get("CUDA_VISIBLE_DEVICES", "")
        used = [int(number) for number in visible.split(",") if number.strip().isdigit()]
        for index, gpu in enumerate(self.asked.gpus):
            wanted = rollout.gpu_memory_utilization * gpu.total
            if (used and index not in used) or gpu.free >= wanted:
                continue
            found = (
                f"GPU {index} has {gpu.free / GIB:.1f} of {gpu.total / GIB:.1f} GiB free, and the rollout needs "
                f"{wanted / GIB:.1f} GiB (gpu_memory_utilization={rollout.gpu_memory_utilization})"
            )
            share = int(gpu.free / gpu.total * 100 - 5) / 100
            lower = f", or set GPU_MEMORY_UTILIZATION={share}" if share >= 0.1 else ""
            yield Finding(
                "free GPU memory", "fault", found, f"end the processes that use it (nvidia-smi lists them){lower}"
            )
            return
        yield ok("free GPU memory", f"the rollout's share of {rollout.gpu_memory_utilization} is free")

    def checkpoints(self) -> Iterator[Finding]:
        """Check that the disk has room for the checkpoints."""
        plan = self._plan
        machine_checks.check_disk(self.configuration, plan)
        size = f"{sum(plan.checkpoint().values()) / GIB:.1f} GiB each, {plan.kept + 1} at most" if plan else "small"
        yield ok("checkpoints", f"{size}; the disk has room")

    def wandb(self) -> Iterator[Finding]:
        """Check that Weights & Biases answers and accepts the key."""
        environment = self.asked.environment
        key, server = environment.get("WANDB_API_KEY", "").strip(), environment.get("WANDB_BASE_URL", WANDB)
        logs = "wandb" in self.configuration.trainer.logger
        if not logs or not key or environment.get("WANDB_MODE", "").strip() in ("offline", "disabled"):
            return
        query = {"query": "{viewer {username}}"}
        try:
            answer = httpx.post(f"{server}/graphql", json=query, auth=("api", key), timeout=ANSWER_SECONDS)
            known = answer.is_success and answer.json()["data"]["viewer"] is not None
        except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
            mend = "check the network and HTTPS_PROXY, or set WANDB_MODE=offline and run `wandb sync` later"
            yield Finding("Weights & Biases", "fault", f"{server} does not answer ({type(error).__name__})", mend)
            return
        if known:
            yield ok("Weights & Biases", f"{server} accepts the key")
        else:
            mend = f"copy the key from {server.replace('api.', '')}/authorize to WANDB_API_KEY in .env"
            yield Finding("Weights & Biases", "fault", f"{server} refuses the key", mend)


GUARDS = {
    "the network": ("network", "seccomp"),
    "processes": ("pid", "seccomp", "processes"),
    "files": ("root", "landlock"),
}
"""The resources that Trace's sandbox protects, each with the layers that suffice."""


def sandbox() -> Iterator[Finding]:
    """Check which layers of the sandbox work."""
    held = [name for name, (holds, _) in layers().items() if holds]
    for what, guards in GUARDS.items():
        if not set(guards) & set(held):
            mend = (
                "docker run --security-opt seccomp=unconfined, or sysctl user.max_user_namespaces=10000, or train "
                "without Trace"
            )
            yield Finding("sandbox", "fault", f"no layer of the sandbox keeps Trace's programs from {what}", mend)
            return
    yield ok("sandbox", f"these layers work: {', '.join(held)}")


def found_engines() -> Iterator[Finding]:
    """List the installed engines. An engine is only needed if it is named as an opponent."""
    missing: dict[str, str] = {}
    for kind in KINDS:
        try:
            engines.check_installed(engines.parse(kind.name))
        except UserError as error:
            missing[kind.name] = str(error).rpartition(": ")[2]
    there = [kind.name for kind in KINDS if kind.name not in missing]
    installs = "; ".join(f"{name}: {how}" for name, how in missing.items())
    yield Finding(
        "engines", "ok", f"{', '.join(there) or 'none'}; not installed: {', '.join(missing) or 'none'}", installs
    )

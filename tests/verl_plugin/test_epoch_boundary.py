"""Training that resumes at the end of an epoch continues with the next epoch, in fine-tuning and in RL."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DistributedSampler
from torchdata.stateful_dataloader import StatefulDataLoader
from verl.utils.checkpoint.checkpoint_handler import CheckpointHandler, OrchestrationMode

from veritas_rl.launch.configuration import compose_configuration
from veritas_rl.verl_plugin.dataset import DynamicEnvDataset

BATCH, BATCHES, EPOCHS = 4, 3, 3


class Finetuning:
    """The batches of the loops of `verl.trainer.sft_trainer`, with a checkpoint after some step.

    Args:
        folder: The folder of the checkpoints.
    """

    def __init__(self, folder: Path) -> None:
        numbers: Any = list(range(BATCH * BATCHES))
        self.sampler = DistributedSampler(numbers, num_replicas=1, rank=0, shuffle=True, seed=0)
        self.loader = StatefulDataLoader(numbers, batch_size=BATCH, sampler=self.sampler)
        engine: Any = None
        self.handler = CheckpointHandler(
            engine=engine, train_dataloader=self.loader, default_local_dir=str(folder), mode=OrchestrationMode.RAY
        )
        self.folder = folder

    def run(self, start: int, saved_after: int | None = None) -> dict[int, list[int]]:
        """The batch of each step after `start`."""
        step, seen = start, dict[int, list[int]]()
        for epoch in range(start // BATCHES, EPOCHS):
            self.sampler.set_epoch(epoch)
            for batch in self.loader:
                step += 1
                seen[step] = batch.tolist()
                if step == saved_after:
                    torch.save(self.loader.state_dict(), self.folder / "data_0.pt")
        return seen


@pytest.mark.parametrize("step", [1, BATCHES, 2 * BATCHES, 2 * BATCHES + 1])
def test_fine_tuning_sees_what_it_would_have_seen(step: int, tmp_path: Path) -> None:
    whole = Finetuning(tmp_path).run(0, saved_after=step)
    assert len(whole) == BATCHES * EPOCHS
    resumed = Finetuning(tmp_path)
    resumed.handler.resume_global_step = step
    resumed.handler._load_dataloader_state(str(tmp_path))
    assert resumed.run(step) == {later: batch for later, batch in whole.items() if later > step}


@pytest.mark.parametrize("step", [1, BATCHES, 2 * BATCHES])
def test_rl_draws_what_it_would_have_drawn(step: int) -> None:
    settings = ["hardware=cpu", "start=made", f"data.train_batch_size={BATCH}"]
    data = compose_configuration(settings).data

    def drawn(steps: int, state: Any = None) -> tuple[list[list[str]], Any]:
        """The tasks of some steps as verl's v1 trainer draws them, and the loader's state after them."""
        dataset = DynamicEnvDataset("train", None, data, max_samples=BATCH * BATCHES)
        assert len(dataset) == BATCH * BATCHES
        loader = StatefulDataLoader(dataset, batch_size=BATCH, drop_last=True, collate_fn=lambda rows: rows)
        if state is not None:
            loader.load_state_dict(state)
        batches, rows = iter(loader), list[list[str]]()
        while len(rows) < steps:
            if (batch := next(batches, None)) is None:
                batches = iter(loader)
                continue
            rows.append([row["reward_model"]["ground_truth"] for row in batch])
            dataset.record({row["index"]: (0.5, 0.5) for row in batch})
        return rows, loader.state_dict()

    whole, _ = drawn(BATCHES * EPOCHS)
    _, state = drawn(step)
    rest, _ = drawn(BATCHES * EPOCHS - step, state)
    assert rest == whole[step:]

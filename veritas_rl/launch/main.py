"""Start reinforcement learning: what `bash train/scripts/openspiel-ppo-trainer.sh` calls.

    python -m veritas_rl.launch.main [recipe=NAME] [Hydra overrides]

It reads the environment variables, composes the configuration, checks what can be checked, and runs `python -m
verl.trainer.main_ppo` with a live progress bar. verl's own output goes to a log file. If the configuration asks for it,
as hardware=cpu does, the launcher also makes the model, warms it up, and judges it before and after training. A recipe
may add fine-tuning before training and evaluations after it, see `recipe_run.py`.
"""

import os

from veritas_rl.errors import exit_on_user_error
from veritas_rl.launch import recipe_run, rl, sft

if __name__ == "__main__":
    # torch's threads spin while they wait for each other. By default they spin so long that two threads take 20 times
    # as long as one if another program uses a core.
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    exit_on_user_error(lambda: recipe_run.main(rl.TRAINER, sft.TRAINER))

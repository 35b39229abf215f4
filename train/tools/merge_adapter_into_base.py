"""Merge a LoRA adapter into its base, and prove that something was merged.

    python train/tools/merge_adapter_into_base.py --base_model BASE --adapter_model ADAPTER --output_dir FOLDER

BASE is a folder or a hub id. ADAPTER is an adapter's folder, or a merged model with lora_adapter/ in it.
"""

import argparse
from pathlib import Path

from veritas_rl.checkpoints.folder import check_empty
from veritas_rl.errors import exit_on_user_error


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description="Merge a LoRA adapter into its base, and prove that something was merged."
    )
    parser.add_argument("--base_model", required=True, help="the base model: a folder or a hub id")
    adapter = "the folder of the adapter, or of a model that contains lora_adapter/"
    parser.add_argument("--adapter_model", required=True, type=Path, help=adapter)
    parser.add_argument("--output_dir", required=True, type=Path, help="the folder for the merged model")
    parser.add_argument("--trust_remote_code", action="store_true", help="run Python code from the base model's folder")
    given = parser.parse_args()
    target = given.output_dir.resolve()
    check_empty(target)
    # Late, because these import torch: only a merge needs torch.
    from veritas_rl.checkpoints import assemble, compare, models

    models.quiet()
    proof = assemble.merge_adapter(
        given.base_model, given.adapter_model, target, trust_remote_code=given.trust_remote_code
    )
    compare.print_proof(proof, target)


if __name__ == "__main__":
    exit_on_user_error(main)

"""Compare a merged model with its base and adapter on the prompts of an evaluation: logits, and the most likely token.

    python train/tools/compare_merged.py --merged FOLDER --games EVALUATION/shown.jsonl --output agreement.json

FOLDER is a merged model with lora_adapter/ in it. train/tools/evaluate.py records the games.
"""

import argparse
from pathlib import Path

from veritas_rl.errors import UserError, exit_on_user_error


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument(
        "--merged", required=True, type=Path, help="the folder of a merged model that contains lora_adapter/"
    )
    parser.add_argument("--games", required=True, type=Path, help="the recorded games: shown.jsonl of an evaluation")
    parser.add_argument("--output", required=True, type=Path, help="the JSON file to write")
    given = parser.parse_args()
    # Late, because these import torch: help and a wrong option do not need torch.
    from veritas_rl.checkpoints import agreement, models
    from veritas_rl.checkpoints.folder import write_whole
    from veritas_rl.viewing.games_page import asked_in, read_games

    try:
        games = read_games(given.games)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UserError(
            f"{given.games} is not a file of recorded games ({error}): set --games to a shown.jsonl"
        ) from error
    models.quiet()
    found = agreement.compare_on(given.merged.resolve(), asked_in(games))
    try:
        write_whole(given.output, found.to_json())
    except OSError as error:
        raise UserError(f"{given.output} cannot be written ({error}): choose another --output") from error
    print(found.in_words())


if __name__ == "__main__":
    exit_on_user_error(main)

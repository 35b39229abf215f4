"""Random generators seeded from names: the same in every process, uncorrelated for similar names."""

import os
import random
import subprocess
import sys

from veritas_rl.seeding import digest, generator, uniform


def test_the_digest_of_words_never_changes() -> None:
    # The first 8 bytes of SHA-256("a\x1f1"). A changed digest would silently change every published task.
    assert digest("a", 1) == digest("a", "1") == 0x839E11A421D370BE


def test_a_draw_is_the_digest_as_a_fraction() -> None:
    assert uniform("a", 1) == 0x839E11A421D370BE // 2**11 / 2**53
    draws = [uniform("x", number) for number in range(2000)]
    assert all(0 <= drawn < 1 for drawn in draws)
    assert abs(sum(draws) / 2000 - 0.5) < 4 * (1 / 12 / 2000) ** 0.5  # the standard error of a mean of 2000


def test_words_are_kept_apart() -> None:
    assert digest("ab", "c") != digest("a", "bc")
    assert digest("a") != digest("a", "")


def test_same_draws_in_any_process() -> None:
    code = "from veritas_rl.seeding import generator; print([generator('x', 3).random() for _ in range(2)])"
    printed = set()
    for seed in ("0", "1", "random"):
        env = {**os.environ, "PYTHONHASHSEED": seed}
        printed.add(subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=True).stdout)
    first = generator("x", 3).random()
    assert printed == {f"[{first}, {first}]\n".encode()}


def test_the_global_generator_is_left_alone() -> None:
    random.seed(5)
    before = random.getstate()
    generator("anything").random()
    assert random.getstate() == before

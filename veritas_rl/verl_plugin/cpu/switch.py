"""Turn off speed patches, the fork server or the separate critic, for tests and measurements.

    VERITAS_RL_CPU_PATCHES=0                         none of them is used
    VERITAS_RL_CPU_PATCHES=-small_cells,-forkserver  all but these are used
    VERITAS_RL_CPU_PATCHES=1                         all are used, as without the variable

The names are those of the functions in `patches`, "forkserver" and "separate_critic". They change only the speed.
"""

import os

from veritas_rl.errors import UserError, unknown
from veritas_rl.verl_plugin.cpu import patches
from veritas_rl.verl_plugin.patching import patches_in

VARIABLE = "VERITAS_RL_CPU_PATCHES"
FORK_SERVER = "forkserver"
SEPARATE_CRITIC = "separate_critic"
NAMES = (*(patch.name for patch in patches_in(patches)), FORK_SERVER, SEPARATE_CRITIC)


def left_off() -> frozenset[str]:
    """The names that are turned off.

    Raises:
        UserError: The variable is malformed, or contains an unknown name.
    """
    given = os.environ.get(VARIABLE, "").strip()
    if given in ("", "1"):
        return frozenset()
    if given == "0":
        return frozenset(NAMES)
    off = [word.strip() for word in given.split(",")]
    if not all(word.startswith("-") for word in off):
        raise UserError(
            f"{VARIABLE}={given} is not supported: set it to 0, 1, or names to turn off, such as "
            "-small_cells,-short_padding"
        )
    for name in (word[1:] for word in off):
        if name not in NAMES:
            raise unknown(VARIABLE, name, NAMES)
    return frozenset(word[1:] for word in off)

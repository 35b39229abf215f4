"""The settings of environments: what users type is converted or refused in one line."""

from typing import Any

import pytest

from veritas_rl.envs.registry import get_environment
from veritas_rl.envs.single import SingleAnswerConfig
from veritas_rl.envs.task import Pay
from veritas_rl.errors import UserError


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"prompt": 5}, "prompt .*5 was given"),
        ({"legal_share": "much"}, "legal_share .*'much' was given"),
        ({"legal_share": True}, "legal_share .*True was given"),
        ({"legal_share": 1}, r"legal_share must lie in \[0, 1\), 1.0 was given"),
        ({"seed": None}, "seed must be a whole number of at least 0, None was given"),
        ({"num_tasks_per_case": True}, "num_tasks_per_case must be a whole number of at least 1, True was given"),
        ({"debug_prints": 7}, "debug_prints must lie between 0 and 6, 7 was given"),
        ({"compare": "roughly"}, "unknown compare 'roughly'"),
        ({"cases": ["level_1", 2]}, "cases must contain names, not 2"),
    ],
)
def test_a_wrong_value_is_one_line_with_its_key(values: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said) as caught:
        get_environment("trace").read_config(values)
    assert "\n" not in str(caught.value)


def test_texts_of_numbers_and_names_are_converted() -> None:
    config = get_environment("trace").read_config({"cases": "level_2,level_1", "seed": "7", "legal_share": 0})
    assert (config.cases, config.seed, config.legal_share) == (("level_2", "level_1"), 7, 0.0)
    assert config.part(Pay) == Pay(reward="outcome", legal_share=0.0)
    server = get_environment("affinetes:http://127.0.0.1:8000").read_config({"rival": 5})
    assert server.rival == "5"


def test_an_error_of_an_environment_is_no_mistake_of_its_user() -> None:
    class Broken(SingleAnswerConfig):
        def known_cases(self) -> tuple[str, ...]:
            return (str(int("x")),)

    with pytest.raises(ValueError, match="invalid literal") as caught:
        Broken()
    assert not isinstance(caught.value, UserError)

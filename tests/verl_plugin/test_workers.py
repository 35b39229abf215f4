"""The workers that extend verl's are called by verl as verl's own."""

import pytest
from verl.single_controller.base.decorator import MAGIC_ATTR
from verl.trainer.ppo.utils import Role
from verl.workers.engine_workers import ActorRolloutRefWorker, TrainingWorker

from veritas_rl.verl_plugin import workers


@pytest.mark.parametrize("ours", [workers.LearnerWorker, workers.ActorWorker])
def test_calls_of_overriding_methods_are_sent_as_those_of_verl(ours: type) -> None:
    (theirs,) = ours.__bases__
    overriding = [name for name in vars(ours) if hasattr(getattr(theirs, name, None), MAGIC_ATTR)]
    assert overriding
    for name in overriding:
        assert getattr(getattr(ours, name), MAGIC_ATTR) == getattr(getattr(theirs, name), MAGIC_ATTR), name


def test_each_role_gets_the_worker_that_extends_its_own() -> None:
    found = workers.of_roles({Role.ActorRolloutRef: None, Role.Critic: None})
    for role, theirs in {Role.ActorRolloutRef: ActorRolloutRefWorker, Role.Critic: TrainingWorker}.items():
        assert theirs in found[role].__ray_actor_class__.__mro__

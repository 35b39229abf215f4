"""The description of a recipe: the node `veritas_rl.recipe` of its config.yaml.

    veritas_rl:
      recipe:
        hardware: cpu                                   # the hardware group for which the bands hold
        sft: [trainer.total_epochs=25]                  # overrides of a supervised fine-tuning before RL
        continued_sft: [trainer.total_epochs=2]         # more fine-tuning instead of RL, to compare RL with
        judge:                                          # evaluations: options of train/tools/evaluate.py, by name
          exact: {exact: true, games: kuhn_poker, prompt: brief, every_step: true}
          merged: {checkpoint: merged, compare: adapter, games: kuhn_poker, prompt: brief}
        curve: [task/success]                           # the metrics that the pages show by step
        expected: {exact/kuhn_poker/nash_conv: [0.0, 0.2]}
        values: {epochs: 25}                            # for `${veritas_rl.recipe.values.epochs}` in a base
        short:                                          # a short form of minutes, with its own bands
          overrides: [trainer.total_training_steps=2]
          expected: {}

Every band contains the figure of at least one run that is kept in the recipe's folder `results`. A key or a judgement
that is null is not there, although a base may have it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from veritas_rl.basis import Basis
from veritas_rl.composition import with_bases
from veritas_rl.errors import UserError, unknown

CONFIG = "config.yaml"
NODE = "veritas_rl.recipe"
VALUES = f"{NODE}.values"

MERGED, UNTOUCHED, CONTINUED_SFT = CHECKPOINTS = ("merged", "untouched", "continued_sft")
"""The values of a judgement's option `checkpoint`: the merged model, the model before any training, and the model of
the continued fine-tuning. `compare` has these values too, and "start" and "adapter"."""

TRAINERS = ("rl", "sft")

CURVE = ("critic/score/mean", "task/legal", "task/success")
"""The default metrics that are shown by step."""

Form = Literal["whole", "short"]
"""The forms of a recipe: the whole recipe, or a short form of minutes."""


@dataclass(frozen=True)
class Short:
    """The short form of a recipe, which takes minutes.

    Attributes:
        overrides: Hydra overrides of the training.
        sft: Hydra overrides of the supervised fine-tuning before it.
        judge: Changed options of judgements, by the judgement's name.
        expected: As `Description.expected`.
    """

    overrides: tuple[str, ...] = ()
    sft: tuple[str, ...] = ()
    judge: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    expected: Mapping[str, tuple[float, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Description:
    """The description of a recipe.

    Attributes:
        meaning: The first paragraph of the comment at the head of the file, which states what the recipe trains.
        hardware: The hardware group to which the bands apply.
        trainer: "rl", or "sft" for supervised fine-tuning alone.
        sft: Hydra overrides of the supervised fine-tuning before RL; None for no fine-tuning.
        continued_sft: Hydra overrides, besides those of `sft`, of a second fine-tuning that continues from the first's
            model on the same demonstrations; None for none. A judgement compares it with RL.
        judge: The judgements of the trained model: options of train/tools/evaluate.py, by the judgement's name. The
            option "average" judges the mean of the weights of so many last checkpoints. The option "checkpoint" judges
            another model, see `CHECKPOINTS`: "merged" is the model that a merge makes of the last checkpoint.
            `compare: adapter` compares it with its base and the unmerged adapter, `compare: start` with the model that
            RL starts from.
        curve: The metrics that are shown by step.
        expected: The band of each figure: the lowest and the highest expected mean.
        short: The short form; None if there is none.
        basis: The present settings and tasks of the recipe, which `veritas_rl.launch.recipe_basis` computes. Results
            of another basis belong to earlier settings or to other tasks. None if it was not computed.
    """

    meaning: str
    hardware: str = "cpu"
    trainer: str = "rl"
    sft: tuple[str, ...] | None = None
    continued_sft: tuple[str, ...] | None = None
    judge: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    curve: tuple[str, ...] = CURVE
    expected: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    short: Short | None = None
    basis: Basis | None = None

    def expected_of(self, form: Form) -> Mapping[str, tuple[float, float]]:
        """The bands of a form.

        Raises:
            UserError: The recipe has no short form.
        """
        return self.expected if form == "whole" else self._short().expected

    def overrides_of(self, form: Form) -> tuple[str, ...]:
        """The additional overrides of the training in a form."""
        return () if form == "whole" else self._short().overrides

    def sft_of(self, form: Form) -> tuple[str, ...] | None:
        """The overrides of the fine-tuning before RL in a form; None for no fine-tuning."""
        if self.sft is None or form == "whole":
            return self.sft
        return (*self.sft, *self._short().sft)

    def continued_sft_of(self, form: Form) -> tuple[str, ...] | None:
        """The overrides of the continued fine-tuning in a form; None for none."""
        if self.continued_sft is None:
            return None
        return (*(self.sft_of(form) or ()), *self.continued_sft)

    def judge_of(self, form: Form) -> dict[str, dict[str, Any]]:
        """The options of each judgement in a form."""
        other = {} if form == "whole" else self._short().judge
        return {name: {**options, **other.get(name, {})} for name, options in self.judge.items()}

    def _short(self) -> Short:
        if self.short is None:
            raise UserError(
                "the recipe has no short form; leave out --short, or add veritas_rl.recipe.short to the recipe"
            )
        return self.short


def read_description(folder: Path) -> Description | None:
    """Read the description of the recipe in a folder, without its basis; None if its config.yaml has no such node.

    Raises:
        UserError: The file is not YAML, or the node is invalid.
    """
    file = folder / CONFIG
    tree = with_bases(file)
    return None if OmegaConf.select(tree, NODE) is None else description_in(tree, file)


def description_in(tree: DictConfig, file: Path) -> Description:
    """The description in the settings of a recipe, without its basis.

    Args:
        tree: The settings of the recipe's file with its bases, or the configuration of a run of the recipe. References
            of the description take the values that are there.
        file: The recipe's config.yaml.

    Raises:
        UserError: The description is invalid.
    """
    where = f"{file}: {NODE}"
    try:
        values: Any = OmegaConf.to_container(OmegaConf.select(tree, NODE), resolve=True)
    except OmegaConfBaseException as error:
        why = " ".join(str(error).split())
        raise UserError(f"{where} refers to what neither the recipe nor its bases set: {why}") from error
    if isinstance(values, dict):
        values.pop("values", None)  # those that refer to them have them by now
    _check_keys(values, {item.name for item in fields(Description)} - {"meaning", "basis"}, where)
    values = _without_nulls(values)
    if values.get("trainer", "rl") not in TRAINERS:
        raise unknown("trainer of a recipe", values["trainer"], TRAINERS)
    for name in ("sft", "continued_sft", "curve"):
        if name in values:
            values[name] = _strings(values[name], f"{where}.{name}")
    if "expected" in values:
        values["expected"] = _bands(values["expected"], f"{where}.expected")
    if "continued_sft" in values and "sft" not in values:
        raise UserError(f"{where}.continued_sft continues a fine-tuning, but there is none: set {where}.sft")
    values["judge"] = _judgements(_without_nulls(values.get("judge") or {}), f"{where}.judge")
    for name, options in values["judge"].items():
        if CONTINUED_SFT in (options.get("checkpoint"), options.get("compare")) and "continued_sft" not in values:
            raise UserError(f"{where}.judge.{name} needs a continued fine-tuning: set {where}.continued_sft")
    if (short := values.get("short")) is not None:
        _check_keys(short, {item.name for item in fields(Short)}, f"{where}.short")
        values["short"] = Short(
            overrides=_strings(short.get("overrides", ()), f"{where}.short.overrides"),
            sft=_strings(short.get("sft", ()), f"{where}.short.sft"),
            judge=_judgements(short.get("judge") or {}, f"{where}.short.judge", known=values["judge"]),
            expected=_bands(short.get("expected") or {}, f"{where}.short.expected"),
        )
    return Description(meaning_of(file.read_text(encoding="utf-8")), **values)


def meaning_of(text: str) -> str:
    """The first paragraph of the comment at the head of a YAML file, on one line."""
    words: list[str] = []
    for line in text.splitlines():
        if not line.startswith("#") or not line.strip("# "):
            break
        if not line.startswith("# @package"):
            words += line.lstrip("# ").split()
    return " ".join(words)


def _without_nulls(node: Any) -> Any:
    """A mapping without what a recipe has set to null, because it does not want it from its base."""
    return {name: value for name, value in node.items() if value is not None} if isinstance(node, Mapping) else node


def _check_keys(node: Any, known: set[str], where: str) -> None:
    if not isinstance(node, Mapping):
        raise UserError(f"{where} must be a mapping, got {node!r}")
    for key in node:
        if key not in known:
            raise unknown(f"key in {where}", key, known)


def _strings(value: Any, where: str) -> tuple[str, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str) or not all(isinstance(item, str) for item in value):
        raise UserError(f"{where} must be a list of strings, got {value!r}")
    return tuple(value)


def _judgements(value: Any, where: str, known: Mapping[str, Any] | None = None) -> dict[str, dict[str, Any]]:
    if not isinstance(value, Mapping) or not all(isinstance(options, Mapping) for options in value.values()):
        raise UserError(f"{where} must map names to options of train/tools/evaluate.py, got {value!r}")
    for name in value:
        if known is not None and name not in known:
            raise unknown(f"judgement in {where}", name, known)
        if not isinstance(name, str) or not name.replace("_", "").isalnum():
            raise UserError(f"{where}: the name of a judgement has letters, digits and _ only, got {name!r}")
        if (chosen := value[name].get("checkpoint", MERGED)) not in CHECKPOINTS:
            raise unknown(f"checkpoint in {where}.{name}", chosen, CHECKPOINTS)
    return {name: dict(options) for name, options in value.items()}


def _bands(value: Any, where: str) -> dict[str, tuple[float, float]]:
    if not isinstance(value, Mapping):
        raise UserError(f"{where} must map figures to bands, got {value!r}")
    made: dict[str, tuple[float, float]] = {}
    for figure, band in value.items():
        whole = isinstance(band, Sequence) and len(band) == 2 and all(isinstance(end, int | float) for end in band)
        if not whole or not band[0] <= band[1]:
            raise UserError(f"{where}: {figure} needs a lowest and a highest value, such as [0.5, 0.7], got {band!r}")
        made[str(figure)] = (float(band[0]), float(band[1]))
    return made

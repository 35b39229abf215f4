"""The checks of one case. Each takes the case and a log, records findings, and returns a remark on what it checked."""

import math
from collections.abc import Callable

from veritas_rl.envs.base import FAULT, Reason, Reply, Score, Turn, shape
from veritas_rl.envs.lint.case import Case, said
from veritas_rl.envs.lint.findings import Log, NotApplicable, quote
from veritas_rl.envs.lint.hostile import hostile
from veritas_rl.envs.lint.processes import HASH_SEEDS, Outcome
from veritas_rl.envs.task import Task
from veritas_rl.seeding import generator

Check = Callable[[Case, Log], str]

REDEALS = 4
"""The number of indistinguishable states that are compared for each task."""
LEAST_GAP = 0.25
"""The smallest allowed difference between the mean values of wins and losses."""
SEAT_TASKS = 120
"""The number of whole games over which trained seats are counted: a multiple of 2, 3, 4, 5 and 6."""
MOST_STEPS = 200
"""The most steps of a game with rotated seats."""


def mistakes_pay_nothing(case: Case, log: Log) -> str:
    """Empty, garbled, multiple and impossible answers have the value 0, no success, and the reward 0 in every mode."""
    count = 0
    for task, turns in case.asked:
        for turn in turns[:1]:
            for kind, reply in hostile(turn, case.spellings(turn)):
                count += 1
                with log.guard(task.id):
                    score = case.answer(task, turn.seat, reply)
                    if score.value or score.success or any(rewards(score, task)):
                        paid = f"was paid {score.value:.3g} as {score.reason}" + ", a success" * score.success
                        log.found(task.id, f"{kind} {paid}: {quote(reply.text)}")
    return f"{count} hostile replies"


def values_in_range(case: Case, log: Log) -> str:
    """Values and rewards are in [0, 1], and answers and random games raise no errors and end without a fault."""
    scores: list[tuple[Task, Score]] = []
    for item, (outcome, found) in zip(case.items, case.settled, strict=True):
        task = item.task_in(case.environment)
        if outcome.error:
            log.found(task.id, f"raised {outcome.error} on {quote(item.reply or 'a random game')}")
        scores += [(task, score) for score in found.values()]
    scores += [(task, score) for task, _, found in case.played for score in found.values()]
    for task, score in scores:
        if not all(0 <= value <= 1 for value in (score.value, *rewards(score, task))):
            log.found(task.id, f"value {score.value:.6g} ({score.reason})")
    faults = dict.fromkeys((task.id, str(score.details[FAULT])) for task, score in scores if FAULT in score.details)
    for task_id, fault in faults:
        log.found(task_id, f"a game failed: {quote(fault)}")
    _report_broken(case, log)
    values = [score.value for _, score in scores]
    return f"{len(values)} values" + (f" from {min(values):.3g} to {max(values):.3g}" if values else "")


def rewards(score: Score, task: Task) -> list[float]:
    """The rewards of a score in every reward mode."""
    return [shape(score, task.replace(reward=reward)) for reward in task.pay.rewards]


def _report_broken(case: Case, log: Log) -> None:
    for name, error in case.broken.items():
        with log.guard(name):
            raise error


def same_everywhere(case: Case, log: Log, twins: list[list[Outcome]]) -> str:
    """The prompts and the pay of the same answer are equal in processes with other hash seeds and another order."""
    here = [outcome for outcome, _ in case.settled]
    for item, *outcomes in zip(case.items, here, *twins, strict=True):
        if len(set(outcomes)) > 1:
            places = ("here", *(f"PYTHONHASHSEED={seed}" for seed in HASH_SEEDS))
            found = " | ".join(f"{place}: {outcome}" for place, outcome in zip(places, outcomes, strict=True))
            name = item.task_in(case.environment).id
            log.found(name, f"{quote(item.reply or 'a random game', 30)} differs: {found}")
    return f"{len(here)} answers and games in {1 + len(twins)} processes"


def asked_seat_has_to_act(case: Case, log: Log) -> str:
    """Exactly the seats that are to move are asked, with all their legal answers.

    So no seat is asked at chance nodes or at the end, and all seats are asked in simultaneous moves.
    """
    steps = 0
    for task, turns in case.asked + [(task, turns) for task, rounds, _ in case.played for turns in rounds]:
        if not turns:
            log.found(task.id, "nobody is asked")
        for turn in turns:
            facts = case.facts(turn)
            if facts is None:
                raise NotApplicable("the environment does not report whose turn it is")
            steps += 1
            legal = tuple(legal.replies[0] for legal in facts.legal)
            if turn.seat not in facts.to_act:
                having = f"seats {facts.to_act} have" if facts.to_act else "nobody has"
                log.found(task.id, f"seat {turn.seat} is asked where {having} to act: {quote(said(turn))}")
            elif turn.answers != legal:
                wrong = [answer for answer in turn.answers if answer not in legal] or list(turn.answers)
                log.found(
                    task.id, f"seat {turn.seat}: {len(turn.answers)} answers for {len(legal)} legal: {quote(wrong[0])}"
                )
            elif task.mode == "episode" and sorted(facts.to_act) != sorted(other.seat for other in turns):
                seats = tuple(other.seat for other in turns)
                log.found(task.id, f"seats {seats} are asked where seats {facts.to_act} have to act")
    return f"{steps} turns of {len(case.asked)} tasks and {len(case.played)} whole games"


def legal_answers_listed(case: Case, log: Log) -> str:
    """A full prompt lists each legal answer on its own line."""
    if case.tasks[0].manner.prompt != "full":
        raise NotApplicable(f"prompt={case.tasks[0].manner.prompt} lists no answers")
    most = 0
    for task, turns in case.asked:
        for turn in turns:
            facts = case.facts(turn)
            if facts is None:
                raise NotApplicable("the environment does not report the legal answers")
            lines = set(said(turn).splitlines())
            missing = [legal.line for legal in facts.legal if legal.line not in lines]
            most = max(most, len(facts.legal))
            if missing:
                log.found(task.id, f"{len(missing)} of {len(facts.legal)} are not listed: {quote(missing[0])}")
    return f"up to {most} answers a prompt"


def asked_phase_shown(case: Case, log: Log) -> str:
    """The prompt describes the current phase of the game and no other phase."""
    if case.tasks[0].manner.prompt == "brief":
        raise NotApplicable("prompt=brief describes no phase")
    count = 0
    for task, turns in case.asked + [(task, turns) for task, rounds, _ in case.played for turns in rounds]:
        for turn in turns:
            lines = case.audit.phase_lines(turn)
            count += bool(lines)
            shown = said(turn).splitlines()
            for beginning, belongs in lines.items():
                if any(line.startswith(beginning) for line in shown) != belongs:
                    wrong = "lacks" if belongs else "has, in another phase,"
                    log.found(task.id, f"the prompt {wrong} the line {quote(beginning)}")
    if not count:
        raise NotApplicable("the game has no known phases")
    return f"{count} turns"


def nothing_hidden_shown(case: Case, log: Log) -> str:
    """Prompts and legal answers are equal in states that the seat cannot distinguish."""
    count = covered = 0
    for task, turns in case.asked:
        for turn in turns[:1]:
            facts = case.facts(turn)
            if facts is None:
                raise NotApplicable("the environment does not report hidden information")
            if not facts.hidden:
                raise NotApplicable("nothing is hidden")
            with log.guard(task.id):
                others = case.audit.redealt(task, REDEALS) or ()
                count += len(others)
                covered += bool(others)
                for other in others:
                    if said(other) != said(turn):
                        log.found(task.id, f"the prompt shows what is hidden: {_first_difference(turn, other)}")
                        break
                    if other.answers != turn.answers:
                        log.found(task.id, "the legal answers show what is hidden")
                        break
    if not count and not log.findings:
        raise NotApplicable("no indistinguishable states were found")
    return f"{count} states with other hidden cards, for {covered} of {len(case.asked)} tasks"


def wins_above_losses(case: Case, log: Log) -> str:
    """A win has a clearly higher value than a loss. On a linear scale, all values could be near the middle."""
    if not case.games:
        raise NotApplicable("no whole games")
    if case.audit.pays_in_proportion(case.games[0]):
        raise NotApplicable("the pay is proportional to the result")
    scores = [score for _, _, found in case.played for score in found.values() if len(found) > 1]
    won, lost = ([score.value for score in scores if score.reason is reason] for reason in (Reason.WON, Reason.LOST))
    if not won or not lost:
        raise NotApplicable(f"none of {len(case.played)} whole games of several players was won and lost")
    means = sum(won) / len(won), sum(lost) / len(lost)
    worths = f"wins are worth {means[0]:.3g} and losses {means[1]:.3g}"
    if means[0] - means[1] < LEAST_GAP:
        log.found("", worths)
    return f"{worths}, {len(won) + len(lost)} results"


def _first_difference(turn: Turn, other: Turn) -> str:
    here, there = said(turn).splitlines(), said(other).splitlines()
    for one, another in zip(here, there, strict=False):
        if one != another:
            return f"{quote(one, 50)} or {quote(another, 50)}"
    return f"{len(here)} or {len(there)} lines"


def seats_alike(case: Case, log: Log) -> str:
    """Equal results have equal values for every seat, and each seat is trained equally often.

    In a symmetric game, rotated seats have rotated scores.
    """
    scores = [found for _, _, found in case.played]
    seats = max(map(len, scores), default=0)
    if not case.games:
        raise NotApplicable("no whole games")
    if seats < 2:
        raise NotApplicable("a game for one" if seats else "no whole game could be played")
    remarks = [_equal_results(case, log), _trained_seats(case, log, seats)]
    if case.audit.seats_alike(case.name):
        remarks.append(_passed_round(case, log, seats))
    else:
        remarks.append("the game is not symmetric, so play was not compared by seat")
    return "; ".join(remarks)


def _equal_results(case: Case, log: Log) -> str:
    """A return has the same value in every seat and game, if the other seats have the same returns."""
    paid: dict[tuple[float, ...], tuple[float, int]] = {}
    compared = 0
    for task, _, scores in case.played:
        returns = {seat: score.details.get("return") for seat, score in scores.items()}
        if any(not isinstance(value, int | float) for value in returns.values()):
            continue
        known = {seat: float(value or 0) for seat, value in returns.items()}
        for seat, score in scores.items():
            key = (known[seat], *sorted(value for other, value in known.items() if other != seat))
            value, first = paid.setdefault(key, (score.value, seat))
            compared += first != seat
            if not math.isclose(value, score.value, abs_tol=1e-9):
                log.found(
                    task.id,
                    f"a return of {known[seat]:g} is worth {score.value:.3g} in seat {seat}, {value:.3g} in {first}",
                )
    return f"{compared} equal results of different seats"


def _trained_seats(case: Case, log: Log, seats: int) -> str:
    trained = [task.manner.seat for task in case.games]
    if trained[0] < 0:
        return "no seat is trained alone"
    counts = [trained.count(seat) for seat in range(seats)]
    if max(counts) - min(counts) > 1:
        log.found("", f"of {len(trained)} whole games the seats are trained {', '.join(map(str, counts))} times")
    return "trained seats go round"


def _passed_round(case: Case, log: Log, seats: int) -> str:
    """Replay each game with every seat giving the answers of the previous seat; the scores must be rotated too."""
    count = 0
    for task, _, scores in case.played:
        with log.guard(task.id):
            first, second = case.environment.start(task), case.environment.start(task)
            random = generator("passed round", task.id)
            for _ in range(MOST_STEPS):
                replies = {turn.seat: Reply(random.choice(turn.answers)) for turn in first.turns()}
                first.step(replies)
                second.step({(seat + 1) % seats: reply for seat, reply in replies.items()})
                if not first.turns() or not second.turns():
                    break
            if bool(first.turns()) != bool(second.turns()):
                log.found(task.id, "the game passed round has another length")
                continue
            if first.turns():
                continue
            count += 1
            here, there = first.scores(), second.scores()
            for seat in scores:
                value, passed = here[seat].value, there[(seat + 1) % seats].value
                if value != passed:
                    log.found(task.id, f"the same play is worth {value:.3g} in seat {seat}, {passed:.3g} in the next")
                    break
    return f"{count} symmetric games passed round"

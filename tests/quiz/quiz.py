"""Sums and differences of numbers below 50."""

from veritas_rl.envs.one_turn import Question, environment


@environment("quiz", cases=("sums", "differences"), form=r"-?[0-9]+")
def quiz(case, random):
    first, second = random.randrange(50), random.randrange(50)
    sign, truth = ("+", first + second) if case == "sums" else ("-", first - second)
    return Question(f"{first} {sign} {second} = ?", str(truth))

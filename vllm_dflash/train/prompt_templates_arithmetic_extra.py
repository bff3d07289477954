# SPDX-License-Identifier: Apache-2.0
"""More arithmetic: bare sums, units, shapes, averages, sequences, comparisons and longer stories."""

from random import Random

from vllm_dflash.train.prompt_templates import Rules, between, choices, templates
from vllm_dflash.train.prompt_templates_words_more import MORE_WORDS


def _sequence(rng: Random) -> str:
    start, step = between(rng, 1, 30), between(rng, 2, 12)
    if between(rng, 0, 2) == 0:
        start, step = between(rng, 1, 6), between(rng, 2, 4)
        return ", ".join(str(start * step**i) for i in range(4))
    if between(rng, 0, 1):
        return ", ".join(str(200 + start - step * i) for i in range(5))
    return ", ".join(str(start + step * i) for i in range(5))


def _numbers(rng: Random) -> str:
    return ", ".join(str(between(rng, 2, 99)) for _ in range(between(rng, 4, 7)))


def _exact_division(rng: Random) -> str:
    divisor = between(rng, 3, 19)
    return f"{divisor * between(rng, 6, 80)} ÷ {divisor}"


def _fraction(rng: Random) -> str:
    low = between(rng, 2, 12)
    return f"{between(rng, 1, low - 1)}/{low}"


def _equation(rng: Random) -> str:
    factor, answer, added = between(rng, 2, 12), between(rng, 2, 20), between(rng, 1, 40)
    return f"{factor}x + {added} = {factor * answer + added}"


RULES: Rules = {
    **MORE_WORDS,
    "sequence": _sequence,
    "numbers": _numbers,
    "division": _exact_division,
    "fraction": _fraction,
    "equation": _equation,
    "percent": range(5, 100, 5),
    "area": choices(
        "garden,room,field,playground,parking lot,pool,carpet,kitchen,classroom,stage,terrace,poster,tablecloth,wall"
    ),
    "units": choices(
        "kilometers to meters,meters to centimeters,kilograms to grams,liters to milliliters,"
        "hours to minutes,days to hours,weeks to days,minutes to seconds,feet to inches,yards to feet,"
        "pounds to ounces,years to months,dozens to single pieces,tons to kilograms"
    ),
    "small_units": choices(
        "centimeters to meters,grams to kilograms,milliliters to liters,minutes to hours,months to years,"
        "hours to days,inches to feet,seconds to minutes,meters to kilometers,days to weeks"
    ),
    "stat": choices("mean,median,range,sum,largest number minus the mean"),
    "measured": choices(
        "temperature,number of visitors,number of steps,number of cars,rainfall in millimeters,"
        "amount of milk in liters,number of calls,number of letters"
    ),
    "fruit": choices("apples,pears,plums,oranges,bananas,grapes,cherries,tomatoes,potatoes,carrots,onions,nuts"),
    "expression": (
        "<mid> × <small>",
        "<big> × <teen>",
        "<hundreds> + <big> + <mid>",
        "<thousands> - <hundreds>",
        "<division>",
        "(<mid> + <big>) × <tiny>",
        "<small1> × <small2> + <mid>",
        "<hundreds> - <small> × <teen>",
        "<percent>% of <hundreds>",
        "<teen>²",
        "<fraction1> + <fraction2>",
        "<fraction1> × <fraction2>",
        "<tiny>.<tens> + <small>.<teen>",
        "<hundreds> ÷ 10 + <mid>",
    ),
    "calculate": choices("Calculate,Compute,Work out,Evaluate,Find,Solve"),
    "how": (
        "Show the calculation.",
        "Explain each step.",
        "Write the formula first.",
        "Please show your working.",
        "Explain it so that a child can follow.",
        "State the answer in a full sentence.",
        "Check your answer at the end.",
        "Use short steps.",
    ),
}

TRAIN = {
    "bare": "<calculate> <expression>.",
    "bare-steps": "<calculate> <expression>. <how>",
    "three-sums": "Solve these:\na) <expression1>\nb) <expression2>\nc) <expression3>",
    "mental": "Is there a quick way to work out <expression> in your head? <how>",
    "check": "<name> says that <small> × <mid> = <hundreds>. Is that right? If not, what is the correct result?",
    "equation": "Solve for x: <equation>. <how>",
    "guess-number": "I am thinking of a number. If I multiply it by <tiny> and add <mid>, I get "
    "<hundreds>. What is my number? <how>",
    "convert": "Convert <mid>.<tiny> <units>. <how>",
    "convert-up": "Convert <hundreds> <small_units>. <how>",
    "stat": "What is the <stat> of these numbers: <numbers>? <how>",
    "order": "Put these numbers in order from smallest to largest, then add the first and the last: <numbers>.",
    "even-odd": "Which of these numbers are even, and what do they add up to? <numbers>",
    "sequence": "What are the next three numbers: <sequence>, ...? <how>",
    "sequence-rule": "Describe the rule of the sequence <sequence> and give the tenth number.",
    "triangle": "A triangle has a base of <mid> cm and a height of <small> cm. How large is its area? <how>",
    "circle": "Use 3.14 for pi. A round <area> has a radius of <teen> meters. Find its circumference and area. <how>",
    "box": "How many liters of water fit into a tank that is <tens1> cm long, <tens2> cm wide and <tens3> cm "
    "high? <how>",
    "fence": "<name> puts a fence around a rectangular <area> of <mid1> by <mid2> meters. One meter of fence "
    "costs $<small>. What does the whole fence cost?",
    "tiles": "The floor of a <area> measures <small> m by <tiny> m. Each tile is 50 cm by 50 cm. How many "
    "tiles are needed? <how>",
    "percent-of": "Out of <hundreds> visitors of the <place>, <percent>% came by bus. How many visitors is that? <how>",
    "percent-change": "The price of a ticket to <city> went up from $<mid> to $<big>. By how many percent "
    "did it rise? <how>",
    "compare-people": "<name1> collected <hundreds1> <objects>, <name2> collected <hundreds2>. Who has "
    "more, and by how many? <how>",
    "times-as-many": "<name1> owns <mid> <objects>. <name2> owns <tiny> times as many, and <name3> owns "
    "<small> fewer than <name2>. How many <objects> do the three own together?",
    "table": "A table from the <place> in <city>:\n\nMonday: <mid1>\nTuesday: <mid2>\nWednesday: "
    "<mid3>\nThursday: <mid4>\n\nIt shows the <measured>. What is the average of the four days?",
    "scale": "<tiny> kg of <fruit> cost $<small>.<cents>. How much do <teen> kg cost? <how>",
    "age-puzzle": "<name1> is <tiny> times as old as <name2>. Together they are <big> years old. How old "
    "is each? Round if needed. <how>",
    "temperature": "In the morning it was <small> degrees in <city>. By noon the temperature rose by "
    "<teen> degrees, and by night it fell by <mid> degrees. How cold was it at night?",
    "stairs": "A building has <teen> floors with <mid> steps between two floors. <name> climbs from floor "
    "1 to floor <small>. How many steps is that?",
    "farm": "On a farm there are <mid> chickens, <teen> cows and <small> spiders. How many legs do they have "
    "in total? <how>",
    "long-story": "On <day> <name1> picked <big> <fruit>. <name1> kept <teen>, gave <small> to <name2> "
    "and sold the rest for $<tiny> each. How much money did <name1> make? <how>",
    "library": "There were <hundreds> books in the library. On <day1> <mid1> were lent out and <teen> "
    "came back; on <day2> <mid2> more were lent out. How many are there now?",
    "invent": "Make up a word problem about <name> and <objects> that uses the numbers <mid> and <small>, "
    "then solve it.",
    "round": "Round <thousands>.<big> to the nearest whole number, the nearest ten and the nearest hundred.",
    "probability": "A bag holds <small1> red, <small2> blue and <tiny> green <objects>. What is the "
    "chance of drawing a red one? <how>",
}

TEMPLATES = templates("arithmetic", TRAIN, {}, RULES)

# SPDX-License-Identifier: Apache-2.0
"""More word problems: money, shopping, time, travel, work and shares."""

from random import Random

from vllm_dflash.train.prompt_templates import Rules, between, choices, templates
from vllm_dflash.train.prompt_templates_words_more import MORE_WORDS


def _even_split(rng: Random) -> str:
    people = between(rng, 3, 9)
    return f"{people} people split a bill of ${people * between(rng, 7, 40)}"


def _fraction(rng: Random) -> str:
    part = between(rng, 2, 8)
    return f"1/{part} of the {part * between(rng, 4, 30)}"


def _multiple_pack(rng: Random) -> str:
    size = between(rng, 4, 12)
    return f"packs of {size}, and <name> needs {size * between(rng, 3, 9) + between(rng, 0, 3)}"


RULES: Rules = {
    **MORE_WORDS,
    "goods": choices(
        "notebooks,pens,sandwiches,tickets,mugs,plants,shirts,lamps,towels,books,pizzas,toys,plates,"
        "candles,chairs,brushes,baskets,cushions,bags of rice,bottles of juice,boxes of tea,"
        "loaves of bread,cans of soup,packs of paper,rolls of tape,pairs of socks,jars of honey,hats,"
        "folders,cups of coffee"
    ),
    "item": choices(
        "jacket,lamp,bicycle,backpack,tent,chair,watch,guitar,camera,desk,blender,scarf,suitcase,rug,"
        "keyboard,coffee machine,raincoat,bookshelf,phone,tablet,printer,skateboard,helmet,violin,oven,"
        "sofa,mirror,drill,pair of boots,monitor,mattress,dress,toaster,heater"
    ),
    "vehicle": choices("train,car,bus,truck,ship,motorcycle,ferry,tram,van,airplane,sailboat,scooter"),
    "activity": choices(
        "reading,practicing the piano,running,painting,studying math,gardening,swimming,cooking,"
        "cleaning the house,playing chess,learning Spanish,walking the dog,writing,repairing bikes"
    ),
    "event": choices("movie,concert,lesson,meeting,match,play,workshop,lecture,class,flight,party,exam,dinner"),
    "percent": range(5, 95, 5),
    "rate": choices("2,3,4,5,6,8,10,12"),
    "price": range(2, 35),
    "speed": range(15, 135, 5),
    "minutes": range(15, 100, 5),
    "bill": choices("$20 bill,$50 bill,$100 bill"),
    "even_split": _even_split,
    "fraction": _fraction,
    "pack_need": _multiple_pack,
    "how": (
        "Show the calculation.",
        "Explain each step.",
        "Write the calculation and then the answer.",
        "Please show your working.",
        "Walk me through it.",
        "Give the final answer at the end.",
        "First write down what is known, then solve it.",
        "Answer with a full sentence.",
        "Just the answer and one line of working, please.",
    ),
}

TRAIN = {
    "tip": "A meal at a restaurant in <city> costs $<big>.<cents>. <name> wants to leave a tip of "
    "<percent>%. How much is the tip, and what is the total? <how>",
    "split-bill": "After dinner in <city>, <even_split> and each adds a tip of $<tiny>. How much does one "
    "person pay? <how>",
    "change-many": "At the <place>, <name> takes <tiny> <goods> for $<tiny1>.<cents> each and hands over "
    "a <bill>. Work out the change.",
    "tax": "Find the price of a <item> with tax: the price without tax is $<hundreds> and the tax is <rate>%. <how>",
    "markup": "A shop owner in <city> buys a <item> for $<mid> and sells it for <percent>% more. What is the "
    "selling price? What is the profit on <small> of them?",
    "budget": "<name>'s monthly budget: income $<thousands>, rent $<hundreds1>, food $<hundreds2>, transport "
    "$<big>. What remains at the end of the month? <how>",
    "interest": "How much simple interest does $<thousands> earn in <tiny> years at <rate>% per year? <how>",
    "cheaper": "Which is the better deal: <small1> <goods> for $<mid1>, or <small2> <goods> for $<mid2>? "
    "Compare the price of one. <how>",
    "saving-goal": "<name> wants a <item> that costs $<hundreds>. With $<mid> already in the jar and "
    "$<small> more each week, how many weeks will it take? <how>",
    "exchange": "One dollar is worth <tiny>.<tens> coins of the local money in <country>. How many coins "
    "does <name> get for $<hundreds>? <how>",
    "two-jobs": "In the morning <name> works <tiny1> hours at a <place1> for $<teen1> an hour; in the "
    "evening <tiny2> hours at a <place2> for $<teen2> an hour. How much is earned in one day?",
    "overtime": "A <job> earns $<teen> an hour for the first 40 hours of a week and one and a half times "
    "as much after that. What is the pay for <big> hours? <how>",
    "duration": "How much time passes between <clock1> and <clock2>? Give the answer in hours and minutes.",
    "arrive": "<name> leaves home at <clock> and needs <minutes> minutes to get to the <place>. At what time "
    "does <name> arrive? <how>",
    "leave-by": "The <event> begins at <clock>. It takes <minutes1> minutes to get there, and <name> "
    "wants to be <small> minutes early. When should <name> leave?",
    "practice": "Every day <name> spends <minutes> minutes <activity>. How many hours is that in <small> weeks? <how>",
    "speed": "A <vehicle> covers <hundreds> kilometers in <tiny> hours. What is its average speed? <how>",
    "time-needed": "How long does it take a <vehicle> to go <hundreds> km at <speed> km/h? <how>",
    "towards": "Two <vehicle>s start at the same time from <city1> and <city2> and travel toward each "
    "other, one "
    "at <speed1> km/h and the other at <speed2> km/h. They are <hundreds> km apart. When do they meet?",
    "fuel": "A car uses <small> liters of fuel for 100 km. How many liters does it need for <hundreds> "
    "km, and what does that cost at $1.<cents> a liter? <how>",
    "round-trip": "The way from <name>'s house to the <place> is <tiny>.<tiny1> km. <name> goes there and "
    "back <small> times a month. How many kilometers are that in <tiny2> months?",
    "fraction-of": "<name> gave away <fraction> <objects> in the box. How many <objects> were given away "
    "and how many stayed? <how>",
    "leftover": "<hundreds> <objects> are divided among <teen> children. How many does each child get, "
    "and how many are left over? <how>",
    "packs": "At the <place>, <objects> are sold in <pack_need>. How many packs must be bought? How many "
    "<objects> are extra?",
    "ratio": "<name1> and <name2> share $<hundreds> in the ratio <tiny1>:<tiny2>. How much does each get? "
    "Round to whole cents. <how>",
    "workers": "<tiny> workers paint a house in <teen> days. How long would <small> workers need if all work "
    "equally fast? <how>",
    "machine": "A machine in a factory in <city> makes <mid> <objects> per minute. How many does it make in "
    "<tiny> hours? <how>",
    "refund": "<name> ordered <small1> <goods> for $<price> each online, but sent <tiny> of them back. "
    "Shipping was $<small2>.<cents>. What did <name> pay in the end?",
}

TEMPLATES = templates("arithmetic", TRAIN, {}, RULES)

# SPDX-License-Identifier: Apache-2.0
"""Word problems with one or two steps."""

from random import Random

from vllm_dflash.train.prompt_templates import Rules, between, choices, templates
from vllm_dflash.train.prompt_templates_words import WORDS
from vllm_dflash.train.prompt_templates_words_more import WIDE


def _shared(rng: Random) -> str:
    people = between(rng, 2, 12)
    return f"{people * between(rng, 3, 24)} <objects> equally among {people} <people>"


def _packed(rng: Random) -> str:
    size = between(rng, 3, 12)
    return f"{size * between(rng, 4, 30)} <objects> into boxes of {size}"


def _price_and_bill(rng: Random) -> str:
    return f"costs ${between(rng, 4, 47)}.{between(rng, 1, 19) * 5:02d} with a $50 bill"


RULES: Rules = {
    **WORDS,
    "people": choices("friends,children,students,players,guests,neighbors,cousins,classmates"),
    "goods": choices(
        "notebooks,pens,sandwiches,tickets,mugs,plants,shirts,lamps,towels,books,pizzas,toys,plates,"
        "candles,chairs,brushes,baskets,cushions"
    ),
    "item": choices(
        "jacket,lamp,bicycle,backpack,tent,chair,watch,guitar,camera,desk,blender,scarf,suitcase,rug,"
        "keyboard,coffee machine,raincoat,bookshelf"
    ),
    "vehicle": choices("train,car,bus,truck,ship,cyclist,motorcycle,ferry,tram,delivery van"),
    "area": choices("garden,room,field,playground,parking lot,swimming pool,carpet,kitchen,classroom,stage"),
    "ingredient": choices("flour,sugar,rice,milk,oats,water,cocoa,butter,beans,yogurt"),
    "dish": choices("pancakes,soup,bread,muffins,pasta,cookies,granola,pudding,curry,waffles"),
    "container": choices("shelves,boxes,bags,baskets,drawers,crates,trays,jars"),
    "event": choices("movie,concert,lesson,meeting,match,play,workshop,train ride,lecture,class"),
    "plant": choices("carrots,tulips,lettuces,apple trees,roses,cabbages,sunflowers,onions,strawberries"),
    "speed": range(20, 125, 5),
    "price": range(2, 30),
    "hundred": range(40, 520, 20),
    "percent": range(5, 75, 5),
    "score": range(55, 100),
    "hour": range(1, 11),
    "minute": range(10, 60, 5),
    "length": range(25, 115, 5),
    "wage": range(11, 36),
    "shared": _shared,
    "packed": _packed,
    "price_and_bill": _price_and_bill,
    "ask": (
        "Show your work.",
        "Explain your answer step by step.",
        "Think step by step.",
        "Show each step.",
        "Explain how you got the answer.",
        "Give the calculation and the answer.",
    ),
}

TRAIN = {
    "two-goods": "<name> buys <small1> <goods1> at $<price1> each and <small2> <goods2> at $<price2> each. "
    "How much does <name> spend in total? <ask>",
    "give-away": "<name1> has <big> <objects>. <name1> gives <mid> of them to <name2>. "
    "How many <objects> does <name1> have left? <ask>",
    "share": "<name> shares <shared>. How many does each of them get? <ask>",
    "pack": "A worker packs <packed>. How many boxes are needed? <ask>",
    "distance": "A <vehicle> travels at <speed> kilometers per hour for <small> hours. "
    "How far does it go? <ask>",
    "rectangle": "A <area> is <mid> meters long and <small> meters wide. "
    "What are its area and its perimeter? <ask>",
    "savings": "<name> saves $<mid> every week and already has $<big>. "
    "How much money will <name> have after <small> weeks? <ask>",
    "wages": "<name> earns $<wage> per hour and works <small1> hours a day. "
    "How much does <name> earn in <small2> days? <ask>",
    "discount": "A <item> costs $<hundred>. It is on sale for <percent>% off. What is the sale price? <ask>",
    "sum-difference": "What is <big> + <mid>? What is <big> - <mid>? <ask>",
    "recipe": "A recipe for <dish> needs <small1> cups of <ingredient> for <price> people. "
    "How many cups are needed for <small2> times as many people? <ask>",
    "age": "<name1> is <small> years old and <name2> is <mid> years older. "
    "How old will <name2> be in <price> years? <ask>",
    "shelves": "There are <small> <container> with <mid> <objects> in each. "
    "<price> <objects> are taken away. How many <objects> are left? <ask>",
    "average": "<name> scored <score1>, <score2> and <score3> on three tests. "
    "What is the average score? <ask>",
    "clock": "A <event> starts at <hour>:<minute> and lasts <length> minutes. When does it end? <ask>",
}

HELD_OUT = {
    "two-days": "<name> counted <big1> <objects> on <day1> and <big2> <objects> on <day2>. "
    "How many <objects> did <name> count on both days together? <ask>",
    "change": "<name> pays for a <item> that <price_and_bill>. How much change does <name> get? <ask>",
    "rows": "<name> plants <small> rows of <plant> with <mid> in each row, and then <price> more. "
    "How many <plant> are there altogether? <ask>",
}

# Only training prompts draw from the wider words: the held-out texts never change.
TEMPLATES = templates("arithmetic", TRAIN, {}, {**RULES, **WIDE}) + templates(
    "arithmetic", {}, HELD_OUT, RULES
)

# SPDX-License-Identifier: Apache-2.0
"""Short questions and answers about everyday knowledge."""

from random import Random

from vllm_dflash.train.prompt_templates import Rules, choices, pick, templates
from vllm_dflash.train.prompt_templates_words import WORDS
from vllm_dflash.train.prompt_templates_words_more import WIDE

_ALIKE = [
    group.split(",")
    for group in (
        "a lake,a river,an ocean,a pond",
        "a frog,a toad,a lizard,a snake",
        "a planet,a star,a moon,a comet",
        "a violin,a cello,a guitar,a harp",
        "weather,climate,temperature",
        "a fruit,a vegetable,a nut,a grain",
        "a city,a town,a village",
        "a novel,a short story,a poem,a play",
        "a laptop,a tablet,a desktop computer,a phone",
        "a virus,a bacterium,a fungus",
        "an atom,a molecule,a cell",
        "rain,snow,hail,fog",
        "butter,margarine,olive oil",
        "a noun,a verb,an adjective,an adverb",
        "a solid,a liquid,a gas",
        "tea,coffee,hot chocolate",
        "cotton,wool,silk,nylon",
        "a lawyer,a judge,a police officer",
        "a butterfly,a moth,a bee,a wasp",
        "a bus,a tram,a train,a subway",
    )
]


def _two_alike(rng: Random) -> str:
    group = _ALIKE[rng.randrange(len(_ALIKE))]
    first = pick(rng, group)
    return f"{first} and {pick(rng, [other for other in group if other != first])}"


RULES: Rules = {
    **WORDS,
    "topic": choices(
        "photosynthesis,gravity,electricity,the water cycle,a volcano,an earthquake,a rainbow,"
        "the internet,a computer,a democracy,inflation,a vitamin,the solar system,magnetism,energy,"
        "friction,evaporation,a fossil,an ecosystem,a glacier,the moon,the human heart,the brain,"
        "a muscle,a bridge,a battery,a telescope,a microscope,a thermometer,a compass,steam power,"
        "recycling,solar energy,wind power,oxygen,carbon dioxide,a desert,a rainforest,a coral reef,"
        "a database,a web browser,an algorithm,a variable in programming,a fraction,a percentage,"
        "an average,a triangle,a prime number,a metaphor,a symphony,a budget,a tax,a bank,"
        "a constitution,a museum,a dictionary,a map,sound,light,a shadow,a season,a leap year,sleep"
    ),
    "use": choices(
        "a hammer,a thermometer,a calculator,a ladder,a microscope,a compass,a stapler,a spreadsheet,"
        "a password,a dictionary,a calendar,a helmet,a refrigerator,a bicycle,a washing machine,"
        "an umbrella,a camera,a passport,a map,a whistle,a magnet,a bandage,a barometer,"
        "an alarm clock,a flashlight,a dam,a lighthouse"
    ),
    "wonder": choices(
        "the sky is blue,leaves change color in autumn,ice floats on water,we yawn,bread rises,"
        "the sea is salty,birds migrate,cats purr,metal rusts,we need sleep,stars twinkle,"
        "the moon changes shape,plants need light,bees make honey,we sneeze,"
        "days are longer in summer,soap cleans,it thunders in a storm,onions make us cry,"
        "bears sleep in winter,milk turns sour,a boat floats,some animals live in groups,"
        "the earth has seasons,exercise is good for us,we should brush our teeth,hot air rises,"
        "camels can live in the desert"
    ),
    "person": choices(
        "Albert Einstein,Marie Curie,Isaac Newton,William Shakespeare,Leonardo da Vinci,Mozart,"
        "Beethoven,Charles Darwin,Galileo Galilei,Martin Luther King Jr.,Mahatma Gandhi,"
        "Nelson Mandela,Abraham Lincoln,George Washington,Vincent van Gogh,Pablo Picasso,Jane Austen,"
        "Mark Twain,Charles Dickens,Ada Lovelace,Alan Turing,Thomas Edison,Nikola Tesla,"
        "Alexander Graham Bell,Christopher Columbus,Neil Armstrong,Florence Nightingale,Aristotle,"
        "Plato,Cleopatra,Julius Caesar,Napoleon Bonaparte,Johann Sebastian Bach,Frida Kahlo,"
        "Rosa Parks"
    ),
    "food": choices(
        "bread,cheese,chocolate,butter,yogurt,honey,pasta,tofu,paper,glass,soap,ice cream,jam,wine,steel"
    ),
    "fact": choices(
        "capital,official language,currency,most famous food,largest city,flag,climate,population"
    ),
    "audience": choices(
        "a child,a beginner,a student,my grandmother,a ten-year-old,a friend,a classmate,"
        "someone who is new to it,a tourist,a busy reader"
    ),
    "length": choices(
        "in one sentence,in two sentences,in three sentences,in four sentences,in simple words,"
        "in a short paragraph,briefly,clearly and briefly,in less than 50 words,with an example"
    ),
    "reply": (
        "Answer in one sentence.",
        "Answer in two sentences.",
        "Answer in three sentences.",
        "Give a short answer.",
        "Answer briefly.",
        "Keep it short.",
        "Use simple words.",
        "Give one example.",
    ),
    "two_alike": _two_alike,
}

TRAIN = {
    "what-is": "What is <topic>? <reply>",
    "explain": "Explain what <topic> is to <audience> <length>.",
    "difference": "What is the difference between <two_alike>? <reply>",
    "why": "Do you know why <wonder>? Tell <audience> <length>.",
    "explain-why": "Explain to <audience> why <wonder>. <reply>",
    "who": "Who was <person>, and why is this person famous? Explain it <length>. <reply>",
    "country-fact": "What is the <fact> of <country>? <reply>",
    "two-facts": "What are the <fact1> and the <fact2> of <country>?",
    "purpose": "What is <use> used for, and does a <job> need it? <reply>",
    "how-to-use": "How do you use <use>? Explain it to <audience> <length>.",
    "made-of": "How is <food> made? Explain it to <audience> <length>.",
    "animal": "What does a <animal> eat, and where does it live? <reply>",
    "two-animals": "How is a <animal1> different from a <animal2>? <reply>",
    "important": "Explain to <audience> why <topic> is important. <reply>",
    "job": "What does a <job> do? Explain it to <audience> <length>.",
}

HELD_OUT = {
    "tell-me": "Can you tell <audience> what <topic> is? <reply>",
    "compare": "Compare <two_alike> <length>.",
    "travel": "I am going to <country> in <month>. What should I know about its <fact>? <reply>",
}

# Only training prompts draw from the wider words: the held-out texts never change.
TEMPLATES = templates("questions", TRAIN, {}, {**RULES, **WIDE}) + templates(
    "questions", {}, HELD_OUT, RULES
)

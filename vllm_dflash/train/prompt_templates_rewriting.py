# SPDX-License-Identifier: Apache-2.0
"""A given text to correct, shorten, restyle or convert."""

from random import Random

from vllm_dflash.train.prompt_templates import Rules, between, choices, pick, templates
from vllm_dflash.train.prompt_templates_words import WORDS
from vllm_dflash.train.prompt_templates_words_more import WIDE

_COLUMNS = {
    "name": choices("Ada,Ben,Carla,Daniel,Emma,Hugo,Lina,Maya,Omar,Tara"),
    "city": choices("Paris,Rome,Oslo,Lima,Tokyo,Cairo,Dublin,Berlin"),
    "fruit": choices("apple,pear,plum,peach,lemon,grape"),
    "color": choices("red,blue,green,yellow,white,black"),
    "age": [str(age) for age in range(8, 80)],
    "price": [str(price) for price in range(2, 60)],
    "score": [str(score) for score in range(50, 100)],
}


def _table(rng: Random) -> str:
    columns = list(_COLUMNS)
    while len(columns) > 3:
        del columns[between(rng, 0, len(columns) - 1)]
    rows = [columns] + [
        [pick(rng, _COLUMNS[column]) for column in columns] for _ in range(between(rng, 2, 4))
    ]
    return "\n".join(",".join(row) for row in rows)


RULES: Rules = {
    **WORDS,
    "hour": range(2, 12),
    "thing": choices(
        "the report,the new printer,the garden,the invoice,the old bridge,the kitchen,the website,"
        "the blue car,the letter,the wooden table,the budget,the photo album,the window,the bicycle,"
        "the menu,the contract,the painting,the broken lamp,the schedule,the front door"
    ),
    "act": choices(
        "cleaned,repaired,checked,painted,moved,sold,ordered,finished,found,opened,measured,changed,"
        "copied,ruined,returned,inspected,delivered,described"
    ),
    "wrong": (
        "<name> go to the market every <day> and buy <small> <objects>.",
        "me and <name> was late for the meeting on <day>.",
        "There is <small> <objects> on the table and <name> dont want them.",
        "<name> have finished <thing> yesterday, but he dont told nobody.",
        "She dont like the weather in <city> because it rain to much in <month>.",
        "their going to <city> in <month> to visit there friend <name>.",
        "Yesterday <name> see a <animal> in the park and it run away very quick.",
        "<name1> and <name2> is going too work by train since <month>.",
        "I has been a <job> for <mid> year and I still loves it.",
        "The <animal> have ate all the <objects> who was on the floor.",
        "He speak english very good, but his brother <name> speak it more better.",
        "If I was rich, I will buy <small> house in <city> and travels every <month>.",
        "its a nice day in <city>, isnt it <name>, lets go outside.",
        "we was waiting since <small> hours for <name>, who never come on time.",
    ),
    "event": choices("meeting,lunch,training,interview,call,party,workshop,presentation,dinner,lesson"),
    "reason": choices(
        "my train is late,i am sick,my car broke down,i have to pick up my kids,i forgot about it,"
        "i have a doctor's appointment,my <animal> is ill,there is too much snow,i missed the bus,"
        "i am stuck in <city>,my boss needs me,i lost my keys"
    ),
    "chat": (
        "hey <name>, cant make it to the <event> on <day>, <reason>. sorry!!",
        "hi <name>, can u send me <thing> before <day>? need it asap, thx",
        "yo <name>, the <event> was super boring, lets skip the next one on <day>",
        "<name>!! where are u? the <event> starts at <hour> and everybody is waiting",
        "hey, gonna be late for the <event>, <reason>, start without me ok?",
        "sup <name>, wanna move the <event> to <day>? <reason>",
        "hi, i dont like <thing> that i bought on <day>, gimme my money back",
        "thanks a lot <name>, <thing> looks awesome, see ya on <day>",
    ),
    "formal": (
        "Dear <name>, I would like to inform you that the <event> on <day> has been canceled.",
        "We kindly request that you return <thing> to our office before <day>.",
        "It is with great pleasure that we invite you to a <event> in <city> on <day>.",
        "Please be advised that <thing> will not be available until <month>.",
        "We regret to inform you that <thing> was damaged during transport to <city>.",
        "I am writing to ask whether the <event> could be moved to <day> at <hour> o'clock.",
    ),
    "fact": (
        "<name> <act> <thing> on <day>",
        "The <job> <act> <thing> in <month>",
        "<name> visited <city> in <month>",
        "<name> met a <job> in <city>",
        "The <job> bought <small> <objects> on <day>",
        "<name1> gave <small> <objects> to <name2>",
        "A <animal> slept near <thing>",
        "The <event> in <city> started at <hour> o'clock",
    ),
    "present": (
        "<name> walks to work every <day> and buys <small> <objects> on the way.",
        "The <job> opens the shop at <hour> o'clock and cleans <thing>.",
        "<name> lives in <city>, works as a <job> and has a <animal>.",
        "Every <month>, <name1> and <name2> travel to <city> and stay for <small> days.",
        "The <animal> sleeps all day and eats <small> times at night.",
        "<name> writes a letter to the <job> and waits for an answer until <day>.",
    ),
    "story": (
        "<name> is a <job> who lives in <city>. Every <day> <name> takes the bus at <hour> o'clock "
        "and meets a friend. "
        "They talk about work, drink coffee and look at the people who walk by. In <month> they "
        "want to travel together.",
        "Our office in <city> will be closed on <day> because of repairs. Please take <thing> home "
        "before you leave. "
        "The <job> will check every room at <hour> o'clock. Anyone who needs help can call <name>.",
        "The <event> on <day> was a great success. More than <big> people came, and <name> gave a "
        "short talk. "
        "After that everyone helped to carry <thing> back to the office. The next <event> will be "
        "in <month>.",
        "<name> found a small <animal> behind <thing> last <day>. It was cold and hungry, so <name> "
        "gave it some food. "
        "After <small> days it was strong again. Now the <animal> lives with a <job> in <city>.",
        "The new store in <city> sells <objects> and many other things. It opened in <month> and "
        "has <small> workers. "
        "On <day> everything costs less. The owner, <name>, used to be a <job> and loves to talk to "
        "customers.",
    ),
    "tone": choices("polite,friendly,formal,cheerful,neutral,confident,simple,professional"),
    "sentence_count": choices(
        "one sentence,two sentences,three sentences,fewer than 20 words,fewer than 30 words"
    ),
    "form": choices(
        "bullet points,a numbered list,a short email,a headline and one sentence,a short note,a diary entry"
    ),
    "format": choices("JSON,a Markdown table,a list of Python dictionaries,plain English sentences"),
    "table": _table,
    "shopping": ["<small1> <objects1>, <small2> <objects2>, <mid> <objects3> and <small3> <objects4>"],
    "voice": choices(
        "in the passive voice,as a question,in the past perfect,as a negative sentence,as reported speech"
    ),
    "sorting": choices("alphabetical order,reverse alphabetical order,order of length,random order"),
    "tense": choices("past tense,future tense,present continuous tense,present perfect tense"),
    "speaker": choices("first person,second person,plural"),
}

TRAIN = {
    "grammar": "Correct the grammar in these sentences:\n\n1. <wrong1>\n2. <wrong2>\n3. <wrong3>",
    "grammar-explain": "Correct the mistakes in this text and explain what you changed:\n\n<wrong1> <wrong2>",
    "make-formal": "Rewrite this message so that it sounds <tone>:\n\n<chat>",
    "make-casual": "Rewrite this message in a casual and friendly way:\n\n<formal1> <formal2>",
    "shorten": "Shorten this text to <sentence_count>:\n\n<story>",
    "bullets": "Turn this text into <form>:\n\n<story>",
    "voice": "Rewrite each sentence <voice>:\n\n1. <fact1>.\n2. <fact2>.\n3. <fact3>.",
    "tense": "Change this text to the <tense>:\n\n<present1> <present2>",
    "combine": "Combine these sentences into one: <fact1>. <fact2>. <fact3>.",
    "csv": "Convert this CSV to <format>:\n\n<table>",
    "list": "Rewrite this shopping list with one item on each line: <shopping>",
    "person": "Rewrite this text in the <speaker>:\n\n<present>",
    "reply": "Write a <tone> reply to this message:\n\n<chat>",
    "title": "Write <count_word> possible titles for this text:\n\n<story>",
    "sort": "Put these words in <sorting>: <objects1>, <objects2>, <objects3>, <objects4>, <objects5>.",
}

HELD_OUT = {
    "proofread": "Please proofread the following and give me the corrected version.\n\nText: "
    "<wrong1> <wrong2>",
    "summary": "<story>\n\nSummarize the text above in <sentence_count>.",
    "as-email": 'Here is a chat message: "<chat>" Write it as a <tone> email.',
}

# Only training prompts draw from the wider words: the held-out texts never change.
TEMPLATES = templates("rewriting", TRAIN, {}, {**RULES, **WIDE}) + templates(
    "rewriting", {}, HELD_OUT, RULES
)

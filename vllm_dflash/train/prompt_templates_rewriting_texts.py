# SPDX-License-Identifier: Apache-2.0
"""Sentences, messages, notes and tables put together from parts, for the training templates of rewriting."""

import json
from random import Random

from vllm_dflash.train.prompt_templates import Rules, between, choices, pick
from vllm_dflash.train.prompt_templates_words_more import MORE_WORDS, NAMES

_CITIES = choices("Paris,Rome,Oslo,Lima,Tokyo,Cairo,Dublin,Berlin,Seoul,Madrid,Lagos,Quito,Boston,Vienna,Sydney,Hanoi")
_COLUMNS = {
    "name": NAMES,
    "city": _CITIES,
    "item": choices("chair,table,lamp,cup,plate,pen,book,rug,mirror,clock,vase,bowl"),
    "color": choices("red,blue,green,yellow,white,black,brown,gray"),
    "team": choices("Lions,Eagles,Sharks,Bears,Wolves,Hawks"),
    "age": [str(age) for age in range(8, 80)],
    "price": [str(price) for price in range(2, 90)],
    "stock": [str(stock) for stock in range(0, 400, 7)],
    "points": [str(score) for score in range(50, 100)],
    "paid": ["yes", "no"],
}


def _rows(rng: Random) -> list[dict[str, str]]:
    columns = list(_COLUMNS)
    while len(columns) > 3:
        del columns[between(rng, 0, len(columns) - 1)]
    return [{column: pick(rng, _COLUMNS[column]) for column in columns} for _ in range(between(rng, 2, 4))]


def _csv(rng: Random) -> str:
    rows = _rows(rng)
    sep = pick(rng, (",", ";"))
    return "\n".join([sep.join(rows[0])] + [sep.join(row.values()) for row in rows])


def _json(rng: Random) -> str:
    return json.dumps(
        [{key: int(value) if value.isdigit() else value for key, value in row.items()} for row in _rows(rng)]
    )


def _markdown(rng: Random) -> str:
    rows = _rows(rng)
    head = ["| " + " | ".join(rows[0]) + " |", "|" + " --- |" * len(rows[0])]
    return "\n".join(head + ["| " + " | ".join(row.values()) + " |" for row in rows])


def _key_values(rng: Random) -> str:
    return "\n".join(f"{key}: {value}" for key, value in _rows(rng)[0].items())


TEXTS: Rules = {
    **MORE_WORDS,
    "csv": _csv,
    "json": _json,
    "markdown": _markdown,
    "key_values": _key_values,
    "hour": range(2, 12),
    "adjective": choices(
        "old,new,small,large,red,blue,wooden,broken,heavy,clean,dirty,expensive,cheap,green,strange,"
        "beautiful,round,empty,yellow,rusty,soft,long"
    ),
    "object": choices(
        "bridge,door,report,letter,table,painting,lamp,garden,boat,engine,fence,window,roof,piano,suitcase,"
        "statue,tent,map,clock,cabinet,ladder,carpet,oven,wall,printer,book,coat,bicycle,sign,box"
    ),
    "thing": (
        "the <adjective> <object>",
        "a <adjective> <object>",
        "the <object> in the <place>",
        "<small> <objects>",
    ),
    "did": choices(
        "cleaned,repaired,checked,painted,moved,sold,ordered,found,opened,measured,copied,ruined,returned,"
        "inspected,described,borrowed,bought,carried,covered,designed,photographed,packed,lost,tested,"
        "watched,stole,saved,broke,built,replaced"
    ),
    "did_alone": choices(
        "slept,laughed,waited,arrived,sang,danced,worked,fell asleep,got lost,felt tired,went home,"
        "ate a sandwich,drank some tea,read the news,took a walk,made a phone call,missed the bus,"
        "looked at the sky,told a joke,asked a question,learned a new word,had a bad cold"
    ),
    "does": choices(
        "cleans,repairs,checks,paints,moves,sells,finds,opens,copies,borrows,buys,carries,covers,packs,"
        "tests,watches,sees,needs,forgets,wants"
    ),
    "where": choices(
        "in <city>,at the <place>,near the <place>,behind the <place>,in the <place>,on the way to <city>,"
        "at home,in the kitchen,in front of the <place>,not far from <city>"
    ),
    "when": choices(
        "on <day>,in <month>,at <hour> o'clock,last <day>,two days ago,yesterday,after lunch,"
        "before breakfast,last year,early in the morning,late at night,during the <event>"
    ),
    "event": choices(
        "meeting,lunch,training,interview,call,party,workshop,presentation,dinner,lesson,concert,"
        "conference,match,exam,wedding,picnic,tour,festival"
    ),
    "because": choices(
        "because it was cold,because nobody else had time,although it was late,"
        "so that everyone could see it,because of the rain,while the others were sleeping,"
        "even though it was not allowed,since the <event> was canceled,before the <event> began,"
        "after the <event>,because <name> asked for it,because the bus was late"
    ),
    "sentence": (
        "<name> <did> <thing> <where> <when>.",
        "The <job> <did> <thing> <when>.",
        "<name> <did_alone> <where> <because>.",
        "The <animal> <did_alone> <where>.",
        "<name1> and <name2> <did> <thing> <because>.",
        "The <job> from <city> <did_alone> <when>.",
        "<name>, a <job>, <did> <thing> <because>.",
        "There were <mid> <objects> <where> <when>.",
        "The <event> <where> began at <hour> o'clock and <name> <did_alone>.",
    ),
    "now": (
        "<name> <does> <thing> every <day>.",
        "The <job> <does> <thing> and <does1> <objects>.",
        "<name> lives in <city>, works as a <job> and has a <animal>.",
        "The <animal> sits near the <place> and watches the <job>.",
        "<name1> meets <name2> at the <place> each <month>.",
        "The <place> opens at <hour> o'clock, and <name> <does> <thing>.",
    ),
    "story": ("<sentence1> <sentence2> <sentence3>", "<sentence1> <sentence2> <sentence3> <sentence4>"),
    "long_story": ("<sentence1> <sentence2> <sentence3> <sentence4> <sentence5>",),
    "messy": (
        "<name> dont know where the <adjective> <object> is",
        "me and <name> was <where> on <day>",
        "the <job> have <did> <thing> yesterday",
        "they is going to the <place> in <month>",
        "there was too <animal>s and a <job> in the <place>",
        "she <does> <thing> last <day>",
        "we wasnt at the <event> becaus <name> were sick",
        "its to late for the <event>, isnt it",
        "he dont never <did> <thing>",
        "i seen <name> at the <place>, he look very tired",
    ),
    "raw": (
        "<name> <did> <thing> <where>",
        "on <day> the <job> <did> <thing>",
        "have you seen the <adjective> <object>",
        "<name> lives in <city> with a <animal>",
        "what a <adjective> <object>",
        "the <event> starts at <hour>",
        "<name1> <name2> and <name3> went to the <place>",
    ),
    "chat": (
        "hey <name>, cant come to the <event> on <day>, sorry!!",
        "yo <name>, did u see <thing>? it was awesome",
        "gonna be at the <place> at <hour>, u coming?",
        "omg the <event> was sooo boring, never again",
        "hi, the <object> i bought on <day> is broken, i want my money back",
        "<name> where r u?? the <event> started at <hour>",
        "pls bring <objects> and the <adjective> <object> tmrw, thx",
        "lets skip the <event> and go to <city> with <name>",
        "no idea who <did> <thing>, ask <name>",
    ),
    "formal": (
        "We would like to inform you that the <event> in <city> will take place on <day>.",
        "Please be advised that <thing> will not be available until <month>.",
        "I am writing to request a meeting with the <job> regarding <thing>.",
        "We regret to inform you that <thing> was damaged during transport to <city>.",
        "It would be greatly appreciated if you could return <thing> before <day>.",
        "Due to unforeseen circumstances, the <place> will remain closed in <month>.",
        "Visitors are kindly requested to leave the <place> before <hour> o'clock.",
    ),
    "notes": (
        "- <event> on <day>, <hour> o'clock\n- <city>, <place>\n- bring <objects>\n- ask <name> about the <object>",
        "- <name>: buy <small> <objects>\n- <job> comes on <day>\n- <object> is <adjective>, replace it",
        "- trip to <city> in <month>\n- <name1> drives, <name2> cooks\n- <mid> dollars each",
        "- <adjective> <object> found at the <place>\n- owner unknown\n- call the <job> after <hour>",
        "- new <job> starts in <month>\n- needs a <object>\n- first <event>: <day> at <hour>",
    ),
    "facts_text": (
        "<name> is a <job> from <city>. <name> was born in <year> and owns a <animal>.",
        "The <event> takes place on <day> at <hour> o'clock in <city>. <big> people are invited, and "
        "<name> gives a talk.",
        "Order for <name>: <small1> <objects1> and <small2> <objects2>, to be delivered to <city> on <day>.",
        "The <adjective> <object> costs <hundreds> dollars. It was made in <country> in <year>.",
        "<name1> scored <big1> points, <name2> scored <big2> points, and the <event> was in <city>.",
    ),
    "wordy": (
        "Due to the fact that it was raining, <name> made the decision to stay at home on <day>.",
        "At this point in time, the <job> is in possession of a <adjective> <object>.",
        "It is absolutely necessary and essential that each and every <job> attends the <event>.",
        "In spite of the fact that the <place> was closed, <name> went there for the purpose of <did_what>.",
        "There are many people in <city> who are of the opinion that the <place> is too small in size.",
        "<name> is a person who always arrives at the <event> at an early time of <hour> o'clock.",
    ),
    "did_what": choices(
        "buying <objects>,meeting <name>,looking at the <object>,asking a question,taking photos,drinking coffee"
    ),
    "reader": choices(
        "a child,a customer,your boss,a friend,a neighbor,a teacher,a tourist,a new colleague,"
        "a grandmother,someone who learns English"
    ),
    "mood": choices(
        "polite,friendly,formal,cheerful,neutral,confident,serious,funny,warm,short and direct,dramatic,"
        "calm,apologetic,excited,sad,mysterious"
    ),
    "limit": choices(
        "one sentence,two sentences,three sentences,ten words,fifteen words,twenty words,thirty words,half its length"
    ),
    "only": (
        "Give only the result.",
        "Return just the new text.",
        "Change as little as possible.",
        "Do not explain anything.",
        "Then say in one sentence what you changed.",
        "Keep all the facts.",
        "Keep the names.",
        "Use short sentences.",
    ),
}

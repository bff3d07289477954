# SPDX-License-Identifier: Apache-2.0
"""Answers that are lists: names of things, steps, ideas, pros and cons."""

from vllm_dflash.train.prompt_templates import Rules, choices, templates
from vllm_dflash.train.prompt_templates_words import WORDS
from vllm_dflash.train.prompt_templates_words_more import WIDE

RULES: Rules = {
    **WORDS,
    "things": choices(
        "fruits,vegetables,kitchen tools,musical instruments,ball games,ocean animals,farm animals,"
        "birds,insects,garden flowers,trees,pieces of furniture,school subjects,means of transport,"
        "board games,spices,desserts,breakfast foods,hot drinks,winter sports,summer activities,"
        "colors,shapes,units of length,planets,programming languages,office supplies,"
        "tools for woodworking,cleaning supplies,winter clothes,hobbies,languages,rivers,mountains,"
        "capital cities in Europe,countries in Asia,countries in Africa,famous painters,"
        "famous scientists,musical styles,dances,dog breeds,types of cheese,types of bread,"
        "types of pasta,body parts,jobs in a hospital,jobs in a school,household chores,camping items"
    ),
    "quality": choices(
        "common,popular,useful,well-known,simple,interesting,different,typical,affordable,healthy,"
        "traditional,famous,easy,classic"
    ),
    "task": choices(
        "make a cup of tea,bake a chocolate cake,wash a car,plant a tree,write a letter,paint a room,"
        "boil an egg,change a flat tire,set up a tent,clean a kitchen,learn a new language,"
        "train a puppy,plan a birthday party,prepare for a job interview,start a small garden,"
        "organize a desk,make a paper airplane,cook rice,repair a bicycle chain,study for an exam,"
        "save money,write a short story,fold a shirt,make a salad,install a program,"
        "back up a computer,give a speech,clean a window,move to a new apartment,choose a laptop,"
        "take a good photo,start a blog"
    ),
    "trip": choices(
        "a weekend at the beach,a camping trip,a ski holiday,a business trip,a long flight,"
        "a hike in the mountains,a school trip,a road trip,a picnic,a music festival,a boat tour,"
        "a visit to a museum,a city break,a day at the zoo,a bicycle tour,a stay in a cabin"
    ),
    "occasion": choices(
        "a birthday party,a rainy afternoon,a first date,a family dinner,a team meeting,"
        "a school project,a summer vacation,a wedding,a housewarming,a holiday gift,a weekend alone,"
        "a class presentation,a picnic,a charity event,a game night,a small balcony"
    ),
    "subject": choices(
        "working from home,living in a big city,owning a dog,riding a bicycle to work,"
        "online learning,eating vegetarian food,using public transport,reading e-books,"
        "buying a used car,learning to cook,having a part-time job,owning a house,studying abroad,"
        "using solar panels,shopping online,playing video games,keeping a diary,getting up early,"
        "living in a small town,wearing a school uniform"
    ),
    "business": choices(
        "bakery,coffee shop,bookstore,flower shop,bicycle repair shop,pet store,yoga studio,"
        "toy store,hair salon,ice cream shop,garden center,music school,cleaning company,"
        "travel agency,pizza restaurant,tea house"
    ),
    "meal": choices(
        "vegetable soup,fried rice,pancakes,spaghetti with tomato sauce,fruit salad,an omelet,"
        "chicken curry,tacos,a cheese sandwich,banana bread,potato salad,lentil stew,pizza,apple pie,"
        "stir-fried noodles,oatmeal"
    ),
    "habit": choices(
        "sleep,stay healthy,save water,save energy,reduce waste,learn faster,stay focused,"
        "reduce stress,eat better,make friends,be on time,read more,exercise at home,write clearly,"
        "remember names,be a good neighbor,protect your eyes,speak in public"
    ),
    "word": choices(
        "happy,sad,big,small,fast,slow,cold,hot,old,new,strong,weak,bright,dark,quiet,loud,brave,"
        "kind,clever,tired,angry,rich,beautiful,difficult,easy,important,strange,clean"
    ),
    "person": choices(
        "a student,a child,a busy parent,a beginner,a retired person,a tourist,an office worker,"
        "a teenager,a runner,a new employee"
    ),
    "style": (
        "Use a numbered list.",
        "Use bullet points.",
        "Write one short sentence for each.",
        "Keep each item short.",
        "Number them.",
        "Put each one on its own line.",
    ),
}

TRAIN = {
    "things": "List <count_word> <quality> <things>. <style>",
    "things-why": "Name <count_word> <quality> <things> and describe each in one sentence.",
    "steps": "List the steps to <task>. <style>",
    "steps-for": "Explain to <person> how to <task> in <count_word> steps.",
    "packing": "Write a packing list with <count_word> items for <trip>. <style>",
    "ideas": "Give me <count_word> ideas for <occasion>. <style>",
    "pros-cons": "List <count_word> advantages and <count_word> disadvantages of <subject>. <style>",
    "names": "Suggest <count_word> names for a <business> in <city>. <style>",
    "ingredients": "List the ingredients of <meal> for <small> people. <style>",
    "tips": "Give <count_word> tips to help <person> <habit>. <style>",
    "synonyms": 'List <count_word> words that mean almost the same as "<word>" and use each in a sentence '
    "about a <job>.",
    "schedule": "Write a daily schedule for <person> who wants to <habit>. Use <count_word> entries "
    "with times.",
    "sights": "List <count_word> things that a tourist can do in <city> in <month>. <style>",
    "questions": "Write <count_word> questions to ask a <job> about <subject>. <style>",
    "duties": "List <count_word> things that a <job> does at work on <day>. <style>",
}

HELD_OUT = {
    "examples": "What are <count_word> examples of <quality> <things>? <style>",
    "how-to": "How do you <task>? Answer <person> with a list of <count_word> steps.",
    "reasons": "Give <person> <count_word> good reasons for <subject>. <style>",
}

# Only training prompts draw from the wider words: the held-out texts never change.
TEMPLATES = templates("lists", TRAIN, {}, {**RULES, **WIDE}) + templates(
    "lists", {}, HELD_OUT, RULES
)

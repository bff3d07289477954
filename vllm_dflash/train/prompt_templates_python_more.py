# SPDX-License-Identifier: Apache-2.0
"""More Python to write: functions on text, lists, numbers and dictionaries, classes, generators, programs."""

from random import Random

from vllm_dflash.train.prompt_templates import Rules, between, choices, pick, templates
from vllm_dflash.train.prompt_templates_python import RULES as FIRST_RULES
from vllm_dflash.train.prompt_templates_words_more import MORE_WORDS, OBJECTS

_FIELDS = choices(
    "name,age,price,color,size,title,owner,year,score,address,email,weight,count,rating,status,category,"
    "speed,level,date,country,length,volume,active,tags"
)
_KINDS = choices(
    "Book,Car,Student,Rectangle,Account,Dog,Product,Movie,Employee,Circle,Recipe,Song,Room,Task,City,"
    "Player,Ticket,Invoice,Customer,Animal,Planet,Shape,Vehicle,Robot,Sensor,Message,Event,Point,Team,"
    "Garden,Hotel,Flight,Course,Pizza,Order,Library,Playlist,Wallet,Camera,Phone"
)


def _fields(rng: Random) -> str:
    left = list(_FIELDS)
    chosen = [left.pop(between(rng, 0, len(left) - 1)) for _ in range(between(rng, 2, 4))]
    return f"{', '.join(chosen[:-1])} and {chosen[-1]}"


def _example_list(rng: Random) -> str:
    if between(rng, 0, 1):
        return "[" + ", ".join(str(between(rng, 0, 60)) for _ in range(between(rng, 3, 6))) + "]"
    words = [f'"{pick(rng, OBJECTS)}"' for _ in range(between(rng, 3, 5))]
    return f"[{', '.join(words)}]"


RULES: Rules = {
    **FIRST_RULES,
    **MORE_WORDS,
    "first_task": FIRST_RULES["task"],
    "fields": _fields,
    "kind": _KINDS,
    "example": _example_list,
    "n": range(2, 25),
    "letter": list("abcdefghiklmnoprstuw"),
    "things": choices(
        "numbers,integers,floats,prices,scores,temperatures,ages,distances,weights,durations,grades,salaries"
    ),
    "texts": choices("words,names,strings,cities,titles,file names,lines,email addresses,tags,sentences"),
    "text_task": (
        "counts the words in a text that have <n> letters",
        "returns every <nth> character of a string",
        "swaps the first and the last letter of each word",
        "shifts each letter by <n> places (Caesar cipher)",
        "undoes a Caesar cipher with a shift of <n>",
        "replaces every digit in a string with '<letter>'",
        "shortens a string to <n> characters and adds three dots",
        "pads a string with '<letter>' until it has <n> characters",
        "converts snake_case to camelCase",
        "converts camelCase to snake_case",
        "returns the most common letter in a text",
        "returns the words of a text that contain both '<letter1>' and '<letter2>'",
        "removes all punctuation from a sentence",
        "finds the longest word that starts with '<letter>'",
        "checks if a string contains only digits and '<letter>'",
        "checks if a password has at least <n> characters and a digit",
        "checks if an email address contains exactly one @ sign",
        "counts upper-case and lower-case letters",
        "returns the position of the <nth> '<letter>' in a string",
        "wraps a text into lines of <big> characters",
        "compresses a string like 'aaab' to 'a3b1'",
        "reverses the order of the words in a sentence",
        "turns a title into a URL slug",
        "splits a string into pieces of length <small>",
        "removes repeated spaces from a text",
        "extracts all numbers from a string",
        "counts how many <texts> end with '<letter>'",
        "censors every word on a given list with <small> stars",
        "translates a word into Pig Latin",
        "turns a number of seconds into a string like '1h 5m'",
    ),
    "list_task": (
        "returns the <small> largest <things> in a list",
        "returns the second smallest of a list of <things>",
        "moves all zeros to the end of a list of <things>",
        "rotates a list by <small> places",
        "returns pairs of neighboring <things> in a list",
        "returns all pairs of <things> that add up to <n>",
        "groups <texts> by their first letter",
        "groups <texts> by length",
        "splits <things> into those below <n> and the rest",
        "returns the running total of a list of <things>",
        "returns the differences between neighboring <things>",
        "interleaves two lists of <texts>",
        "removes every <nth> item from a list",
        "returns the items that appear more than <small> times",
        "returns the most frequent of a list of <texts>",
        "finds the index of the largest of some <things>",
        "inserts <n> into a sorted list of <things>",
        "does a binary search for <n> in a sorted list of <things>",
        "sorts a list of <things> with bubble sort",
        "sorts a list of <things> with insertion sort",
        "merges two sorted lists of <things>",
        "transposes a matrix with <small> columns",
        "adds two matrices of size <tiny> by <tiny>",
        "returns the diagonal of a square matrix",
        "creates a grid of <small> by <tiny> zeros",
        "removes all <texts> that are shorter than <small> characters",
        "returns the items of one list that are not in another",
        "checks if all <things> in a list are <compared> <n>",
        "checks if any of the <things> in a list is <compared> <n>",
        "scales a list of <things> so that the largest becomes <n>",
        "computes the moving average of <things> over <small> values",
        "returns the longest run of equal items",
    ),
    "number_task": (
        "returns all divisors of a number",
        "returns the prime factors of a number",
        "returns all primes below <hundreds>",
        "checks if a number is a perfect square",
        "checks if a number is an Armstrong number",
        "checks if a number is divisible by <n> but not by <small>",
        "converts a number to base <small>",
        "converts a binary string to a number",
        "converts a number to Roman numerals",
        "reverses the digits of a number",
        "counts the digits of a number that are greater than <small>",
        "returns the sum of the multiples of <small> below <hundreds>",
        "returns the least common multiple of two numbers",
        "approximates the square root in <small> steps",
        "computes the distance between two points",
        "computes simple interest at <n> percent",
        "computes compound interest over <n> years",
        "adds <n>% tax to a price",
        "rounds a number to the nearest multiple of <small>",
        "returns the Collatz sequence that starts at <n>",
        "returns the first <n> square numbers",
        "returns the first <n> triangular numbers",
        "returns <n> random integers between 1 and <big>",
        "simulates <n> coin flips",
        "computes the body mass index",
        "returns the day of the week for a date",
        "returns the number of days between two dates",
        "returns 'Fizz' for multiples of <tiny> and 'Buzz' for multiples of <small>",
    ),
    "dict_task": (
        "inverts a dictionary of <texts>",
        "counts how often each of the <texts> occurs and returns the top <small>",
        "sorts a dictionary of <things> by value",
        "returns the keys whose <things> are <compared> <n>",
        "adds up the <things> in a nested dictionary",
        "merges two dictionaries and adds their <things>",
        "removes all keys that start with '<letter>'",
        "builds a dictionary from a list of <texts> and a list of <things>",
        "returns the average of the <things> in a dictionary",
        "updates a stock of <objects> after <n> are sold",
        "finds people older than <mid> in a list of dictionaries",
        "converts a list of tuples to a dictionary of lists",
        "returns the value of a key or <n> when it is missing",
        "prints a dictionary of <things> as a table",
        "keeps the <small> entries with the highest <things>",
    ),
    "any_task": ("<text_task>", "<list_task>", "<number_task>", "<dict_task>"),
    "how_long": choices("one line,two lines,three lines,at most five lines,as few lines as possible"),
    "method": (
        "returns a dictionary of its attributes",
        "compares two objects by one attribute",
        "raises a ValueError when a value is negative",
        "prints a one-line summary",
        "creates an object from a string",
        "increases one value by <n>",
        "resets all values",
        "returns a copy with one changed attribute",
    ),
    "structure": choices(
        "stack,queue,linked list,binary tree,set,counter,cache,priority queue,ring buffer,graph,matrix,"
        "history with undo,to-do list,phone book,shopping cart,inventory,timer,scoreboard,calendar,"
        "dictionary with default values"
    ),
    "actions": choices(
        "add and remove items,look at the first item,count the items,check whether it is empty,"
        "print all items,find an item,clear everything,get the last <small> items,keep at most <n> items,"
        "sort the items,save the items to a file,iterate over the items"
    ),
    "yielded": choices(
        "even numbers from <n>,odd numbers below <hundreds>,squares of the first <n> numbers,"
        "Fibonacci numbers below <hundreds>,primes up to <hundreds>,letters of a word,words of a text,"
        "lines of a file that contain '<letter>',numbers from <big> down to <small>,powers of <small>,"
        "chunks of <n> items,every <nth> item of a list,running totals of some <things>,"
        "pairs from two lists,random numbers below <hundreds>,multiples of <n>"
    ),
    "program": choices(
        "number guessing game between 1 and <hundreds>,calculator for <tiny> operations,"
        "quiz about <country> with <small> questions,rock paper scissors game with <small> rounds,"
        "hangman game about <objects>,dice game for <tiny> players,to-do list with <small> commands,"
        "tip calculator with <n>% as the default,unit converter for <things>,"
        "password generator with <n> characters,timer that counts down from <n>,"
        "tic-tac-toe board of size <tiny>,shopping list for <objects>,word counter for <texts>,"
        "temperature table from 0 to <big>,multiplication quiz up to <n>,alarm that rings at <clock>,"
        "coin counter for <country>,text adventure in a <place>,address book for a <place>,"
        "bill splitter for <small> people,flash card trainer for <objects>"
    ),
    "extra": (
        "Add a docstring.",
        "Add type hints.",
        "Show one example call with its output.",
        "Explain the code after it.",
        "Do not use any imports.",
        "Handle empty input.",
        "Comment each line.",
        "Keep it short.",
        "Include two assert statements.",
        "Say how fast it is.",
        "Only the code, please.",
        "Raise a ValueError for bad input.",
        "Use only built-in functions.",
    ),
}

TRAIN = {
    "text": "Python: write a function that <text_task>. <extra>",
    "list": "Write Python code for a function that <list_task>. <extra>",
    "number": "Can you code a Python function that <number_task>? <extra>",
    "dict": "Create a Python function that <dict_task>. <extra>",
    "def-for": "`def <name_of>(<arg>):` - complete this Python function so that it <any_task>.",
    "method-chain": "In Python, write a function that <text_task1>. Then write another that <text_task2>.",
    "both-and": "Write one Python function that <list_task> and a main block that calls it with <example>.",
    "one-line": "Is it possible to write Python that <any_task> in <how_long>? Show me.",
    "lambda": "Write a lambda in Python that <number_task>, and use it once.",
    "two-ways": "Show two different ways in Python to write a function that <any_task>.",
    "beginner": "I am new to Python. Show me, with comments, how to write a function that <any_task>.",
    "pseudo": "First write the idea in plain English, then the Python code: a function that <any_task>.",
    "assert": "Write three assert statements for a Python function that <any_task>.",
    "pytest": "Write pytest tests (with parametrize) for a function that <any_task>.",
    "edge": "Which edge cases should I think of in a Python function that <any_task>? Then write it.",
    "signature": "Suggest a name, the parameters and a docstring for a Python function that <any_task>.",
    "recursive": "Write a recursive Python function that <first_task>. <extra>",
    "dataclass": "Write a Python dataclass `<kind>` with <fields>. <extra>",
    "class-method": "Create a class `<kind>` in Python. It stores <fields> and has a method that <method>.",
    "subclass": "Write a Python class `<kind1>` with <fields> and a subclass `<kind2>` that adds one more attribute.",
    "property": "Give the Python class `<kind>` (with <fields>) a property that checks its value. <extra>",
    "structure": "Implement a simple <structure> in Python. One should be able to <actions1> and <actions2>.",
    "generator": "Write a Python generator that yields <yielded>. <extra>",
    "iterate": "Use `yield` to produce <yielded>, then print the first <small> values.",
    "program": "Write a small Python program: a <program>. <extra>",
    "menu": "Make a command-line <program> in Python with a loop and a menu.",
    "enum": "Write a Python Enum called `<kind>` with <small> members and a function that <text_task>.",
    "on-example": "Given `data = <example>`, write Python that <list_task>.",
    "expected": "With input `<example>`, what would a Python function give that <list_task>? Write it, too.",
    "context": "For my <place> app in Python I need a function that <dict_task>. <extra>",
}
RULES = {
    **RULES,
    "name_of": choices("solve,process,compute,handle,transform,run_task,convert,main_task,get_result"),
    "arg": choices("value,data,items,text,x,source"),
}

TEMPLATES = templates("python", TRAIN, {}, RULES)

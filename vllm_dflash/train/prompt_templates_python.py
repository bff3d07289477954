# SPDX-License-Identifier: Apache-2.0
"""Small Python functions, classes and programs: to write, to explain, to repair."""

from random import Random

from vllm_dflash.train.prompt_templates import Rules, between, choices, pick, templates
from vllm_dflash.train.prompt_templates_words import WORDS
from vllm_dflash.train.prompt_templates_words_more import WIDE

_CLASSES = {
    "Book": "title,author,pages,year,price",
    "Car": "brand,model,year,speed,color",
    "Student": "name,age,grade,school,scores",
    "Rectangle": "width,height,color,position",
    "BankAccount": "owner,balance,currency,number",
    "Dog": "name,breed,age,weight",
    "Product": "name,price,quantity,category",
    "Movie": "title,director,year,rating,length",
    "Employee": "name,position,salary,department",
    "Circle": "radius,color,center",
    "Recipe": "name,ingredients,servings,minutes",
    "Song": "title,artist,seconds,genre",
    "Room": "number,beds,price,floor",
    "Task": "title,done,priority,due_date",
    "City": "name,country,population,area",
    "Player": "name,score,level,health",
}


def _class_with_attributes(rng: Random) -> str:
    name = pick(rng, list(_CLASSES))
    attributes = _CLASSES[name].split(",")
    while len(attributes) > 2 and between(rng, 0, 2):
        del attributes[between(rng, 0, len(attributes) - 1)]
    return f"`{name}` with the attributes {', '.join(attributes[:-1])} and {attributes[-1]}"


RULES: Rules = {
    **WORDS,
    "n": range(2, 21),
    "letter": list("aeioustrnlmc"),
    "things": choices("numbers,integers,floats,prices,scores,temperatures,ages,distances"),
    "texts": choices("words,names,strings,cities,titles,file names"),
    "total": choices("the sum,the average,the maximum,the minimum,the median,the product,the number"),
    "compared": choices("greater than,less than,equal to,not equal to,divisible by"),
    "units": choices(
        "Celsius to Fahrenheit,Fahrenheit to Celsius,kilometers to miles,miles to kilometers,"
        "kilograms to pounds,pounds to kilograms,hours to seconds,days to minutes,meters to feet,"
        "inches to centimeters,liters to gallons"
    ),
    "measure": choices(
        "the area of a circle,the area of a rectangle,the area of a triangle,the perimeter of a square,"
        "the perimeter of a rectangle,the volume of a cube,the volume of a sphere,the volume of a cylinder,"
        "the area of a trapezoid,the length of a diagonal of a square,the surface of a cube"
    ),
    "task": (
        "returns <total> of all <things> in a list that are <compared> <n>",
        "returns the first <n> multiples of <small>",
        "returns <total> of a list of <things>",
        "sorts a list of <things> in descending order and returns the first <n>",
        "sorts a list of <texts> by length",
        "counts how many times the letter '<letter>' appears in a string",
        "removes every '<letter>' from a string",
        "replaces every '<letter1>' in a string with '<letter2>'",
        "counts the <texts> in a list that start with the letter '<letter>'",
        "returns the <texts> in a list that are longer than <n> characters",
        "converts <units>",
        "computes <measure>",
        "checks if a number is divisible by <n>",
        "checks if a number is between <small> and <big>",
        "checks if a string has at least <n> characters",
        "checks if a string is a palindrome",
        "checks if a number is prime",
        "checks if two strings are anagrams",
        "checks if a list of <things> is sorted",
        "returns the factorial of a number",
        "returns the first <n> Fibonacci numbers",
        "returns the sum of the squares of the numbers from 1 to <big>",
        "returns the greatest common divisor of two numbers",
        "raises every number in a list of <things> to the power of <small>",
        "multiplies every item in a list of <things> by <n>",
        "adds <n> to every item in a list of <things>",
        "reverses a list of <texts>",
        "removes duplicates from a list of <texts>",
        "removes duplicates from a list of <things>",
        "joins a list of <texts> with a comma",
        "splits a list of <things> into parts of <small> items",
        "merges two dictionaries that map <texts> to <things>",
        "finds the key with the largest value in a dictionary of <things>",
        "counts how often each item appears in a list of <texts>",
        "returns the longest of a list of <texts>",
        "returns the last <small> items of a list of <things>",
        "returns a dictionary that maps <texts> to their lengths",
        "prints the multiplication table of <n>",
        "prints a countdown from <n> to 1",
        "prints a triangle of stars with <n> rows",
        "returns True when a year is a leap year",
        "returns the number of vowels in a string",
        "capitalizes each of the <texts> in a list",
        "rounds all <things> in a list to <small> decimal places",
        "rolls <small> dice and returns the total",
        "picks <small> random items from a list of <texts>",
    ),
    "named": (
        "`add(a, b)` that returns the sum of two numbers",
        "`power(x, n)` that returns x to the power of n",
        "`is_even(n)` that tells whether a number is even",
        "`first_items(items, n)` that returns the first n items of a list",
        "`count_words(text)` that returns the number of words",
        "`reverse_text(text)` that returns the text backwards",
        "`average(numbers)` that returns the mean of a list",
        "`largest(numbers)` that returns the largest number without using max",
        "`clamp(value, low, high)` that keeps a value between two limits",
        "`to_minutes(hours)` that converts hours to minutes",
        "`initials(name)` that returns the first letter of each word",
        "`flatten(lists)` that turns a list of lists into one list",
        "`swap(pair)` that exchanges the two items of a tuple",
        "`is_vowel(letter)` that tells whether a letter is a vowel",
        "`discount(price, percent)` that returns the reduced price",
        "`common_items(a, b)` that returns what two lists share",
        "`repeat(text, times)` that repeats a text",
        "`digits_sum(n)` that adds the digits of a number",
        "`index_of(items, value)` that returns the position of a value or -1",
        "`greet(name)` that returns a greeting",
    ),
    "need": (
        "Add a docstring.",
        "Use type hints.",
        "Show an example call.",
        "Explain how it works.",
        "Handle an empty input.",
        "Keep it as short as possible.",
        "Use clear variable names.",
        "Add comments to the code.",
        "Raise a ValueError when the input is wrong.",
        "Write it without importing anything.",
    ),
    "means": choices(
        "a for loop,a while loop,recursion,a list comprehension,a helper function,the standard library"
    ),
    "class_spec": _class_with_attributes,
    "method": (
        "prints a summary",
        "returns all attributes as a dictionary",
        "compares it with another object",
        "updates one attribute",
        "returns a short description",
        "checks that the values are valid",
        "returns a copy",
    ),
    "name_of_function": choices("compute,process,f,run,calculate,check,transform,solve,helper,convert"),
    "argument": choices("items,values,data,numbers,xs"),
    "snippet": (
        "def <name_of_function>(<argument>):\n    total = 0\n    for x in <argument>:\n        if x "
        "> <n>:\n"
        "            total += x * <small>\n    return total",
        "def <name_of_function>(<argument>):\n    result = []\n    for x in <argument>:\n        if "
        "x % <small> == 0:\n"
        "            result.append(x + <n>)\n    return result",
        "def <name_of_function>(text):\n    count = 0\n    for c in text:\n        if c == '<letter>':\n"
        "            count += <small>\n    return count",
        "def <name_of_function>(n):\n    a, b = <small1>, <small2>\n    for _ in range(n):\n        "
        "a, b = b, a + b\n"
        "    return a",
        "def <name_of_function>(n):\n    while n > <n>:\n        n -= <small>\n    return n",
        "def <name_of_function>(<argument>):\n    return [x * <n> for x in <argument> if x != <small>]",
        "def <name_of_function>(a, b=<n>):\n    if a > b:\n        return a - b\n    return b - a",
        "def <name_of_function>(<argument>):\n    return sorted(<argument>, reverse=True)[:<small>]",
        "def <name_of_function>(words):\n    return {w: len(w) + <small> for w in words if '<letter>' in w}",
        "def <name_of_function>(n):\n    if n <= <small>:\n        return <n>\n    return n * "
        "<name_of_function>(n - 1)",
    ),
    "bug": (
        "def <name_of_function>(<argument>):\n    total = <n>\n    for x in <argument>\n        "
        "total += x\n"
        "    return total",
        "def <name_of_function>(<argument>):\n    for i in range(len(<argument>) + <small>):\n"
        "        print(<argument>[i])",
        "def <name_of_function>(a, b):\n    result = a + b * <n>",
        "def <name_of_function>(n):\n    if n = <n>:\n        return True\n    return False",
        "def <name_of_function>(<argument>):\n    return sum(<argument>) / <n> if <argument> else undefined",
        'def <name_of_function>(age):\n    return "You are " + age + <n>',
        "def <name_of_function>(n):\n    while n < <n>:\n        print(n)",
        "def <name_of_function>(<argument>):\nreturn <argument>[<small>:]",
    ),
    "loop": (
        "result = []\nfor x in <argument>:\n    result.append(x * <n>)",
        "result = []\nfor x in <argument>:\n    if x > <n>:\n        result.append(x)",
        "result = []\nfor x in <argument>:\n    if x % <small> == 0:\n        result.append(x + <n>)",
        "result = []\nfor i in range(<big>):\n    result.append(i ** <small>)",
        "result = []\nfor word in <texts>:\n    result.append(word[:<small>].upper())",
        "result = {}\nfor word in words:\n    result[word] = len(word) * <n>",
    ),
    "input": choices(
        "a name,a number,two numbers,three words,an age,a temperature,a price,a password,a sentence,"
        "a year,a list of <things>,a list of <texts>"
    ),
    "output": (
        "prints it <small> times",
        "prints whether it is valid",
        "prints it in reverse",
        "prints a friendly message",
        "saves it to a file",
        "adds <n> and prints the result",
        "asks again when the input is empty",
        "prints its length",
        "prints it in upper case",
        "stops after <small> wrong tries",
    ),
    "file": choices("`notes.txt`,`data.csv`,`log.txt`,`scores.csv`,`users.json`,`words.txt`,`config.json`"),
    "file_task": (
        "prints the first <n> lines",
        "counts the lines that contain '<letter>'",
        "counts the lines longer than <big> characters",
        "prints <total> of the values in column <small>",
        "writes a copy without empty lines",
        "prints the number of lines and words",
        "sorts the lines and saves them",
    ),
    "how": choices(
        "reverse a list of <texts>,add an item to a list of <things>,"
        "loop over a dictionary of <things>,read a file line by line,"
        "format a number with <small> decimal places,split a string at every '<letter>',"
        "sort <texts> alphabetically,check if a key is in a dictionary of <texts>,catch a ValueError,"
        "repeat an action <n> times,get the last <n> characters of a string,"
        "make a set from a list of <texts>,round a float to <small> digits,join <texts> with spaces,"
        "generate <n> random numbers,zip <texts> with <things>,"
        "find the index of the smallest of some <things>"
    ),
}

TRAIN = {
    "write": "Write a Python function that <task>.",
    "write-with": "Write a Python function that <task>. <need>",
    "means": "Write a Python function that <task>. Use <means>.",
    "code": "Show me Python code that <task>. <need>",
    "named": "Implement the Python function <named>. <need1> <need2>",
    "class": "Write a Python class <class_spec>, and a method that <method>.",
    "explain": "Explain what this Python function does:\n\n```python\n<snippet>\n```",
    "fix": "Find and fix the mistake in this Python function:\n\n```python\n<bug>\n```",
    "test": "Write a unit test for a Python function that <task>.",
    "comprehension": "Rewrite this loop as a comprehension:\n\n```python\n<loop>\n```",
    "ask-user": "Write a Python program that asks the user for <input> and <output>.",
    "document": "Add a docstring and type hints to this function:\n\n```python\n<snippet>\n```",
    "script": "Write a Python script that reads <file> and <file_task>. <need>",
    "how": "In Python, how do I <how>? <need>",
    "two": "Write two Python functions: one that <task1>, and one that <task2>.",
}

HELD_OUT = {
    "please": "I need a function in Python. Given its input, it <task>. Please also show how to call it.",
    "define-class": "Define a class <class_spec> in Python. Give it `__init__`, `__str__` and a "
    "method that <method>.",
    "result": "What does this Python function return, and why?\n\n```python\n<snippet>\n```",
}

# Only training prompts draw from the wider words: the held-out texts never change.
TEMPLATES = templates("python", TRAIN, {}, {**RULES, **WIDE}) + templates(
    "python", {}, HELD_OUT, RULES
)

# SPDX-License-Identifier: Apache-2.0
"""More Python code to explain, repair, document, test, predict or rewrite."""

from vllm_dflash.train.prompt_templates import Rules, choices, templates
from vllm_dflash.train.prompt_templates_python_more import RULES as MORE_RULES

RULES: Rules = {
    **MORE_RULES,
    "f": choices(
        "compute,process,run,calculate,check,transform,solve,helper,convert,build,update,select,scan,"
        "reduce_all,pick_some,make,shape,score,rank,collect"
    ),
    "xs": choices("items,values,data,numbers,xs,entries,series,points"),
    "v": choices("x,value,item,entry,e,number"),
    "acc": choices("total,result,count,score,acc,output"),
    "op": choices("+,-,*"),
    "cmp": choices(">,>=,==,!="),
    "code": (
        "def <f>(<xs>):\n    <acc> = <n>\n    for <v> in <xs>:\n        if <v> <cmp> <mid>:\n            "
        "<acc> += <v> <op> <small>\n    return <acc>",
        "def <f>(<xs>):\n    return [<v> <op> <n> for <v> in <xs> if <v> % <small> == <tiny>]",
        "def <f>(text):\n    <acc> = {}\n    for c in text:\n        if c != '<letter>':\n            "
        "<acc>[c] = <acc>.get(c, <n>) + 1\n    return <acc>",
        "def <f>(n):\n    <acc> = []\n    while n > <small>:\n        <acc>.append(n % <n>)\n        n //= "
        "<tiny>\n    return <acc>",
        "def <f>(n):\n    if n < <small>:\n        return <n>\n    return <f>(n - <tiny>) <op> n",
        "def <f>(words):\n    best = ''\n    for word in words:\n        if word.count('<letter>') > "
        "best.count('<letter>') + <tiny>:\n            best = word\n    return best",
        "def <f>(<xs>, k=<n>):\n    <xs> = sorted(<xs>)\n    return <xs>[:k] + <xs>[-<small>:]",
        "def <f>(first, second=<mid>):\n    if first <cmp> second:\n        return first <op> <n>\n    "
        "return second <op> <small>",
        "def <f>(<xs>):\n    seen = set()\n    for <v> in <xs>:\n        if <v> % <n> in seen:\n           "
        " return <v>\n        seen.add(<v> % <n>)\n    return -<small>",
        "def <f>(limit):\n    i = <tiny>\n    while i < limit:\n        yield i <op> <n>\n        i += <small>",
        "class <kind>:\n    def __init__(self, start=<n>):\n        self.value = start\n\n    def "
        "step(self):\n        self.value = self.value <op> <small>\n        return self.value",
        "def <f>(<xs>):\n    for i in range(<tiny>, len(<xs>)):\n        <xs>[i] = <xs>[i - <tiny>] <op> "
        "<n>\n    return <xs>",
        "def <f>(path):\n    with open(path) as file:\n        lines = file.readlines()[<tiny>:<n>]\n    "
        "return [line.strip() for line in lines if '<letter>' in line]",
        "def <f>(pairs):\n    return {key: amount <op> <n> for key, amount in pairs if key.startswith('<letter>')}",
    ),
    "calls": (
        "<f> = <n>\nfor i in range(<small>):\n    <f> = <f> <op> i\nprint(<f>)",
        "<xs> = <example>\nprint(<xs>[<tiny>:])\nprint(len(<xs>) * <n>)",
        "<xs> = [<mid1>, <n>, <big>, <small>]\n<xs>.append(<mid2>)\n<xs>.sort()\nprint(<xs>[0], <xs>[-1])",
        "word = '<objects>'\nprint(word[<tiny>:].upper())\nprint(word.replace('<letter>', '*'))",
        "x, y = <mid>, <small>\nprint(x // y, x % y)\nprint(x <cmp> y)",
        "stock = {'<objects1>': <mid1>, '<objects2>': <mid2>}\nstock['<objects1>'] -= <small>\nprint(stock)",
        "print([i * <small> for i in range(<n>) if i % <tiny> == 0])",
        "<acc> = 0\nwhile <acc> < <big>:\n    <acc> += <n>\nprint(<acc>)",
        "names = ['<name1>', '<name2>', '<name3>']\nfor i, name in enumerate(names, <n>):\n    print(i, name)",
        "print('<letter1>' * <small> + '<letter2>')\nprint('<name>'.lower(), len('<city>'))",
    ),
    "wrong": (
        "def <f>(<xs>):\n    for <v> in <xs>:\n        <acc> = 0\n        <acc> += <v> <op> <n>\n    return <acc>",
        "def <f>(<xs>)\n    return max(<xs>) <op> <n>",
        "def <f>(n):\n    return <f>(n - <small>) + <n>",
        "def <f>(<xs>):\n    <acc> = []\n    for <v> in <xs>:\n        <acc>.add(<v> <op> <n>)\n    return <acc>",
        "def <f>(name, age):\n    print('Hello ' + name + ', in <n> years you are ' + age + <n>)",
        "def <f>(<xs>, <acc>=[]):\n    <acc>.append(len(<xs>) <op> <n>)\n    return <acc>",
        "<acc> = input('Number: ')\nif <acc> > <n>:\n    print('more than <n>')",
        "stock = {'<objects1>': <mid>}\nprint(stock['<objects2>'])",
        "<xs> = <example>\nfor i in range(1, len(<xs>) + <tiny>):\n    print(<xs>[i])",
        "def <f>(<xs>):\n    if len(<xs>) = <n>:\n        return True",
        "i = <n>\nwhile i > 0:\n    print(i)\n    i += <small>",
        "class <kind>:\n    def __init__(size):\n        self.size = size + <n>",
        "def <f>(<xs>):\n    return <xs>.sort()[<tiny>]",
        "def <f>(a, b):\n    print(a <op> b)\n\nresult = <f>(<n>, <mid>) + <small>",
    ),
    "error": choices(
        "IndexError: list index out of range,KeyError: '<objects>',ZeroDivisionError: division by zero,"
        "NameError: name '<f>' is not defined,TypeError: '<f>' object is not callable,"
        "ValueError: invalid literal for int() with base 10: '<objects>',"
        "IndentationError: unexpected indent,SyntaxError: invalid syntax on line <n>,"
        "FileNotFoundError: No such file or directory: '<objects>.txt',"
        "AttributeError: '<kind>' object has no attribute '<f>',ModuleNotFoundError: No module named '<f>',"
        "RecursionError in '<f>',UnboundLocalError: local variable '<acc>'"
    ),
    "concept": choices(
        "a list and a tuple,a set and a list,`==` and `is`,`append` and `extend`,a function and a method,"
        "a class and an object,a `for` loop and a `while` loop,`break` and `continue`,`return` and `print`,"
        "a generator and a list,`sort` and `sorted`,a module and a package,a local and a global variable,"
        "`/` and `//`,a mutable and an immutable type,`*args` and `**kwargs`,a shallow and a deep copy,"
        "a lambda and a def,`str` and `bytes`,`int` and `float`"
    ),
    "builtin": choices(
        "zip,enumerate,map,filter,sorted,reversed,any,all,sum,min,max,range,len,open,print,input,"
        "isinstance,round,abs,set,dict,tuple,str.join,str.split,str.strip,str.replace,list.insert,list.pop,"
        "dict.get,dict.items,collections.Counter,collections.defaultdict,itertools.chain,random.choice,"
        "random.shuffle,datetime.date,json.dumps,json.loads,pathlib.Path,re.findall,functools.reduce,"
        "math.sqrt,time.sleep"
    ),
    "ask": (
        "Explain in simple words.",
        "Go line by line.",
        "Answer in two sentences.",
        "Then show a corrected version.",
        "Be brief.",
        "Give an example call.",
        "Say what it returns for an empty input.",
        "Also suggest better names.",
    ),
    "rewrite_as": choices(
        "a list comprehension or generator,a class,a recursive function,a function without loops,"
        "a version with type hints,a shorter version,a version with clear names,"
        "a version with error handling,JavaScript,a version with a while loop,"
        "a version that prints each step,a version with a default argument"
    ),
}

TRAIN = {
    "explain-lines": "What happens in this code?\n\n```python\n<code>\n```\n\n<ask>",
    "explain-to": "Explain this Python code to <name>, a <job> who has never programmed.\n\n```python\n<code>\n```",
    "review": "Review my code:\n\n```python\n<code>\n```\n\nWhat could be better?",
    "docstring": "Write a docstring for this:\n\n```python\n<code>\n```",
    "comments": "Add a comment to every line of the code below.\n\n```python\n<code>\n```",
    "names": "The names in this code are bad. Rename the function and the variables.\n\n```python\n<code>\n```",
    "tests-for": "Write tests for the following code.\n\n```python\n<code>\n```\n\n<ask>",
    "rewrite-as": "Rewrite as <rewrite_as>:\n\n```python\n<code>\n```",
    "change": "Change this function so that it uses <n> instead of the first number in it:\n\n```python\n<code>\n```",
    "print": "What does this print?\n\n```python\n<calls>\n```",
    "print-steps": "Trace this program step by step and give its output:\n\n```python\n<calls>\n```",
    "to-function": "Put this code into a function with parameters.\n\n```python\n<calls>\n```",
    "bug-why": "My Python code does not work:\n\n```python\n<wrong>\n```\n\nWhat is wrong? <ask>",
    "bug-fix": "Correct this code. Show only the corrected code.\n\n```python\n<wrong>\n```",
    "bug-hint": "<name> wrote this and is stuck. Give a hint, then the solution.\n\n```python\n<wrong>\n```",
    "error": "Python says: `<error>`. What does that mean, and how do I fix it? <ask>",
    "error-example": "Show a short Python example that leads to `<error>`, and how to avoid it.",
    "concept": "Python question: what is the difference between <concept>? Show an example with <objects>. <ask>",
    "builtin": "How do I use `<builtin>` in Python? Show an example with <objects>. <ask>",
    "builtin-task": "Use `<builtin>` to process `<example>` in Python, and explain the result.",
}

TEMPLATES = templates("python", TRAIN, {}, RULES)

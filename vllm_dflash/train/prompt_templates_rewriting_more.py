# SPDX-License-Identifier: Apache-2.0
"""More texts to correct, shorten, restyle or convert."""

from vllm_dflash.train.prompt_templates import Rules, choices, templates
from vllm_dflash.train.prompt_templates_rewriting_texts import TEXTS

RULES: Rules = {
    **TEXTS,
    "target_format": choices(
        "JSON,YAML,XML,a Markdown table,CSV,plain English sentences,a bulleted list,a Python dictionary"
    ),
    "tense_name": choices('present tense,future tense,past perfect,present perfect,conditional with "would"'),
    "pronoun": choices("I,we,you,they"),
    "social": choices(
        "a tweet,a headline,a text message,a newspaper headline with a subtitle,a one-line caption,a haiku,"
        "a diary entry,a postcard,a classified ad,a short announcement"
    ),
    "part": choices("nouns,verbs,adjectives,names,places,numbers,prepositions"),
    "ending": choices("happy,sad,surprising,funny,mysterious,peaceful"),
    "style_of": choices(
        "a pirate,a news reporter,a fairy tale,a robot,a sports commentator,a scientist,a poet,"
        "a weather forecast,a detective,an advertisement,a legal document,a tour guide"
    ),
    "wide_case": choices("ALL CAPS,lower case,Title Case,snake_case,kebab-case"),
}

TRAIN = {
    "fix": "Fix this sentence: <messy>",
    "fix-many": "These lines are full of errors. Write them correctly.\n<messy1>\n<messy2>\n<messy3>\n<messy4>",
    "teacher": "You are an English teacher. Mark the mistakes in the following line and write it correctly: "
    '"<messy1>, and <messy2>."',
    "punctuate": "Add punctuation and capital letters: <raw1> <raw2> <raw3>",
    "punctuate-lines": "Put the right punctuation mark at the end of each line.\n<raw1>\n<raw2>\n<raw3>",
    "questions-from": "Turn every sentence into a question.\n<sentence1>\n<sentence2>",
    "negative": "Make these sentences negative: <sentence1> <sentence2>",
    "passive": "Passive voice, please: <name> <did> <thing>. <only>",
    "passive-list": "Change from active to passive:\n(a) The <job1> <did1> <thing1>.\n(b) <name> <did2> <thing2>.",
    "active": "Change to the active voice: The <adjective> <object> was <did> by <name> <when>. <only>",
    "into-tense": "<now1> <now2>\n\nPut this into the <tense_name>. <only>",
    "past-simple": "Rewrite in the simple past: <now1> <now2> <now3>",
    "to-present": "Retell this as if it were happening right now: <story>",
    "pronoun": 'Replace the subject of each sentence with "<pronoun>": <now1> <now2>',
    "reported": 'Write as reported speech: "<now>" said <name>.',
    "direct": "<name1> told <name2> about it. Write what was said as a dialogue between the two: <story>",
    "formal-to": "Make this less stiff, for <reader>: <formal1> <formal2>",
    "casual-to": "The text below is too casual for an office. Improve it.\n\n<chat1>\n<chat2>",
    "tone-line": 'Say this in a <mood> tone: "<sentence>"',
    "tones-two": 'Give a <mood1> and a <mood2> version of: "<formal>"',
    "voice-of": "Rewrite in the style of <style_of>: <sentence1> <sentence2>",
    "for-reader": "Explain the same thing to <reader>: <formal>",
    "simple-words": "Use simpler words: <formal1> <wordy>",
    "concise": "Make this more concise. <wordy> <only>",
    "concise-two": "Cut the unnecessary words.\n\n1) <wordy1>\n2) <wordy2>",
    "short-to": "In <limit>: <long_story>",
    "gist": "What is the main point here? <formal1> <formal2> <sentence>",
    "tldr": "<long_story>\n\nTL;DR:",
    "expand": "Expand this into a paragraph of about five sentences: <sentence>",
    "details": 'Add details about the place and the weather: "<sentence>" <only>',
    "adjectives": "Add at least one adjective to every noun: <sentence>",
    "notes-to-text": "Write a paragraph from these notes:\n<notes>",
    "notes-to-mail": "Use the notes to write an email to <name>.\n\nNotes:\n<notes>",
    "notes-to-message": "Make one friendly text message out of this:\n<notes>",
    "text-to-points": "Break this up into bullet points: <long_story>",
    "text-to-steps": "Number the events in the order in which they happen: <long_story>",
    "social": "Turn this into <social>: <sentence1> <sentence2>",
    "headline": "Find a headline for this news item: <facts_text> <sentence>",
    "subject-line": 'Suggest a subject line for this email: "<formal1> <formal2>"',
    "json-from": "Extract the information as JSON: <facts_text>",
    "fields": 'List every fact in this text as "key: value".\n\n<facts_text>',
    "csv-json": "Here is a CSV file. Give me the same data as JSON.\n\n<csv>",
    "json-csv": "Write this JSON as CSV with a header line:\n<json>",
    "json-text": "Describe this data in full sentences: <json>",
    "json-table": "Show as a Markdown table: <json>",
    "md-to": "Convert to <target_format>:\n\n<markdown>",
    "kv-sentence": "Make one sentence out of this record:\n<key_values>",
    "kv-to": "Record:\n<key_values>\n\nConvert it to <target_format>.",
    "sort-rows": "Sort these lines by the last column:\n\n<csv>",
    "find-words": "Copy all <part> from this text into a list: <story>",
    "swap-name": "Replace <name1> with <name2> and <objects1> with <objects2>: <name1> had <mid> <objects1>. "
    "<name1> <did> <thing> <when> and gave the <objects1> to the <job>.",
    "case": "Write in <wide_case>: <raw>",
    "join": 'Connect with "because", "but" or "so": <sentence1> <sentence2>',
    "split": "Split this long sentence into short ones: <name1> <did1> <thing1> <where> and then <did2> "
    "<thing2>, while <name2> <did_alone>, <because>.",
    "continue": "Continue the story with two more sentences and a <ending> ending: <story>",
    "opening": "Write a better first sentence for this story: <story>",
    "answer-mail": "Reply politely to this email and say that you agree: <formal1> <formal2>",
    "decline": 'Write a <mood> reply that says no: "<chat>"',
    "apology": "Turn this complaint into a <mood> one: the <object> that I bought at the <place> on <day> is "
    "<adjective>, and the <job> did not help me!!!",
    "paraphrase": "Paraphrase in <limit>: <formal> <only>",
    "other-words": "Say it with different words: <sentence1> <sentence2> <only>",
}

TEMPLATES = templates("rewriting", TRAIN, {}, RULES)

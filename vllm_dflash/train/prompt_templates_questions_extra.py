# SPDX-License-Identifier: Apache-2.0
"""More short questions: places, words, true or false, what if, choices and advice."""

from vllm_dflash.train.prompt_templates import Rules, choices, templates
from vllm_dflash.train.prompt_templates_questions_more import RULES as MORE_RULES

RULES: Rules = {
    **MORE_RULES,
    "what_if": choices(
        "the sun did not shine for a week,there were no bees,the moon disappeared,"
        "everyone spoke the same language,the ice at the poles melted,people did not need sleep,"
        "there was no electricity for a month,all cars were electric,plants stopped growing,"
        "the earth turned faster,gravity were weaker,it never rained,you mix oil and water,"
        "you put an egg in vinegar,you heat ice,you leave milk in the sun,you plant a bean in the dark,"
        "you touch a hot pan,you drop a feather on the moon,you shake a bottle of soda,"
        "a plant gets too much water,a phone falls into water,you add salt to boiling water,"
        "you freeze a full bottle,you eat too much sugar,you skip breakfast,a company loses money,"
        "prices rise quickly,a country prints too much money,nobody votes in an election,"
        "a tree is cut down,a river dries up,you stay in the sun too long,you forget your password,"
        "two magnets meet,you blow on a candle,you mix blue and yellow paint,you rub your hands,"
        "a volcano erupts,the wind stops while you sail"
    ),
    "claim": choices(
        "Whales are fish,The sun is a star,Bats are blind,Water boils at 100 degrees Celsius at sea level,"
        "Spiders are insects,The Great Wall of China is in Japan,"
        "Lightning never strikes the same place twice,A tomato is a fruit,Humans have four lungs,"
        "Penguins live at the North Pole,Gold is heavier than aluminum,Sound travels faster than light,"
        "The Amazon is a river,Mount Everest is in Africa,Sharks are mammals,Honey can spoil easily,"
        "Diamonds are made of carbon,Venus is the closest planet to the sun,Owls can turn their heads far,"
        "Goldfish remember nothing,Bananas are berries,An octopus has three hearts,Iron is a gas,"
        "The heart pumps blood,Plants breathe in oxygen only,Brazil is in Europe,"
        "Chess was invented in America,Paris is the capital of France,Bread is made from flour,"
        "A year has 52 weeks,All metals are magnetic,Snakes have bones,Glass is made from sand,"
        "The Pacific is the largest ocean,Dolphins sleep with one half of the brain,"
        "Camels store water in their humps,Mars is called the red planet,A square is a rectangle,"
        "Zero is an even number,One is a prime number"
    ),
    "place_fact": choices(
        "capital,official language,currency,national dish,largest city,flag,climate,highest mountain,"
        "longest river,national holiday,form of government,most popular sport,main export,"
        "neighboring countries"
    ),
    "problem": choices(
        "my phone battery is empty quickly,I cannot sleep,my plant has yellow leaves,"
        "my bread does not rise,my computer is slow,I always forget names,my shoes smell,"
        "my window is foggy,my cat does not eat,I get nervous before exams,my neighbor is loud,"
        "I have too much homework,my bike chain is rusty,I burned the rice,my soup is too salty,"
        "I spilled coffee on my shirt,I lost my keys,my friend is sad,I am often late,"
        "my back hurts after work,my password was stolen,I have hiccups,my milk smells strange,"
        "the sink is blocked,my room is too hot,I am bored,I missed my train,my printer does not print,"
        "my dog barks at night,I cut my finger"
    ),
    "option": choices(
        "tea or coffee,a cat or a dog,a bus or a bicycle,a book or a film,the sea or the mountains,"
        "the morning or the evening,summer or winter,a city or a village,a laptop or a tablet,"
        "cash or a card,a letter or an email,a car or a train,running or swimming,butter or oil,"
        "a house or an apartment,paper or plastic,a pen or a pencil,rice or potatoes,a hotel or a tent,"
        "the piano or the guitar"
    ),
    "situation": choices(
        "a student with little time,a family with two children,a person who lives alone,"
        "someone on a tight budget,an office worker,a long journey,a small kitchen,a hot day,a rainy week,"
        "an older person,a beginner,a big group"
    ),
    "choose": (
        "What is bigger: <animal_a> or <animal_b>? <brief>",
        "Which is faster, <animal_a> or <animal_b>? <brief>",
        "Who lives longer: <animal_a> or <animal_b>? <brief>",
        "Which is more dangerous for people, <animal_a> or <animal_b>? <brief>",
    ),
    "animal_a": ("a <animal>",),
    "animal_b": ("a <animal>",),
    "animal_fact": choices(
        "sleep,hunt,protect itself,find food,raise its young,communicate,stay warm,move,survive in winter,"
        "see in the dark"
    ),
    "sense": choices(
        "synonym,antonym,rhyme,simple definition,word from the same family,translation into Spanish,"
        "translation into French,translation into German"
    ),
    "genre": choices(
        "one-sentence fact,riddle,short joke,two-line poem,fun fact,simple question with its answer,"
        "short dialogue,mini story of three sentences"
    ),
    "thing": choices(
        "bread,cheese,chocolate,yogurt,honey,pasta,tofu,paper,glass,soap,ice cream,jam,steel,rubber,wool,"
        "silk,leather,sugar,salt,olive oil,vinegar,concrete,bricks,plastic,gasoline,tea,coffee,rice,"
        "candles,pencils,coins,pottery,perfume,maple syrup,peanut butter,soy sauce,mustard,beer,raisins,"
        "popcorn"
    ),
}

TRAIN = {
    "what-if": "What would happen if <what_if>? <brief>",
    "predict": "Suppose that <what_if>. Describe <length> what follows from that.",
    "true-false": "True or false: <claim>. <brief>",
    "who-is-right": '<name1> says: "<claim>." <name2> does not agree. Who is right? <brief>',
    "two-claims": "Decide for each statement whether it is true:\n1. <claim1>.\n2. <claim2>.\n3. <claim3>.",
    "place-quick": "<country>: <place_fact>? <brief>",
    "place-three": "Tell me the <place_fact1>, the <place_fact2> and the <place_fact3> of <country>.",
    "two-countries": "How do <country1> and <country2> differ in their <place_fact>? <brief>",
    "which-country": "In which country is <city>, and what is the city known for? <brief>",
    "where-is": "Where is <country>, and which language is spoken there? <brief>",
    "how-far": "Which is farther north, <city1> or <city2>? <brief>",
    "visit": "Is <month> a good time to visit <city>? <brief>",
    "word-help": 'Give me a <sense> for the word "<word>" and use it in a sentence.',
    "use-word": 'Use the words "<word1>" and "<word2>" in one sentence about a <job>.',
    "translate": 'How do you say "<noun>" in <language>?',
    "translate-many": "Translate these words into <language>: <noun1>, <noun2>, <noun3>.",
    "idiom": 'What does the saying "<idiom>" mean? Explain it to <audience>. <brief>',
    "idiom-use": '<name>, a <job>, says: "<idiom>". In which situation could that be? <brief>',
    "plural": 'What is the plural of "<noun>"? Write a sentence with it and the word "<word>".',
    "animal-how": "How does a <animal> <animal_fact>? <brief>",
    "animal-choose": "<choose>",
    "animal-group": "Is a <animal> a mammal, a bird, a reptile, a fish or something else? <brief>",
    "zoo": "<name> saw a <animal1> and a <animal2> at the zoo. What can you say about them? <brief>",
    "advice": "What should I do when <problem>? I am a <job>. <brief>",
    "friend-problem": 'My friend <name> told me: "<problem>." What advice would you give?',
    "choice": "<option>: which is better for <situation>, and why? <brief>",
    "origin": "Where does <thing> come from, and how is it made? <brief>",
    "since-when": "Since when have people known <thing>? <brief>",
    "write-about": "Write a <genre> about <thing> for <audience>.",
    "genre-animal": "Write a <genre> about a <animal> and a <job>.",
    "become": "How does a person become a <job>? <brief>",
    "job-compare": "What is harder, being a <job1> or being a <job2>? <brief>",
    "where-work": "Does a <job> work at a <place>? <brief>",
    "place-for": "Why do people go to a <place> in <city>? <brief>",
    "greeting": "Hi, I am <name> from <city>. What is <term>?",
    "fill-in": 'Fill in the blank and explain your choice: "A <job> often uses ____ at the <place>."',
}

TEMPLATES = templates("questions", TRAIN, {}, RULES)

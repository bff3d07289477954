# SPDX-License-Identifier: Apache-2.0
"""Wider slot fillers, for training templates only: the held-out ones keep theirs, and so their texts."""

from vllm_dflash.train.prompt_templates import Rules, choices
from vllm_dflash.train.prompt_templates_words import FIRST_NAMES, WORDS

NAMES = FIRST_NAMES + choices(
    ""
    "Aisha,Alan,Alice,Amara,Andre,Angela,Anita,Arthur,Astrid,Bella,Boris,Brenda,Caleb,Camila,Carlos,Celia,Chloe,Claire,Colin,Dana,David,Deepa,Dora,Dylan,Edith,Eli,Ella,Emil,Esther,Ethan,Eva,Farid,Fiona,Frank,Freya,Gabriel,George,Gina,Greta,Gustav,Hannah,Harold,Helen,Henry,Ibrahim,Ida,Isaac,Isabel,Jade,James,Jasmine,Joel,John,Joy,Kai,Karen,Kate,Kenji,Kevin,Laila,Laura,Leila,Liam,Linda,Louis,Lucy,Luis,Magnus,Malik,Marco,Marta,Martin,Megan,Mei,Michael,Mira,Monica,Nathan,Neil,Nina,Oliver,Otto,Pablo,Patrick,Pedro,Petra,Philip,Quinn,Rachel,Rafael,Raj,Rania,Rebecca,Robert,Robin,Ruben,Sandra,Sasha,Sebastian,Selma,Simon,Stella,Susan,Sven,Tamara,Tariq,Thomas,Tina,Umar,Ursula,Valentina,Vikram,Violet,Walter,Wendy,William,Xavier,Yasmin,Yusuf,Zara"
)

OBJECTS = choices(
    "apples,oranges,pencils,notebooks,stickers,marbles,books,cookies,stamps,shells,coins,cards,"
    "balloons,buttons,candles,flowers,toy cars,postcards,photos,beads,peaches,muffins,crayons,magnets,"
    "puzzle pieces,lemons,sandwiches,tickets,bottles,eggs,tomatoes,plums,ribbons,paper clips,"
    "tennis balls,envelopes,bananas,mangoes,walnuts,carrots,potatoes,onions,badges,keys,plates,cups,"
    "spoons,napkins,socks,hats,scarves,gloves,pebbles,feathers,leaves,acorns,screws,bolts,bricks,tiles,"
    "light bulbs,batteries,folders,rulers,erasers,markers,brushes,posters,magazines,comics,dice,"
    "toy trains,dolls,kites,paper planes,pancakes,doughnuts,cherries,grapes,melons,seeds,tulips,chairs,"
    "blankets,pillows,towels,jars,baskets,boxes,bracelets,necklaces,rings,medals,whistles,drums,bells,"
    "lanterns,umbrellas"
)

MORE_WORDS: Rules = {
    **WORDS,
    "name": NAMES,
    "objects": OBJECTS,
    "city": choices(
        "Paris,London,Rome,Madrid,Berlin,Tokyo,Cairo,Lima,Oslo,Vienna,Dublin,Lisbon,Prague,Athens,Sydney,"
        "Toronto,Boston,Chicago,Nairobi,Seoul,Amsterdam,Ankara,Auckland,Bangkok,Barcelona,Beijing,Bogota,"
        "Brussels,Budapest,Buenos Aires,Cape Town,Copenhagen,Delhi,Denver,Dubai,Edinburgh,Florence,Geneva,"
        "Hamburg,Hanoi,Havana,Helsinki,Istanbul,Jakarta,Kyoto,Lagos,Manila,Marrakesh,Melbourne,Mexico City,"
        "Miami,Milan,Montreal,Mumbai,Munich,Naples,New York,Osaka,Porto,Quito,Reykjavik,Riga,San Francisco,"
        "Santiago,Seattle,Shanghai,Singapore,Stockholm,Tallinn,Vancouver,Venice,Warsaw,Wellington,Zagreb,"
        "Zurich"
    ),
    "country": choices(
        "France,Spain,Italy,Germany,Japan,Egypt,Peru,Norway,Austria,Ireland,Portugal,Greece,Australia,"
        "Canada,Kenya,Brazil,India,China,Mexico,Sweden,Poland,Turkey,Argentina,Finland,Thailand,Morocco,"
        "Chile,Denmark,Cuba,Iceland,Algeria,Bangladesh,Belgium,Bolivia,Bulgaria,Cambodia,Colombia,Croatia,"
        "Ecuador,Estonia,Ethiopia,Ghana,Hungary,Indonesia,Iran,Israel,Jamaica,Jordan,Latvia,Lebanon,"
        "Lithuania,Madagascar,Malaysia,Mongolia,Nepal,New Zealand,Nigeria,Pakistan,Panama,Romania,Russia,"
        "Saudi Arabia,Senegal,Serbia,Singapore,Slovakia,Slovenia,South Africa,South Korea,Sri Lanka,"
        "Switzerland,Tanzania,Tunisia,Ukraine,Uruguay,Venezuela,Vietnam"
    ),
    "animal": choices(
        "dog,cat,horse,elephant,penguin,dolphin,owl,bee,spider,frog,lion,whale,rabbit,turtle,shark,bear,"
        "fox,eagle,snake,kangaroo,giraffe,bat,wolf,parrot,ant,cow,pig,sheep,goat,chicken,duck,goose,mouse,"
        "squirrel,hedgehog,beaver,otter,seal,octopus,crab,lobster,jellyfish,salmon,tiger,leopard,cheetah,"
        "zebra,hippo,rhino,gorilla,monkey,panda,koala,camel,llama,deer,moose,bison,crow,swan,flamingo,"
        "pelican,hummingbird,woodpecker,lizard,crocodile,butterfly,ladybug,grasshopper,snail,worm,scorpion,"
        "donkey,hamster,raccoon,skunk,badger,sloth,ostrich"
    ),
    "job": choices(
        "teacher,nurse,carpenter,chef,gardener,pilot,librarian,farmer,engineer,dentist,baker,journalist,"
        "plumber,photographer,architect,musician,mechanic,lawyer,waiter,scientist,doctor,firefighter,"
        "electrician,painter,tailor,butcher,hairdresser,accountant,translator,programmer,cashier,janitor,"
        "police officer,bus driver,taxi driver,sailor,fisherman,veterinarian,pharmacist,surgeon,judge,"
        "actor,dancer,singer,writer,editor,designer,secretary,receptionist,tour guide,flight attendant,"
        "postal worker,security guard,sales clerk,social worker,psychologist,biologist,chemist,astronomer,"
        "geologist,historian,economist,florist,jeweler,shoemaker,welder,bricklayer,roofer,coach,referee"
    ),
    "place": choices(
        "bakery,library,school,farm,museum,bookshop,garden center,hotel,factory,sports club,supermarket,"
        "theater,cafe,zoo,toy store,hospital,bank,post office,airport,train station,gym,swimming pool,park,"
        "restaurant,pharmacy,hardware store,cinema,art gallery,university,kindergarten,campsite,harbor,"
        "town hall,community center,music school,flower shop,pet shop,ice rink,aquarium,playground,market,"
        "workshop,shoe store,ski resort"
    ),
    "nth": choices("third,fourth,fifth,sixth,seventh,eighth,ninth"),
    "tiny": range(2, 7),
    "teen": range(11, 20),
    "tens": range(20, 100, 10),
    "hundreds": range(120, 990, 10),
    "thousands": range(1100, 9900, 50),
    "cents": choices("05,10,15,20,25,30,40,50,60,75,80,90,95,99"),
    "year": range(1850, 2024),
    "clock": [
        f"{hour}:{minute:02d} {half}" for half in ("am", "pm") for hour in range(1, 12) for minute in range(0, 60, 5)
    ],
    "brief": (
        "Answer in one sentence.",
        "Keep it short.",
        "Be brief.",
        "Explain in two or three sentences.",
        "Use simple words.",
        "Give an example.",
        "Give a short explanation.",
        "A short answer is enough.",
        "Answer in a short paragraph.",
        "Write no more than four sentences.",
    ),
}

WIDE: Rules = {word: MORE_WORDS[word] for word in ("name", "objects", "city", "country", "animal", "job")}

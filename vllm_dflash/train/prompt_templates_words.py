# SPDX-License-Identifier: Apache-2.0
"""Slot fillers that several categories share."""

from vllm_dflash.train.prompt_templates import Rules, choices

FIRST_NAMES = choices(
    "Ada,Amir,Anna,Ben,Bruno,Carla,Chen,Clara,Daniel,Diana,Elena,Emma,Erik,Fatima,Felix,Grace,Hana,"
    "Hugo,Ines,Ivan,Jack,Jana,Jonas,Julia,Karim,Kofi,Lara,Leo,Lina,Lucas,Maria,Maya,Mia,Milan,Nadia,"
    "Noah,Nora,Olga,Omar,Oscar,Paul,Priya,Rosa,Ruth,Sam,Sara,Sofia,Tara,Theo,Tom,Uma,Vera,Victor,Wei,"
    "Yara,Yuki,Zoe,Hassan,Irene,Mateo"
)

WORDS: Rules = {
    "name": FIRST_NAMES,
    "objects": choices(
        "apples,oranges,pencils,notebooks,stickers,marbles,books,cookies,stamps,shells,coins,cards,"
        "balloons,buttons,candles,flowers,toy cars,postcards,photos,beads,peaches,muffins,crayons,"
        "magnets,puzzle pieces,lemons,sandwiches,tickets,bottles,eggs,tomatoes,plums,ribbons,"
        "paper clips,tennis balls"
    ),
    "place": choices(
        "a bakery,a library,a school,a farm,a museum,a bookshop,a garden center,a hotel,a factory,"
        "a sports club,a supermarket,a theater,a cafe,a zoo,a toy store"
    ),
    "day": choices("Monday,Tuesday,Wednesday,Thursday,Friday,Saturday,Sunday"),
    "month": choices("January,February,March,April,May,June,July,August,September,October,November,December"),
    "city": choices(
        "Paris,London,Rome,Madrid,Berlin,Tokyo,Cairo,Lima,Oslo,Vienna,Dublin,Lisbon,Prague,Athens,"
        "Sydney,Toronto,Boston,Chicago,Nairobi,Seoul"
    ),
    "country": choices(
        "France,Spain,Italy,Germany,Japan,Egypt,Peru,Norway,Austria,Ireland,Portugal,Greece,"
        "Australia,Canada,Kenya,Brazil,India,China,Mexico,Sweden,Poland,Turkey,Argentina,Finland,"
        "Thailand,Morocco,Chile,Denmark,Cuba,Iceland"
    ),
    "animal": choices(
        "dog,cat,horse,elephant,penguin,dolphin,owl,bee,spider,frog,lion,whale,rabbit,turtle,shark,"
        "bear,fox,eagle,snake,kangaroo,giraffe,bat,wolf,parrot,ant"
    ),
    "job": choices(
        "teacher,nurse,carpenter,chef,gardener,pilot,librarian,farmer,engineer,dentist,baker,"
        "journalist,plumber,photographer,architect,musician,mechanic,lawyer,waiter,scientist"
    ),
    "small": range(3, 10),
    "mid": range(11, 40),
    "big": range(42, 99),
    "count_word": choices("three,four,five,six,seven,eight,ten"),
}

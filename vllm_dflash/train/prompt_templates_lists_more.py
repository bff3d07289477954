# SPDX-License-Identifier: Apache-2.0
"""More answers that are lists: things, steps, ideas, plans, comparisons."""

from vllm_dflash.train.prompt_templates import Rules, choices, templates
from vllm_dflash.train.prompt_templates_words_more import MORE_WORDS

RULES: Rules = {
    **MORE_WORDS,
    "count_word": choices("three,four,five,six,seven,eight,nine,ten,twelve"),
    "things": choices(
        "mammals,reptiles,fish,birds of prey,sea creatures,nocturnal animals,extinct animals,"
        "trees with needles,wild flowers,herbs,root vegetables,tropical fruits,berries,nuts,grains,"
        "dairy products,cheeses,soups,sauces,salads,street foods,desserts,sandwiches,cold drinks,"
        "string instruments,wind instruments,percussion instruments,team sports,water sports,"
        "Olympic sports,card games,puzzles,outdoor games,hand tools,power tools,garden tools,"
        "kitchen appliances,pieces of cutlery,cleaning products,things in a bathroom,"
        "things in a pencil case,vehicles with two wheels,parts of a car,parts of a bicycle,"
        "parts of a computer,parts of a plant,organs of the human body,bones,senses,vitamins,minerals,"
        "gases,metals,precious stones,fabrics,shoes,hats,pieces of jewelry,kinds of weather,clouds,"
        "natural disasters,landforms,deserts,islands,lakes,oceans,volcanoes,national parks,world wonders,"
        "ancient civilizations,inventions,explorers,composers,novelists,poets,film directors,fairy tales,"
        "myths,book genres,film genres,newspaper sections,punctuation marks,parts of speech,"
        "irregular verbs,file formats,computer viruses,web browsers,operating systems,sorting algorithms,"
        "data structures,design patterns,emotions,virtues,bad habits,holidays,school supplies,toys,pets,"
        "jobs outdoors,jobs with animals,means of communication,sources of energy,ways to pay,"
        "shapes with straight sides,units of weight,currencies,religious buildings,kinds of houses,"
        "rooms in a house,building materials"
    ),
    "quality": choices(
        "common,popular,useful,well-known,unusual,interesting,different,typical,cheap,healthy,traditional,"
        "famous,simple,surprising,large,small,old,modern,colorful,important"
    ),
    "task": choices(
        "make a cup of coffee,bake bread,wash dishes by hand,iron a shirt,plant tomatoes,"
        "write a thank-you letter,hang a picture,make pancakes,change a light bulb,build a campfire,"
        "mop a floor,learn the guitar,teach a dog to sit,plan a wedding,apply for a job,make compost,"
        "sort old photos,fold a paper boat,cook pasta,fix a flat bicycle tire,prepare for a math test,"
        "make a monthly budget,write a poem,sew on a button,make lemonade,set up a new phone,"
        "create a strong password,give first aid for a small cut,clean a fish tank,pack a suitcase,"
        "choose a used car,take a portrait photo,start a podcast,make a snowman,grow herbs indoors,"
        "open a bank account,wrap a present,knit a scarf,read a map,use a library,send a parcel,"
        "carve a pumpkin,polish shoes,set a table,make ice cubes with fruit,remove a coffee stain,"
        "unclog a sink,paint a fence,build a birdhouse,run a first 5K,do a push-up correctly,"
        "write a resume,record a song,host a dinner,book a flight,rent an apartment,return a product,"
        "print a document,install a smoke alarm,defrost a freezer"
    ),
    "trip": choices(
        "a weekend at the beach,a camping trip,a ski holiday,a business trip,a long flight,"
        "a hike in the mountains,a school trip,a road trip,a picnic,a music festival,a boat tour,"
        "a city break,a bicycle tour,a stay in a cabin,a fishing trip,a safari,a train journey,"
        "a night at a friend's house,a trip with a baby,a trip with a dog,a rainy hike,a desert tour,"
        "a study year abroad,a hospital stay,a day at a theme park,a diving course"
    ),
    "occasion": choices(
        "a birthday party,a rainy afternoon,a first date,a family dinner,a team meeting,a school project,"
        "a summer vacation,a wedding,a housewarming,a gift for a teacher,a weekend alone,"
        "a class presentation,a charity event,a game night,a small balcony,a science fair,a costume party,"
        "a blog about food,a short film,a painting,a podcast episode,a vegetable garden,a street festival,"
        "a bake sale,a retirement party,an anniversary,a baby shower,a school play,a fundraiser,"
        "a book club,a mobile app,a small business,a healthy lunch box,a bedtime story,a mural,"
        "a new year's resolution"
    ),
    "subject": choices(
        "working from home,living in a big city,owning a dog,cycling to work,online learning,"
        "a vegetarian diet,public transport,e-books,buying a used car,cooking at home,part-time work,"
        "owning a house,studying abroad,solar panels,online shopping,video games,keeping a diary,"
        "getting up early,small towns,school uniforms,electric cars,social media,night shifts,homework,"
        "zoos,nuclear power,credit cards,remote meetings,fast food,tourism,space travel,paper books,"
        "smartphones in class,freelancing,team sports,living alone,living with roommates,air travel,"
        "gardening,plastic packaging,robots in factories,a four-day week,long holidays,open offices,"
        "city parks,learning two languages,fasting,meditation"
    ),
    "business": choices(
        "bakery,coffee shop,bookstore,flower shop,bicycle repair shop,pet store,yoga studio,toy store,"
        "hair salon,ice cream shop,garden center,music school,cleaning company,travel agency,"
        "pizza restaurant,tea house,sailing school,robot company,hiking club,food truck,"
        "phone app for runners,newspaper for kids,rock band,board game,cat cafe,chess club,soap brand,"
        "science museum,dance studio,farm shop,language school,wooden toy maker"
    ),
    "pet_or_hero": choices(
        "a shy dragon,a clever cat,a brave knight,a robot,a puppy,a goldfish,a pirate,a detective,a witch,"
        "a space captain,an old horse,a talking tree,a baby elephant,a parrot,a king,a magic sword,a ship,"
        "a planet,a secret island,a village in the mountains"
    ),
    "meal": choices(
        "vegetable soup,fried rice,pancakes,spaghetti with tomato sauce,fruit salad,an omelet,"
        "chicken curry,tacos,banana bread,potato salad,lentil stew,pizza,apple pie,noodles,oatmeal,lasagna,"
        "sushi,chili,hummus,guacamole,French toast,a smoothie,mashed potatoes,cornbread,a burger,"
        "pumpkin soup,chocolate mousse,granola,stuffed peppers,paella,dumplings,a cheesecake,garlic bread,"
        "coleslaw"
    ),
    "habit": choices(
        "sleep better,stay healthy,save water,save energy,reduce waste,learn faster,stay focused,"
        "reduce stress,eat better,make friends,be on time,read more,exercise at home,write clearly,"
        "remember names,be a good neighbor,protect their eyes,speak in public,stop biting nails,"
        "spend less money,drink more water,keep the house tidy,use the phone less,sit straight,"
        "learn vocabulary,wake up early,take better notes,handle criticism,get over a cold,"
        "stay warm in winter,stay cool in summer,overcome shyness"
    ),
    "person": choices(
        "a student,a child,a busy parent,a beginner,a retired person,a tourist,an office worker,a teenager,"
        "a runner,a new employee,a night worker,a teacher,a young couple,a small team,"
        "a person with little money,an older neighbor,a first-time cook"
    ),
    "style": (
        "Use a numbered list.",
        "Use bullet points.",
        "One line each.",
        "Keep each item short.",
        "Number them.",
        "No introduction, just the list.",
        "Add a short reason to each.",
        "Start each with a verb.",
        "Sort them by importance.",
        "Put the best one first.",
    ),
}

TRAIN = {
    "plain-list": "<count_word> <quality> <things>, please. <style>",
    "table-of": "Make a table with <count_word> <things> and one fact about each.",
    "can-you-name": "Can you name <count_word> <things>? <style>",
    "letter-things": "Think of <count_word> <things> and sort them alphabetically.",
    "odd-things": "I know only two <things>. Tell me <count_word> more. <style>",
    "two-kinds": "Give me a list of <count_word> <things1> and a list of <count_word> <things2>.",
    "instructions": "Step-by-step instructions: how can <person> <task>? <style>",
    "checklist": "Create a checklist with <count_word> points for <person> who wants to <task>.",
    "mistakes": "What mistakes do people often make when they <task>? List <count_word>.",
    "need-for": "What do I need in order to <task>? Make a list. <style>",
    "first-steps": "I want to <task> on <day> but I don't know where to begin. What are the first <count_word> steps?",
    "recipe": "Write a simple recipe for <meal> for <small> people with <count_word> ingredients and numbered steps.",
    "shopping-list": "I am cooking <meal1> and <meal2> for <small> guests. What should be on my shopping list?",
    "menu": "Plan a menu for <day> with breakfast, lunch and dinner. It should include <meal>. <style>",
    "week-menu": "Make a meal plan from <day1> to <day2> for <person>. <style>",
    "serve-with": "What goes well with <meal>? Suggest <count_word> side dishes or drinks. <style>",
    "bag": "<name> is going on <trip> in <month>. What should be in the bag? <style>",
    "forget": "What do people often forget to pack for <trip>? Name <count_word> things. <style>",
    "itinerary": "Plan <count_word> days in <city> for <person>. One short paragraph for each day.",
    "rainy-city": "It is raining in <city>. List <count_word> things to do indoors with <person>.",
    "country-list": "List <count_word> things that <country> is known for. <style>",
    "brainstorm": "Let's brainstorm: <count_word> ideas for <occasion> with a budget of $<hundreds>.",
    "themes": "Suggest <count_word> themes for <occasion>. <style>",
    "gift": "What could I give a <job> as a present? <count_word> ideas, none above $<tens>.",
    "questions-guest": "Prepare <count_word> interview questions for <name>, a <job> from <city>. <style>",
    "quiz": "Write a quiz with <count_word> questions about <things>. Put the answers at the end.",
    "name-story": "Suggest <count_word> names for <pet_or_hero> in a story. <style>",
    "slogans": "Write <count_word> short slogans for a <business> in <city>.",
    "business-plan": "What does someone need to open a <business>? List <count_word> points. <style>",
    "arguments": "Write <count_word> arguments for and <count_word> arguments against <subject>.",
    "drawbacks": "What could be bad about <subject>? <count_word> points. <style>",
    "benefits-for": "How does <person> benefit from <subject>? Make a list of <count_word> points.",
    "debate": "Prepare me for a debate about <subject>: <count_word> points that I could make, each with an example.",
    "tips-avoid": "<count_word> things to avoid if you want to <habit>. <style>",
    "plan-week": "Make a plan for one week that helps <person> <habit>. One line for each day.",
    "rules": "Write <count_word> rules for a <place>. <style>",
    "jobs-at": "Which people work at a <place>? List <count_word> and say what each does.",
    "tools-of": "What tools does a <job> use? Name <count_word>. <style>",
    "skills": "List <count_word> skills that a good <job> has. <style>",
    "day-of": "Describe the day of a <job> in <city> as a list of <count_word> times and activities.",
    "animal-facts": "Tell me <count_word> facts about the <animal>. <style>",
    "animal-compare": "Make a list of similarities and a list of differences: <animal1> and <animal2>.",
    "months": "List <count_word> things that happen in <country> in <month>. <style>",
    "goals": "Write <count_word> goals for <month> for <person> who wants to <habit>.",
    "chores": "Divide <count_word> chores at the <place> among <name1>, <name2> and <name3>.",
    "agenda": "Write an agenda for a meeting about <subject> that starts at <clock>. <style>",
    "timeline": "Make a timeline for <name>, who has to <task1> and <task2> before <day>.",
}

TEMPLATES = templates("lists", TRAIN, {}, RULES)

# SPDX-License-Identifier: Apache-2.0
"""More short questions: science, how things work, history, places, language, everyday advice."""

from vllm_dflash.train.prompt_templates import Rules, choices, templates
from vllm_dflash.train.prompt_templates_questions import RULES as FIRST_RULES
from vllm_dflash.train.prompt_templates_words_more import MORE_WORDS

RULES: Rules = {
    **MORE_WORDS,
    "two_alike": FIRST_RULES["two_alike"],
    "term": choices(
        "osmosis,erosion,a tsunami,a hurricane,an eclipse,a black hole,a galaxy,an asteroid,radiation,"
        "nuclear fusion,an electron,a proton,an acid,a base,a catalyst,combustion,condensation,density,"
        "pressure,velocity,acceleration,momentum,inertia,a lever,a pulley,a prism,a lens,a laser,a magnet,"
        "static electricity,a circuit,a transistor,a semiconductor,DNA,a gene,a chromosome,evolution,"
        "natural selection,a food chain,a habitat,hibernation,migration,metamorphosis,an enzyme,a hormone,"
        "an antibody,a vaccine,blood pressure,an allergy,digestion,a calorie,protein,fiber,cholesterol,"
        "insulin,a parasite,pollination,a spore,chlorophyll,compost,a drought,a delta,a peninsula,"
        "a continent,plate tectonics,lava,a geyser,a monsoon,the ozone layer,the greenhouse effect,"
        "biodiversity,an invasive species,a monarchy,a republic,a senate,a treaty,an empire,feudalism,"
        "the Renaissance,the Industrial Revolution,a census,an election,a jury,a patent,copyright,"
        "a mortgage,a loan,interest,a stock,a bond,supply and demand,a recession,a monopoly,insurance,"
        "a pension,a startup,a sonnet,a haiku,irony,a simile,alliteration,a fable,a biography,satire,"
        "a still life,perspective in painting,impressionism,an opera,a chord,rhythm,jazz,a fugue,"
        "a compiler,an operating system,a router,encryption,a firewall,machine learning,a neural network,"
        "a search engine,the cloud,open source software,a spreadsheet,a pixel,bandwidth,a byte,"
        "a binary number,a square root,a logarithm,probability,a median,a right angle,a polygon,symmetry,"
        "an equation,infinity,a proverb,an idiom,a dialect,an alphabet,sign language,Morse code,etiquette,"
        "jet lag,a sundial,origami,yoga"
    ),
    "device": choices(
        "a refrigerator,a microwave oven,a vacuum cleaner,an elevator,a toilet,a zipper,a ballpoint pen,"
        "a pencil sharpener,a thermos,a mirror,a radio,a telephone,a touchscreen,a printer,a scanner,"
        "a digital camera,a loudspeaker,a microphone,an electric motor,a steam engine,a jet engine,"
        "a helicopter,a hot air balloon,a submarine,a parachute,a sailboat,a bicycle gear,a car brake,"
        "an airbag,a traffic light,a wind turbine,a solar panel,a hydroelectric dam,a nuclear power plant,"
        "a water filter,a pump,a siphon,a pendulum clock,a quartz watch,GPS,radar,sonar,an X-ray machine,"
        "a hearing aid,a pair of glasses,a fire extinguisher,a smoke detector,a lock and key,a bar code,"
        "a credit card,a piano,a trumpet,a pressure cooker,a toaster,a sewing machine,a light bulb,an LED,"
        "a battery,a heat pump,a greenhouse"
    ),
    "wonder": choices(
        "popcorn pops,ice is slippery,wood burns,a balloon sticks to hair,soap makes bubbles,"
        "the moon causes tides,we see lightning before we hear thunder,helium balloons rise,"
        "a compass points north,deserts are cold at night,leaves are green,bananas turn brown,"
        "bread gets moldy,salt melts ice,we get goosebumps,we dream,we blush,we hiccup,hair turns gray,"
        "we have fingerprints,dogs wag their tails,cats have whiskers,birds sing in the morning,"
        "fish can breathe under water,spiders make webs,snakes shed their skin,zebras have stripes,"
        "flamingos are pink,owls can see at night,geese fly in a V,mosquitoes bite,fireflies glow,"
        "chameleons change color,some trees lose their leaves,mountains have snow on top,rivers bend,"
        "there are time zones,we have leap years,planes leave white trails,tires have tread,"
        "golf balls have dimples,manhole covers are round,stop signs are red,violins have a hollow body,"
        "echoes happen,cans of soda fizz,coffee keeps people awake,spicy food feels hot,"
        "people have different accents,countries have different currencies,paper gets yellow,"
        "planets are round,Pluto is not called a planet,astronauts float,the sun looks red in the evening,"
        "fog forms in the morning"
    ),
    "person": choices(
        "Albert Einstein,Marie Curie,Isaac Newton,William Shakespeare,Leonardo da Vinci,Michelangelo,"
        "Mozart,Beethoven,Charles Darwin,Galileo Galilei,Mahatma Gandhi,Nelson Mandela,Abraham Lincoln,"
        "Vincent van Gogh,Pablo Picasso,Jane Austen,Mark Twain,Ada Lovelace,Alan Turing,Thomas Edison,"
        "Nikola Tesla,Marco Polo,Neil Armstrong,Florence Nightingale,Aristotle,Socrates,Cleopatra,"
        "Julius Caesar,Napoleon Bonaparte,Johann Sebastian Bach,Frida Kahlo,Rosa Parks,Genghis Khan,"
        "Joan of Arc,Queen Victoria,Catherine the Great,Winston Churchill,Amelia Earhart,"
        "the Wright brothers,Louis Pasteur,Gregor Mendel,Rosalind Franklin,Johannes Kepler,"
        "Nicolaus Copernicus,Archimedes,Pythagoras,Euclid,Confucius,Homer,Dante,Miguel de Cervantes,"
        "Leo Tolstoy,Franz Kafka,Emily Dickinson,Rembrandt,Claude Monet,Antonio Vivaldi,Frederic Chopin,"
        "Louis Armstrong,Charlie Chaplin,Walt Disney,Henry Ford,James Watt,Johannes Gutenberg,Alfred Nobel"
    ),
    "invention": choices(
        "the wheel,paper,the printing press,the telephone,the light bulb,the steam engine,the airplane,"
        "the bicycle,the camera,the computer,the internet,penicillin,the telescope,the microscope,"
        "the compass,gunpowder,the radio,television,the zipper,the pencil,glasses,the elevator,"
        "the refrigerator,plastic,concrete,the piano,the mechanical clock,vaccination,chocolate bars,"
        "the sandwich,the postage stamp,the typewriter,the sewing machine,the match,dynamite,"
        "the thermometer,the barometer,the battery,the helicopter,the rocket"
    ),
    "happening": choices(
        "the fall of the Roman Empire,the French Revolution,the American Civil War,the First World War,"
        "the Second World War,the Cold War,the moon landing,the fall of the Berlin Wall,"
        "the building of the pyramids,the Black Death,the Gold Rush,the sinking of the Titanic,"
        "the Great Depression,the discovery of penicillin,the first Olympic Games,"
        "the invention of printing,the Silk Road,the voyage of Magellan,the Boston Tea Party,"
        "the Great Fire of London,the building of the Eiffel Tower,the opening of the Suez Canal,"
        "the end of apartheid,the founding of the United Nations"
    ),
    "word": choices(
        "happy,sad,big,small,fast,slow,cold,hot,old,new,strong,weak,bright,dark,quiet,loud,brave,kind,"
        "clever,tired,angry,rich,beautiful,difficult,easy,important,strange,clean,early,empty,full,gentle,"
        "honest,huge,lazy,narrow,nervous,polite,proud,rare,rough,safe,serious,sharp,shy,simple,smooth,soft,"
        "sour,sweet,thick,thin,tiny,ugly,useful,wide,wild,wise,young,begin,break,build,buy,carry,close,"
        "destroy,find,forget,give,help,hide,laugh,learn,leave,lose,open,push,remember,shout,speak,throw,"
        "whisper,win"
    ),
    "noun": choices(
        "bread,water,house,dog,cat,tree,sun,moon,book,friend,school,child,mother,father,street,city,flower,"
        "river,mountain,sea,bird,fish,horse,apple,milk,cheese,wine,table,chair,window,door,car,train,ship,"
        "day,night,year,morning,evening,winter,summer,rain,snow,fire,stone,hand,head,heart,eye,song,letter,"
        "king,queen,love,peace,time,work,money,garden,kitchen"
    ),
    "language": choices("Spanish,French,German,Italian,Portuguese,Dutch,Swedish,Polish,Latin,Turkish"),
    "idiom": choices(
        "break the ice,a piece of cake,hit the books,under the weather,once in a blue moon,spill the beans,"
        "bite the bullet,call it a day,cut corners,get out of hand,hit the sack,let the cat out of the bag,"
        "miss the boat,on the ball,pull someone's leg,see eye to eye,the last straw,time flies,"
        "a blessing in disguise,better late than never,add insult to injury,barking up the wrong tree,"
        "beat around the bush,cost an arm and a leg,every cloud has a silver lining,"
        "kill two birds with one stone,raining cats and dogs,the ball is in your court,"
        "actions speak louder than words,practice makes perfect"
    ),
    "audience": choices(
        "a child,a beginner,a student,my grandmother,a ten-year-old,a friend,a classmate,"
        "someone who is new to it,a busy reader,my little brother,a group of tourists,a new colleague,"
        "a curious neighbor,a farmer,an artist"
    ),
    "length": choices(
        "in one sentence,in two sentences,in three sentences,in simple words,in a short paragraph,briefly,"
        "in less than 50 words,with an example,with a comparison from everyday life,"
        "without difficult words,in a funny way,step by step"
    ),
}

TRAIN = {
    "define": "Define <term>. <brief>",
    "meaning": 'What does the term "<term>" mean? <brief>',
    "never-heard": "I have never heard of <term>. Describe it <length>.",
    "example-of": "Give <audience> an example of <term> from everyday life. <brief>",
    "confused-about": "<name> is confused about <term>. What would you say to help? <brief>",
    "two-terms": "How are <term1> and <term2> connected, if at all? <brief>",
    "term-question": "Ask one question about <term> that could be in a test for <audience>, and answer it.",
    "myth": "What is a common misunderstanding about <term>? <brief>",
    "works": "How does <device> work? <brief>",
    "works-for": "Describe how <device> works to <audience> <length>.",
    "parts": "What are the main parts of <device>, and what does each do? Tell <audience>.",
    "without": "What did people use before there was <device>? <brief>",
    "broken": "What can go wrong with <device>? <brief>",
    "reason": "What is the reason that <wonder>? <brief>",
    "child-asks": 'A child asks: "I noticed that <wonder>. How come?" Answer <length>.',
    "really": "Is it true that <wonder>? <brief>",
    "who-line": "In which century did <person> live, and what did this person do? <brief>",
    "who-paragraph": "Tell <audience> about <person> <length>.",
    "meet": "If <audience> could ask <person> one question, what could it be, and why?",
    "two-people": "What did <person1> and <person2> each become known for?",
    "inventor": "Who invented <invention>, and when? <brief>",
    "changed": "How did <invention> change the way people live? <brief>",
    "happened": "What was <happening>? Tell <audience> <length>.",
    "consequence": "Name one cause and one result of <happening>, for <audience>. <brief>",
}

TEMPLATES = templates("questions", TRAIN, {}, RULES)

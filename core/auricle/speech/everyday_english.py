"""English sentences of everyday life, of 6 to 14 words each: own ones, and patterns that give thousands.

All are in small letters without punctuation, so that a phrase is found in them as it is spoken.
"""

from __future__ import annotations

from collections.abc import Mapping

_OWN = """
the kettle has been boiling for ages so switch it off
could you pass me the blue towel behind the door
my sister will be here around half past seven tonight
we forgot to buy onions and now the soup tastes flat
there is a thick fog over the harbour this morning
the weather forecast promises sunshine after a chilly start
please measure the flour twice before you add the eggs
our neighbours are having the roof repaired until thursday
he usually takes the early train and reads the paper
the council voted against the new bridge by nine to four
she left her umbrella under the seat of the bus
nobody knows why the washing machine makes that noise
grandfather always told us stories about his years at sea
i would rather stay at home and watch the match
put the leftovers into the fridge before they go bad
the children built a huge castle out of cardboard boxes
it rained so hard that the cellar was flooded again
a gentle breeze moved the curtains of the open window
did anybody feed the cat or should i do it
the doctor asked him to walk for an hour each day
we need eleven chairs and two long tables for the party
the price of petrol went up by six pence last week
your appointment has been moved to the twenty third of june
there are only three yoghurts left and both of us are hungry
i cannot find the charger of my old phone anywhere
she bought a pair of leather shoes for her brother's wedding
the museum is closed on mondays but the garden stays open
stir the sauce slowly until it gets thick and smooth
my boss needs the figures by noon and not a minute later
the judge refused to say anything about the measure
they found a treasure map in the attic of the old house
this shirt shrank in the wash and no longer fits me
turn down the oven when the crust is golden brown
the goalkeeper caught the ball with one hand and smiled
we watched a film about a lighthouse and its last keeper
in the evening the whole street smells of fresh bread
george and charlotte moved to a village near the coast
the teacher explained how the moon pulls at the oceans
you should water the roses early before it gets too hot
the plumber charged us ninety pounds for half an hour
i have been looking for my glasses since breakfast
a strange bird has been singing in our garden all week
the ferry leaves at quarter to eight from the north pier
uncle joe plays the violin though not very well
she has a cough and a fever so she stays in bed
how much longer does the chicken have to roast
the newspaper printed a picture of the broken dam
most of the shops in our town are shut on sundays
he promised to fix the fence as soon as he had time
would you like your coffee black or with a little milk
the car needs new tyres before the first snow falls
there was a large crowd in front of the theatre yesterday
my cousin works as a nurse at the children's hospital
we usually have porridge with honey and a sliced banana
the lift is broken again so we have to climb the stairs
thunder and lightning kept the dog awake the whole night
do not leave the ladder out where somebody could trip over it
a new bakery has opened next to the railway station
the minister denied that there had ever been such a plan
our flight was delayed because of thick ice on the runway
i grew up on a farm with goats sheep and a donkey
the recipe says a pinch of salt but i always take more
she reads a chapter to the twins before they fall asleep
they are painting the hallway yellow and the bathroom green
the bus driver waited until the old lady had sat down
we had a picnic by the river and swam in the cold water
the phone rang twice and then it went quiet again
he counted forty seven steps from the gate to the tower
could somebody close the window because there is a draught
the new teacher speaks french dutch and a bit of polish
my knees ache whenever the weather is about to change
she wore a purple scarf that her aunt had knitted
the firm makes valves for ships and has eighty workers
it takes about two hours to drive from here to the border
the baby has just learnt to crawl and is into everything
they argued about money and then had a cup of tea
i think the garage door should be oiled at the weekend
the river rose by a metre within a single afternoon
a voice on the radio spoke about the price of wheat
he joined the choir although he can hardly hold a tune
please sign here and write today's date beside your name
the potatoes are boiled and the beans will be done shortly
each of the rooms has a view over the orchard
we could not hear the speech because of the noisy crowd
her usual route to school leads through a small wood
the strikers want better pay and shorter shifts
there is a spare key beneath the third flower pot
it was too warm for a jacket and too cool without one
the mechanic thinks that the engine will last another year
they served us fish with rice and a very hot sauce
every autumn we gather apples and make juice from them
my father shaves with the same razor that he had at twenty
she chose the cheapest ticket and had to change trains twice
the vision test at the optician's took only ten minutes
a truck lost its load of bricks near the roundabout
the power went off so we lit candles and told jokes
i owe you eighteen euros for the cinema and the pizza
the weeds grow faster than i can pull them out
he whistled a tune that none of us had heard before
would you check whether the back door is properly locked
the choice was between a long walk and a short swim
we all enjoyed the show except for the boring speech at the end
six thick thistle sticks lay beside the path to the beach
there is usually an azure sky above the lake in july
the engineer drew a rough sketch on the edge of the page
an early frost has damaged most of the young vines
my wife plays chess online with somebody from norway
i must have dropped my gloves while we were crossing the square
this jar of strawberry jam was made by my great aunt
the guests are due at six and nothing is ready yet
did you remember to lock the bicycle to the railing
she prefers a hard mattress and only a thin pillow
the vet gave our rabbit an injection against the disease
on clear nights you can see jupiter with the naked eye
they decided to plant a cherry tree next to the pond
the chemist on the corner closes at quarter past six
we should leave soon if we want to catch the ferry
the mayor opened the fair with a very short speech
you will need a sharp knife and a chopping board
i read in the journal that coffee may be good for you
he fell off his horse but was not seriously hurt
the tap in the upstairs bathroom drips all night long
paul weighs a little less than he did a year ago
in spring the paths through the wood are soft and muddy
a parcel for you is waiting at the neighbour's house
sixty thousand people came to hear the orchestra play
they moved the piano across the room with great difficulty
grace wants to be a pilot or perhaps a zoo keeper
the shop assistant could not find the right size of boots
keep the receipt in case you want to exchange the lamp
the wind has turned and now blows from the north west
our train stood still in a tunnel for half an hour
i would like two tickets for the show on friday please
her handwriting is so small that i need my reading glasses
the bank sent a letter about the new rates of interest
the soup needs another spoonful of cream and some parsley
some of the pupils have never been outside the city
his speech began with a joke that nobody understood
the cheapest hotel was full so we slept in the van
the new road will shorten the journey by twelve minutes
a fox has dug a hole beneath the wall of the churchyard
we use the big pan for pancakes and the small one for eggs
the jury took less than an hour to reach its decision
she poured the tea and handed round a plate of biscuits
the cost of heating has almost doubled since the winter
mister yates runs a bookshop and a cafe on bridge street
i always mix up the months of june and july
the sheep had escaped through a gap in the hedge
there were thirteen boys and seventeen girls in his class
my jacket is hanging on the hook behind the bedroom door
the choir will sing three songs by a young composer
take the second road on the left after the petrol station
it was a pleasure to meet you and your whole family
the referee blew his whistle and everybody stopped at once
we cooked far too much pasta and froze what was left
the lights along the beach go out at midnight
uncle theo grows leeks cabbages and enormous pumpkins
they have postponed the launch of the rocket until further notice
whether we go for a walk depends on the weather
"""

OWN_SENTENCES = tuple(_OWN.strip().splitlines())
"""Sentences that were written one by one."""

_WORDS = {
    "person": "my brother, our neighbour, the old teacher, aunt judith, young oliver, the nurse, victoria, your uncle "
    "george, a friend of mine, the plumber, mister hughes, doctor shaw, the girl next door, his wife, jonathan",
    "did": "bought, washed, carried, fetched, borrowed, found, lost, painted, repaired, moved, checked, sold, dropped, "
    "measured, wrapped",
    "thing": "the wooden chair, a yellow jug, the garden hose, three thick books, the broken vase, two woollen "
    "jumpers, an orange cushion, the small mirror, a box of matches, that heavy suitcase, the church bell, "
    "a loaf of rye bread, his leather belt, the fishing rod, some old photographs",
    "when": "this morning, on tuesday, last week, before lunch, after the news, late at night, in july, just now, "
    "the day before yesterday, over the weekend, around noon, a month ago",
    "place": "in the kitchen, behind the shed, near the station, at the market, under the stairs, beside the pool, "
    "on the balcony, in the village hall, by the fireplace, at the end of the road, outside the bakery",
    "weather": "sunny, foggy, rather cold, much too hot, windy, cloudy, quite mild, stormy, icy, unusually dry",
    "region": "the north, the south coast, the valley, the mountains, most of the country, the islands, the east",
    "food": "carrots, mushrooms, chopped onions, boiled rice, smoked fish, fresh peas, sliced ginger, the beans, "
    "roast chicken, peppers, grated cheese, garlic",
    "do": "chop, fry, rinse, add, weigh, taste, stir in, cool, warm, serve",
    "minutes": "two, four, five, six, eight, nine, eleven, twelve, fifteen, twenty, thirty five, forty",
    "job": "the report, this letter, the budget, the new website, the training, our schedule, the contract, the survey",
    "group": "the council, the union, a large bank, the police, the airline, the railway, the government, the school",
    "action": "cut the price of tickets, close two bridges, hire sixty people, change the rules, open a new branch, "
    "raise the fees by a fifth, share the figures, plant a thousand trees, stop the night trains",
    "street": "chapel street, harbour road, church lane, the high street, green avenue, mill lane, king's crescent",
}

WORDS: Mapping[str, tuple[str, ...]] = {name: tuple(words.split(", ")) for name, words in _WORDS.items()}
"""What may stand at a named place of a pattern."""

PATTERNS = (
    "{person} {did} {thing} {when}",
    "{when} {person} {did} {thing} {place}",
    "i saw {thing} {place} {when}",
    "is {thing} still {place} where {person} left it",
    "it will be {weather} in {region} and {weather} later on",
    "tomorrow should be {weather} with a little rain over {region}",
    "{do} {food} for {minutes} minutes and then {do} {food}",
    "first {do} {food} and leave it for about {minutes} minutes",
    "{person} has to finish {job} within {minutes} days",
    "did {person} say anything about {job} {when}",
    "{group} wants to {action} within {minutes} weeks",
    "according to {person} {group} may {action}",
    "the house at number {minutes} {street} belongs to {person}",
    "{person} lives {minutes} miles from {street} as far as i know",
)
"""Sentences with places to fill from `WORDS`."""
